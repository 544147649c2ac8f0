"""Finite numbers on the command line."""

from __future__ import annotations

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A range of numbers without `nan`, which is in every range and switches limits off, and without `inf`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; fail for one that is not finite."""
        found = super().convert(value, param, ctx)
        if found is not None and not math.isfinite(found):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return found
