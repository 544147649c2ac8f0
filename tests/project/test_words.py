"""Words that this project used before it took those of the field do not come back."""

from __future__ import annotations

import re

from locations import ROOT

# The old word, and the one to use.
_OLD = {
    "duel": "comparison",
    "challenger": "candidate",
    "contender": "variant",
    "referee": "runner",
    "standin": "placeholder",
    "second look": "retest",
    "could not be told": "could not be determined",
    "cannot be told": "cannot be determined",
    "answers no more": "stopped responding",
    "none is needed": "no action needed",
    "to mend": "to fix",
}
_PATTERN = re.compile("|".join(rf"\b{re.escape(word)}s?\b" for word in _OLD), re.IGNORECASE)
_FOLDERS = ("doctor", "checks", "perf_tests", "docs", "examples")
_KEPT = {"doctor/model/facts/schema_1.py"}  # readers of older documents


def test_old_words_do_not_come_back() -> None:
    found = []
    for path in (
        ROOT / "README.md",
        ROOT / "action.yml",
        *(each for name in _FOLDERS for each in (ROOT / name).rglob("*")),
    ):
        place = str(path.relative_to(ROOT))
        if path.suffix in {".py", ".md", ".jinja", ".yml", ".toml", ".json"} and place not in _KEPT:
            for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
                if word := _PATTERN.search(line):
                    old = next(each for each in _OLD if word[0].lower().startswith(each))
                    found.append(f"{place}:{number}: {word[0]!r}: write {_OLD[old]!r}")
    assert found == []
