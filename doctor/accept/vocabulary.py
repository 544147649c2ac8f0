"""The names that a profile may use: of checks, causes, suites, comparisons and metrics."""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from tfgpu_doctor.bench import is_own, suite_of
from tfgpu_doctor.diagnose.selection import Selection, UnknownId
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.knowledge import read_knowledge

ALL_REDUCE = "all-reduce"
FOLDER = os.path.dirname(os.path.abspath(__file__))


class ProfileError(ValueError):
    """A profile is invalid; the message names the place and what to write there."""


class _Measured(msgspec.Struct, frozen=True):
    """The names of what each suite measures."""

    about: str
    units: dict[str, dict[str, str]]
    metrics: dict[str, tuple[str, ...]]
    comparisons: dict[str, tuple[str, ...]]


@functools.cache
def _measured() -> _Measured:
    return msgspec.json.decode(Files().read_bytes(os.path.join(FOLDER, "comparisons.json")), type=_Measured)


def measured_names() -> tuple[Mapping[str, Sequence[str]], Mapping[str, Sequence[str]]]:
    """Return the names of comparisons and of metrics with a limit, by suite."""
    return _measured().comparisons, _measured().metrics


def comparisons_named(key: str) -> tuple[tuple[str, str], ...]:
    """Return suite and name of each comparison that "suite" or "suite/comparison" refers to."""
    return _named(key, _measured().comparisons)


def metrics_named(key: str) -> tuple[tuple[str, str], ...]:
    """Return suite and name of each metric that "suite" or "suite/metric" refers to."""
    return _named(key, _measured().metrics)


def suite_metric(key: str) -> tuple[str, str]:
    """Return suite and name of the metric that "suite/metric" refers to; `all-reduce` is the largest of several."""
    suite, _, name = key.partition("/")
    return ("mirrored_strategy", ALL_REDUCE) if key == ALL_REDUCE else (suite, name)


def all_reduces() -> tuple[str, ...]:
    """Return the metrics of the all-reduce among the GPUs of a machine, the smallest message first."""
    return tuple(name for name in _measured().units["mirrored_strategy"] if name.startswith(f"{ALL_REDUCE} of "))


def suite_units() -> Mapping[str, str]:
    """Return the unit of each metric of the doctor's suites that a requirement in units can name, by "suite/metric"."""
    found = {f"{suite}/{name}": unit for suite, units in _measured().units.items() for name, unit in units.items()}
    return {ALL_REDUCE: "GB/s", **found}


def _named(key: str, table: Mapping[str, Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """Return the names that the key refers to. Nobody knows those of a user's own suite before it runs: any is one."""
    suite, _, name = key.partition("/")
    if suite not in _measured().comparisons:
        return ((suite, name),) if name else ()
    return tuple((suite, each) for each in table.get(suite, ()) if name in ("", each))


@dataclass(frozen=True)
class Vocabulary:
    """The known names. `complete`: no plugin's checks are missing from `checks`."""

    checks: Sequence[str]
    complete: bool = True
    suites: Sequence[str] = field(default_factory=lambda: tuple(_measured().comparisons))

    def refuse_unknown_checks(self, words: Iterable[str], place: str) -> None:
        """Validate ids, or the letters that they begin with. Raises ProfileError."""
        try:
            Selection(select=tuple(words)).validate(self.checks, complete=self.complete)
        except UnknownId as error:
            raise ProfileError(f"{place}: {error}") from error

    def refuse_unknown_check(self, id: str, place: str) -> None:
        """Validate one complete id. Raises ProfileError."""
        if self.complete:
            refuse_unknown(id, self.checks, place, "check")

    def refuse_unknown_cause(self, label: str, place: str) -> None:
        """Validate the label of a cause. Raises ProfileError."""
        refuse_unknown(label, tuple(read_knowledge().causes), place, "cause")

    def refuse_unknown_suite(self, name: str, place: str) -> None:
        """Validate a suite, or the path of a user's own. Raises ProfileError."""
        if not is_own(name):
            refuse_unknown(name, self.suites, place, "suite")
        elif suite_of(name) in self.suites:
            raise ProfileError(f"{place}: the doctor has a suite {suite_of(name)!r} of its own: rename {name}")

    def refuse_unknown_comparison(self, key: str, place: str, own: Collection[str]) -> None:
        """Validate a suite with comparisons, or one comparison; `own`: the user's suites. Raises ProfileError."""
        if key in own:
            raise ProfileError(f"{place}: name the comparisons of your own suite: {key}/NAME")
        if not comparisons_named(key) or key.partition("/")[0] not in {*own, *self.suites}:
            refuse_unknown(key, _keys(_measured().comparisons), place, "comparison")

    def refuse_unknown_metric(self, key: str, place: str) -> None:
        """Validate a suite with metrics that have a limit, or one such metric. Raises ProfileError."""
        if not metrics_named(key) or key.partition("/")[0] not in self.suites:
            refuse_unknown(key, _keys(_measured().metrics), place, "metric with a hardware limit")


def _keys(table: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    keys = [f"{suite}/{name}" for suite, names in table.items() for name in names]
    return (*keys, *(suite for suite, names in table.items() if names))


def refuse_unknown(word: str, known: Sequence[str], place: str, kind: str) -> None:
    """Raise ProfileError with the most similar known word if a word is unknown."""
    if word not in known:
        raise ProfileError(f"{place}: there is no {kind} {word!r}; {nearest(word, known)}")


def nearest(word: str, known: Sequence[str]) -> str:
    """Suggest the most similar known word, or list the first known words."""
    by_lower = {each.lower(): each for each in known}
    begun = [each for each in by_lower if word and each.startswith(word.lower())]
    near = begun or difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.5)
    if near:
        return f"did you mean {by_lower[near[0]]}?"
    few = ", ".join(known[:12])
    return f"there are {few}{', ...' if len(known) > 12 else ''}"
