"""Scrub paths: a part is kept if its name is common to all machines or to a public package."""

from __future__ import annotations

import re

from tfgpu_doctor.ticket.identity import FIRST_UID
from tfgpu_doctor.ticket.placeholders import PLACEHOLDER, Placeholders
from tfgpu_doctor.ticket.shapes import is_plain
from tfgpu_doctor.ticket.vocabulary import Vocabulary
from tfgpu_doctor.ticket.wordlike import Words

_SEPARATORS = re.compile(r"([/\\]+)")
_OF_USERS = re.compile(
    r"home\d{0,3}|homes|homedirs?|users?\d{1,3}|users|u\d?|usuarios|benutzer|utilisateurs|utenti|gebruikers|"
    r"usu\u00e1rios|anv\u00e4ndare"
)
_OF_ACCOUNTS = frozenset({"user", "uid"})
_OF_NAMES = frozenset({"resourcegroups", "workspaces"})  # of Azure and of Codespaces
_OF_JOBS = frozenset({"scratch", "localscratch", "job", "jobs", "slurm"})
_NUMBER = re.compile(r"\d{5,}")  # of a person or a project: a step or a size of this length is in no path that matters
_OF_KERNEL = re.compile(r"/(?:proc|sys|dev)(?:/|\Z)")
_OF_PACKAGES = frozenset({"site-packages", "dist-packages"})
_NUMBERED = re.compile(r"([A-Za-z][A-Za-z_.-]*?)[-_.]?(\d{1,3}(?:\.\d{1,3}){0,2}t?)(\.zip|\.exe)?")
_LIBRARY = re.compile(r"(lib[\w+-]+?)(?:\.alt)?\.(?:so|dylib|a)(?:\.\d{1,3}){0,4}")
_INFORMATION = re.compile(r"([\w.]+)-([\d.]+)\.(?:dist|egg)-info")
_RELEASE = re.compile(r"\d{1,2}\.\d{1,3}(?:\.\d{1,3}){0,2}(?:[-+.].*)?")
_ENDING = re.compile(
    r"\.(?:py|pyc|so|ko|ko\.zst|ko\.xz|json|ya?ml|txt|toml|cfg|conf|ini|ipynb|sh|zip|egg|whl|log|exe|dll|bin|scope|slice|"
    r"service|pth|in|lock|sock|dist-info|egg-info)\Z"
)
_PUBLIC_ACCOUNTS = frozenset({"root", "shared", "public", "default"})


class PathScrubber:
    """Scrub paths part by part; the part after /home is always the name of a user."""

    def __init__(self, vocabulary: Vocabulary, placeholders: Placeholders, words: Words) -> None:
        self._vocabulary, self._placeholders, self._words = vocabulary, placeholders, words

    def path(self, path: str) -> str:
        """Return the path with each unknown part replaced."""
        done: list[str] = []
        before, in_package = "", False
        for place, part in enumerate(_SEPARATORS.split(path)):
            if place % 2 or not part:
                done.append(part)
                continue
            if _OF_USERS.fullmatch(before) and part.lower() not in _PUBLIC_ACCOUNTS:
                done.append(part if PLACEHOLDER.fullmatch(part) else self._placeholders.of("user", part))
            elif before in _OF_ACCOUNTS and part.isdecimal() and int(part) >= FIRST_UID:  # /run/user/54321
                done.append(self._placeholders.of("id", part))
            elif before in _OF_NAMES:
                done.append(part if PLACEHOLDER.fullmatch(part) else self._placeholders.of("name", part))
            elif before in _OF_JOBS and part.isdecimal():
                done.append(self._placeholders.of("job", part))
            elif _NUMBER.fullmatch(part) and not _OF_KERNEL.match(path):
                done.append(self._placeholders.of("id", part))
            elif before in _OF_PACKAGES and "." not in part and not self._vocabulary.has_package(part):
                done.append(self.part(part, kind="package"))
            else:
                in_package = in_package or before in _OF_PACKAGES or before.startswith("python3.")
                done.append(self.part(part, in_package=in_package))
            before = part.lower()
        return "".join(done)

    def part(self, part: str, *, kind: str = "name", in_package: bool = False) -> str:
        """Return a file or folder name unchanged, or its placeholder with the file extension."""
        if PLACEHOLDER.fullmatch(part):
            return part
        if name := self._words.name(part):
            return name
        if found := self._words.is_uuid(part):
            return self._words.uuid(found)
        if self.is_known(part) or (in_package and self._words.is_known(part)):
            return part
        if _RELEASE.fullmatch(part):
            return self._words.word(part, kind)
        ending = _ENDING.search(part)
        whole = part[: ending.start()] if ending else part
        stem = whole if PLACEHOLDER.fullmatch(whole) else self._placeholders.of(kind, whole)
        return stem + (ending[0] if ending else "")

    def is_known(self, part: str) -> bool:
        """Whether the name of a file or folder may be kept."""
        if part in self._vocabulary.folders or is_plain(part) or self._vocabulary.has_package(part):
            return True
        numbered = _NUMBERED.fullmatch(part)
        if numbered and numbered[1] in self._vocabulary.folders:
            return True
        if found := _LIBRARY.fullmatch(part):
            return self._words.is_known(found[1][3:]) or self._words.is_known(found[1])
        if found := _INFORMATION.fullmatch(part):
            return self._vocabulary.has_package(found[1]) and is_plain(found[2])
        return bool(re.fullmatch(r"[\w-]+\.ko(?:\.zst|\.xz|\.gz)?", part)) and self._words.is_known(
            part.partition(".")[0]
        )
