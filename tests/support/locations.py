"""Where the project's folders are."""

from __future__ import annotations

import pathlib

TESTS = pathlib.Path(__file__).parents[1]
ROOT = TESTS.parent
