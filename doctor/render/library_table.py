"""The libraries that TensorFlow opens, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary
from tfgpu_doctor.model.plain_text import in_lines


def libraries_document(resolution: Resolution, reason: str = "") -> dict[str, Any]:
    """Return the document of `tfgpu-doctor libraries --format json`; each row has every field of ResolvedLibrary.

    `reason`: why nothing could be examined; empty if the libraries were.
    """
    rows = [{name: getattr(each, name) for name in each.__struct_fields__} for each in resolution.libraries]
    return {
        "schema": 1,
        "libraries": rows,
        "opener": resolution.opener,
        "search_folders": resolution.search_folders,
        "reason": reason,
    }


def render_libraries(resolution: Resolution, *, verbose: bool = False) -> str:
    """Return a table with one row per library, and below it the details of those that were not found."""
    from tabulate import tabulate

    resolution = in_lines(resolution)
    rows = [_row(each) for each in resolution.libraries]
    table = tabulate(rows, headers=("", "library", "version", "provided by", "found through"), tablefmt="simple")
    parts = [table, *_troubles(resolution.libraries)]
    if verbose:
        parts.append(_paths(resolution))
    return "\n\n".join(parts) + "\n"


def _row(library: ResolvedLibrary) -> tuple[str, ...]:
    mark = "✓" if library.found else ("✗" if library.needed_by_tensorflow else "-")
    refused = "cannot be loaded" if library.error or len(library.missing_chain) > 1 else "not found"
    place = library.found_by if library.found else refused
    return mark, library.soname, library.version, library.origin.replace(f" {library.version}", "", 1), place


def _troubles(libraries: Sequence[ResolvedLibrary]) -> list[str]:
    """Return a paragraph for each library that was not found, and for each whose copy hides another."""
    return [_missing(each) for each in libraries if not each.found] + [
        f"{each.soname}: {each.path} is used, and hides\n" + "\n".join(f"    {path}" for path in each.shadowed)
        for each in libraries
        if each.shadowed
    ]


def _missing(library: ResolvedLibrary) -> str:
    use = ""
    if not library.needed_by_tensorflow:
        use = (
            f"{library.asked_by} opens it for some operations"
            if library.asked_by
            else "not needed to compute on one GPU"
        )
        use = f" ({use})"
    places = [f"    a copy is at {path}, which the loader does not search" for path in library.elsewhere]
    chain = [f"    {' needs '.join(library.missing_chain)}"] if len(library.missing_chain) > 1 else []
    if library.error:
        lines = [f"{library.soname} cannot be loaded{use}", f"    {library.error}", *chain]
    elif chain:
        needed = library.missing_chain[-1]
        where = "which the loader does not find" if places else "of which there is no copy in any known location"
        lines = [f"{library.soname} cannot be loaded{use}: it needs {needed}, {where}"]
        lines += [f"    it is at {library.path}"] if library.path else []
        lines += chain if len(library.missing_chain) > 2 else []
    else:
        lines = [f"{library.soname} was not found{use}"]
        places = places or ["    there is no copy in any known location"]
    return "\n".join([*lines, *places])


def _paths(resolution: Resolution) -> str:
    found = [f"{each.soname}\n    {each.path}" for each in resolution.libraries if each.found]
    looked = [f"    {folder}" for folder in resolution.search_folders]
    return "\n".join([*found, f"opened from {resolution.opener}, which searches", *looked])
