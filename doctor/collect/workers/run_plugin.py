"""Describe the checks of a plugin, or run one of them: a plugin may hang, print, or end the process that it runs in.

Runs in a child process of the doctor's own Python. argv: "describe", the value of an entry point ("module:attribute");
or "run", that value, the id of a check, and a file with the facts that it needs. Writes one line of JSON to the
standard output that it was started with: {"checks": [...]}, {"findings", "evidence"}, {"skip", "not_measured",
"cannot_tell"} or {"error"}.
"""

from __future__ import annotations

import importlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_MOST = 1000  # what a check may yield


def main() -> None:
    """Do what argv says, and tell."""
    answer = os.dup(1)
    os.dup2(2, 1)  # what the plugin prints
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]
    try:
        line = _line(_told(sys.argv[1:]))
    except BaseException as problem:  # noqa: BLE001 - also SystemExit
        words = "%s: %s" % (type(problem).__name__, problem)
        line = _line({"error": words.encode("utf-8", "replace").decode()})
    with os.fdopen(answer, "wb") as stream:
        stream.write(line)
    os._exit(0)


def _line(told: dict[str, Any]) -> bytes:
    import msgspec

    return bytes(msgspec.json.encode(told)) + b"\n"


def _told(argv: list[str]) -> dict[str, Any]:
    checks = _checks(_loaded(argv[1]))
    if argv[0] == "describe":
        return {"checks": [_description(check) for check in checks]}
    (check,) = (each for each in checks if each.id == argv[2])
    return _outcome(check, argv[3])


def _loaded(value: str) -> Any:
    module, _, attribute = value.partition(":")
    found = importlib.import_module(module)
    for name in filter(None, attribute.split(".")):
        found = getattr(found, name)
    return found


def _checks(found: Any) -> list[Any]:
    from tfgpu_doctor.model import Check

    listed = [found] if isinstance(found, Check) else list(found)
    for each in listed:
        if not isinstance(each, Check):
            raise TypeError("%r is not a check: create it with the decorator tfgpu_doctor.model.check" % (each,))
    return listed


def _description(check: Any) -> dict[str, Any]:
    fields = ("id", "title", "after", "causes", "sources", "needs", "optional", "family", "tags", "goal", "explanation")
    return {"stage": int(check.stage), **{name: getattr(check, name) for name in fields}}


def _outcome(check: Any, path: str) -> dict[str, Any]:
    from tfgpu_doctor.model import CannotTell, Evidence, Finding, NotMeasured, Skip

    try:
        yielded = list(_bounded(check.function(**_given(check, path)) or ()))
    except Skip as skip:
        kinds = {"not_measured": isinstance(skip, NotMeasured), "cannot_tell": isinstance(skip, CannotTell)}
        return {"skip": str(skip), **kinds}
    for each in yielded:
        if not isinstance(each, (Finding, Evidence)):
            raise TypeError("it yielded %.200r, which is no Finding and no Evidence" % (each,))
    return {
        "findings": [each for each in yielded if isinstance(each, Finding)],
        "evidence": [each.text for each in yielded if isinstance(each, Evidence)],
    }


def _given(check: Any, path: str) -> dict[str, Any]:
    from tfgpu_doctor.knowledge import read_knowledge
    from tfgpu_doctor.model.facts import decode_facts

    with open(path, "rb") as file:
        facts = decode_facts(file.read())
    given = {name: getattr(facts, name, None) for name in (*check.needs, *check.optional)}
    if "knowledge" in given:
        given["knowledge"] = read_knowledge()
    return {name: value for name, value in given.items() if value is not None}


def _bounded(yielded: Any) -> Iterator[Any]:
    for number, each in enumerate(yielded):
        if number == _MOST:
            raise ValueError("it yielded more than %d results" % _MOST)
        yield each


if __name__ == "__main__":
    main()
