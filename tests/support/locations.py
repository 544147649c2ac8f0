"""Where the project's folders are."""

from __future__ import annotations

import pathlib

TESTS = pathlib.Path(__file__).parents[1]
ROOT = TESTS.parent
# The record of each machine under tests/machines, by name: synthetic ones, and recorded ones with their source.
RECORDS = {path.parent.name: path for path in sorted(TESTS.glob("machines/*/*/facts.json"))}
