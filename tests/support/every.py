"""Tests of many rows: all rows as one test, which names each that is bad, or each as a test, most of them slow."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def _all(*values: object) -> str:
    return ", ".join(map(str, values))


def every(names: str, rows: Iterable[Any], key: Callable[..., object] = _all, least: int = 1) -> Callable[[Test], Test]:
    """Like pytest.mark.parametrize, but as one item: `@every("gpu", GPUS, key=lambda gpu: gpu.name)`.

    `names` are the test's parameters that a row fills, separated by commas; `key` tells rows apart in the message.
    A row that skips is one less; where every row skips, or fewer than `least` rows are there, the test says so.
    """
    wanted = [name.strip() for name in names.split(",")]
    listed = list(rows)

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            assert len(listed) >= least, f"{len(listed)} rows, at least {least} are expected"
            bad, skipped = [], []
            for row in listed:
                values = row if len(wanted) > 1 else (row,)
                try:
                    test(**fixtures, **dict(zip(wanted, values, strict=True)))
                except pytest.skip.Exception as reason:
                    skipped.append(str(reason))
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - each bad row is told, whatever it raised
                    bad.append(f"{key(*values)}: {type(error).__name__}: {error}")
            if bad:
                pytest.fail(f"{len(bad)} of {len(listed)}:\n" + "\n\n".join(bad), pytrace=False)
            if skipped and len(skipped) == len(listed):
                pytest.skip(skipped[0])

        signature = inspect.signature(test)
        kept = [each for name, each in signature.parameters.items() if name not in wanted]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        del run.__wrapped__
        return run

    return decorate


def sampled(values: Iterable[Any], step: int) -> list[Any]:
    """Values for pytest.mark.parametrize: one in `step` is tested always, the others with --full alone."""
    return [
        pytest.param(value, marks=() if place % step == 0 else pytest.mark.slow) for place, value in enumerate(values)
    ]
