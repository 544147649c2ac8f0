"""The comparison of a folder as the commands make it: with the expected nodes and the known issues, or one line why not."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfgpu_doctor._project import install
from tfgpu_doctor.cli.output import refuse
from tfgpu_doctor.host.files import working_folder_is_gone
from tfgpu_doctor.host.json_text import decode_json

if TYPE_CHECKING:
    from tfgpu_doctor.fleet.fleet import Fleet
    from tfgpu_doctor.fleet.known import KnownIssue
    from tfgpu_doctor.fleet.merge import Golden
    from tfgpu_doctor.fleet.store import Store

_MOST_NAMES_BYTES = 64 << 20


def compared(
    folder: str,
    *,
    expect: str | None = None,
    golden: str | None = None,
    history: Sequence[str] = (),
    store: str | None = None,
    known: str | None = None,
) -> Fleet:
    """Return the comparison of the reports in a folder; refuse what cannot be read."""
    require_extra()
    from tfgpu_doctor.fleet.merge import merge

    expected = expected_names(folder, expect)
    reference = _golden(golden) if golden else ""
    issues = _known(known) if known else ()
    earlier = _store(store, history) if store else None
    _refuse_unreadable((folder, *history))
    try:
        return merge(folder, golden=reference, expected=expected, history=history, store=earlier, issues=issues)
    except KeyError:
        refuse(f"--golden {golden} is neither a file nor a node that reported in {folder}")


def require_extra() -> None:
    """Refuse to go on where the extra `fleet` is not installed."""
    if lacking := [name for name in ("duckdb", "numpy") if importlib.util.find_spec(name) is None]:
        refuse(f"{' and '.join(lacking)} cannot be imported here; install the extra fleet: {install('fleet')}")


def _refuse_unreadable(folders: Sequence[str]) -> None:
    if working_folder_is_gone():
        refuse("the working folder is gone: change into one that exists")  # DuckDB needs one
    for folder in folders:
        try:
            os.listdir(folder)
        except OSError as error:
            refuse(f"{folder} cannot be read: {error.strerror or error}")


def _store(path: str, history: Sequence[str]) -> Store:
    from tfgpu_doctor.fleet.store import Store, StoreError

    if history:
        refuse("--history and --store exclude each other: both give the earlier runs")
    try:
        return Store(path)
    except StoreError as error:
        refuse(str(error))


def _known(path: str) -> tuple[KnownIssue, ...]:
    from tfgpu_doctor.fleet.known import KnownError, read_known

    try:
        return read_known(path)
    except KnownError as error:
        refuse(str(error))


def _golden(golden: str) -> str | Golden:
    import msgspec

    from tfgpu_doctor.fleet.merge import golden_of
    from tfgpu_doctor.fleet.reports_read import Heard, decode
    from tfgpu_doctor.host.files import Files

    if not Files().exists(golden) or os.path.isdir(golden):
        return golden
    try:
        heard = decode(Files().read_bytes(golden))
    except OSError as error:
        refuse(f"{golden} cannot be read: {error.strerror or error}")
    if not isinstance(heard, Heard):
        refuse(f"{golden} cannot be used as the golden node: {heard}")
    try:
        return golden_of(heard)
    except msgspec.DecodeError as error:
        refuse(f"{golden} cannot be used as the golden node: {error}")


def expected_names(folder: str, expect: str | None) -> list[str] | None:
    """Return the names of the expected nodes, or None if no list is given."""
    from tfgpu_doctor.fleet.reports_read import EXPECTED_FILE
    from tfgpu_doctor.host.files import Files

    path = expect or os.path.join(folder, EXPECTED_FILE)
    if not Files().exists(path):
        return _expanded("--expect", expect) if expect else None
    try:
        content = Files().read_bytes(path, _MOST_NAMES_BYTES)
    except OSError as error:
        refuse(f"{path} cannot be read: {error.strerror or error}")
    found = _names(path, content)
    if expect and not found:
        refuse(f"--expect {path} names no node")
    return found


def _expanded(source: str, names: str) -> list[str]:
    """Return names separated by commas, also as Slurm (n[1-3]) and kubectl (node/n1) write them.

    Refuse more than a cluster has. `source`: where they stand.
    """
    from tfgpu_doctor.fleet.launched import expand

    try:
        return list(expand(",".join(filter(None, (each.strip().removeprefix("node/") for each in names.split(","))))))
    except ValueError as error:
        refuse(f"{source}: {error}")


def _names(path: str, content: bytes) -> list[str]:
    import msgspec

    if not content.lstrip().startswith(b"["):
        lines = filter(None, map(str.strip, content.decode("utf-8", "replace").splitlines()))
        return [name for line in lines for name in _expanded(path, line)]
    try:
        return decode_json(content, list[str])
    except msgspec.DecodeError as error:
        refuse(f"{path} is not a list of node names: {error}")
