"""The checks that are shown and counted: --select and --ignore, by id or by the letters that ids begin with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from tfgpu_doctor.model.report import IGNORED, Result


class UnknownId(ValueError):
    """No check has this id or prefix; the message suggests a similar one."""

    def __init__(self, word: str, hint: str) -> None:
        super().__init__(f"no check is called {word!r}{hint} (`tfgpu-doctor check --list` lists all checks)")
        self.word = word


@dataclass(frozen=True)
class Selection:
    """Ids ("DRV002") or prefixes ("DRV"); an empty `select` means all. `ignore` has priority."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def validate(self, ids: Sequence[str], *, complete: bool = True) -> None:
        """Raise UnknownId if a word of the selection matches no check, unless some checks could not be loaded."""
        for word in (*self.select, *self.ignore):
            if complete and not any(fits(word, id) for id in ids):
                raise UnknownId(word, nearest(word, ids))

    def apply(self, results: Sequence[Result], prerequisites: Mapping[str, frozenset[str]]) -> list[Result]:
        """Return the results to show: the selected ones, and failed ones that block any of them."""
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
        return not self.select or any(fits(word, id) for word in self.select)

    def _ignores(self, id: str) -> bool:
        return any(fits(word, id) for word in self.ignore)


def nearest(word: str, names: Iterable[str]) -> str:
    """Return "; did you mean NAME?" for the most similar name, in whatever case; empty if none is similar."""
    import difflib

    by_capitals = {name.upper(): name for name in names}
    near = difflib.get_close_matches(word.upper(), by_capitals, n=1)
    return f"; did you mean {by_capitals[near[0]]}?" if near else ""


def fits(word: str, id: str) -> bool:
    """Whether a word is the id of that check, or the letters that it begins with."""
    return word.upper() in (id, id.rstrip("0123456789"))


def _ignored(result: Result) -> Result:
    return msgspec.structs.replace(result, outcome="skip", reason=IGNORED, findings=(), evidence=(), blocked_by=())
