"""Which checks are shown and count: --select and --ignore, by id or by the letters that ids begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from tfgpu_doctor.model.report import Result

IGNORED = "ignored by the configuration"  # the reason of a check that the user leaves out


class UnknownId(ValueError):
    """An id or prefix that no check bears; the message proposes what may have been meant."""


@dataclass(frozen=True)
class Selection:
    """Ids ("DRV002") or prefixes ("DRV"); an empty `select` means all. `ignore` wins."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def validate(self, ids: Sequence[str], *, complete: bool = True) -> None:
        """Raise UnknownId where a word of the selection fits no check; not when some checks could not be loaded."""
        for word in (*self.select, *self.ignore):
            if complete and not any(_fits(word, id) for id in ids):
                import difflib

                near = difflib.get_close_matches(word.upper(), ids, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise UnknownId(f"no check is called {word!r}{hint} (`tfgpu-doctor check --list` names them all)")

    def apply(self, results: Sequence[Result], prerequisites: Mapping[str, frozenset[str]]) -> list[Result]:
        """The results to show: those selected, and a failed one that keeps any of them from being judged."""
        wanted = {result.id for result in results if self._wants(result.id)}
        needed = {id for each in wanted for id in prerequisites.get(each, ())}
        shown: list[Result] = []
        for result in results:
            if self._ignores(result.id):
                if result.id in wanted or not self.select:
                    shown.append(_ignored(result))
            elif result.id in wanted or (result.id in needed and result.outcome == "fail"):
                shown.append(result)
        return shown

    def _wants(self, id: str) -> bool:
        return not self.select or any(_fits(word, id) for word in self.select)

    def _ignores(self, id: str) -> bool:
        return any(_fits(word, id) for word in self.ignore)


def _fits(word: str, id: str) -> bool:
    return word.upper() in (id, id.rstrip("0123456789"))


def _ignored(result: Result) -> Result:
    return msgspec.structs.replace(result, outcome="skip", reason=IGNORED, findings=(), evidence=(), blocked_by=())
