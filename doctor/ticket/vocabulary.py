"""Words that do not identify the user of a machine: the only words that a ticket may contain."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from tfgpu_doctor.host import Files
from tfgpu_doctor.knowledge import Knowledge, read_knowledge

OF_EVERYBODY = (
    "github.com",
    "gitlab.com",
    "www.kaggle.com",
)  # hosts where the first part of a path is the name of an account
_RUNS = re.compile(r"[1-3]D|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")  # Conv2DBackprop
_NUMBERED = re.compile(r"([a-z]{2,})(\d{1,4})[a-z]?")
_HEXADECIMAL = re.compile(r"[a-f]+")
_OWNER = re.compile(rf"https?://((?:{'|'.join(map(re.escape, OF_EVERYBODY))})/[\w.-]+)")
_TORVALDS = frozenset({"github.com/torvalds"})  # a message of TensorFlow names a page of the kernel's sources
_LAST_TAG = re.compile(r"-cu1\d$")
_SHORTEST = 3  # letters; shorter words from the tables are practically random, unlike those on the list


@dataclass(frozen=True)
class Vocabulary:
    """Words of texts, names of folders, packages and programs, and `fixed`: words that a diagnosis may depend on."""

    words: frozenset[str]
    folders: frozenset[str]
    packages: frozenset[str]
    programs: frozenset[str]
    variables: frozenset[str]
    versions: frozenset[str]  # that occur in the tables
    hosts: frozenset[str]  # of public pages that messages refer to
    owners: frozenset[str]  # of such pages on hosts where everybody may have one: "github.com/tensorflow"
    fixed: frozenset[str]

    def has_word(self, word: str) -> bool:
        """Whether a run of letters and digits is a known word, joined known words (cuInit), or one with a number (cuda12)."""
        small = word.lower()
        if small in self.words:
            return True
        if numbered := _NUMBERED.fullmatch(small):
            return numbered[1] in self.words
        runs = _RUNS.findall(word)
        return (
            len(runs) > 1
            and "".join(runs) == word
            and all(len(run) > 1 and (run[0].isdigit() or run.lower() in self.words) for run in runs)
        )

    def has_package(self, name: str) -> bool:
        """Whether a distribution is public."""
        name = re.sub(r"[-_.]+", "-", name).lower()
        if name in self.packages:
            return True
        parts = _LAST_TAG.sub("", name).split("-")
        return parts[0] == "nvidia" and len(parts) > 1 and all(part in self.words for part in parts)


@functools.cache
def read_vocabulary() -> Vocabulary:
    """Read the lists in this folder, and the words of the tables."""
    words, folders = _list("words"), _list("folders")
    tables = dict(_tables(read_knowledge()))
    phrases = {name: {word for text in texts for word in _words(text, words)} for name, texts in tables.items()}
    packages = _list("packages")
    matched = _matched_words(words) | phrases["variables"] | phrases["_opened_libraries"]
    every = {text for texts in tables.values() for text in texts}
    systems = {text.rstrip("*") for text in tables["batch_systems"] if re.fullmatch(r"[A-Z_a-z]+\*?", text)}
    return Vocabulary(
        words=words.union(*phrases.values(), {part for name in packages for part in _words(name, words)}),
        folders=folders | packages,
        packages=packages,
        programs=_list("programs"),
        variables=frozenset(read_knowledge().variables) | systems,
        versions=frozenset(
            found for text in every for found in re.findall(r"(?<![\w.])\d+(?:\.\d+){3}(?![\w.])", text)
        ),
        hosts=frozenset(found for text in every for found in re.findall(r"https?://([a-z0-9.-]+)", text)),
        owners=_TORVALDS.union(found.lower() for text in every for found in _OWNER.findall(text)),
        fixed=frozenset({word for word in matched if word.isalpha()} | {name.lower() for name in folders}),
    )


def _matched_words(listed: frozenset[str]) -> set[str]:
    """Return the words of the signatures and rules that decide; families of messages only quote a line."""
    knowledge = read_knowledge()
    families = {each.name for each in knowledge.log_messages}
    own = [
        *(row for row in knowledge.log_signatures if row.name not in families),
        *(rule for rule in knowledge.log_rules if not families.intersection(rule.any)),
    ]
    return {word for text in _strings(msgspec.to_builtins(own)) for word in _words(text, listed)}


def _list(name: str) -> frozenset[str]:
    found = importlib.util.find_spec("tfgpu_doctor.ticket")
    assert found is not None and found.submodule_search_locations
    text = Files().read_text(os.path.join(found.submodule_search_locations[0], f"{name}.txt"))
    return frozenset(word for line in text.splitlines() if not line.startswith("#") for word in line.split())


def _tables(knowledge: Knowledge) -> Iterator[tuple[str, list[str]]]:
    """Yield every knowledge table with all its strings."""
    for name, member in vars(type(knowledge)).items():
        if isinstance(member, functools.cached_property):
            table = getattr(knowledge, name)
            rows = list(table.values()) if isinstance(table, dict) else table
            yield name, list(_strings(msgspec.to_builtins(rows)))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from (*_strings(key), *_strings(each))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _strings(each)


def _words(text: str, listed: frozenset[str]) -> Iterator[str]:
    """Yield the words of a table's text, whole and split into parts; a word that could be hexadecimal does not count."""
    for found in re.findall(r"[A-Za-z][A-Za-z0-9]*", text):
        for word in {found.lower(), *(run.lower() for run in _RUNS.findall(found))}:
            if word in listed or (len(word) >= _SHORTEST and not _HEXADECIMAL.fullmatch(word)):
                yield word
