"""Scrub single words: keep a word, or replace it by its placeholder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tfgpu_doctor.ticket.identity import Identity
from tfgpu_doctor.ticket.patterns import UUIDS
from tfgpu_doctor.ticket.placeholders import PLACEHOLDER, Placeholders
from tfgpu_doctor.ticket.shapes import is_like_an_ip, is_plain
from tfgpu_doctor.ticket.vocabulary import Vocabulary

_WORD = re.compile(r"(?:\w|(?<=\w)[.+\-@#~$%](?=\w))+|[^\w\s]+|\s+")
_TOLD = re.compile(r"(?<!<)\w(?:[\w.+@#~$%-]*\w)?")  # no placeholder
_JOINTS = re.compile(r"[-_.+@#~$%]+")
_VERSION_AND_MORE = re.compile(r"(\d{1,3}\.\d{1,3}(?:\.\d{1,5})?)([-+_.].*)")
_MODEL = re.compile(r"[A-Za-z]{0,3}\d{1,5}[A-Za-z]{0,3}(?:-\d{4,5}[A-Za-z]{0,3})?")  # "5950X", "i7-9700K", "E5-2698"
_LONGEST_MODEL = 8
_INSTANCE = re.compile(
    r"[a-z]{1,3}\d[a-z]{0,2}n?\.(?:\d{0,2}x?large|metal|medium|small|micro|nano)|"  # of EC2
    r"[a-z]\d[a-z]?-(?:standard|(?:high|med|ultra|mega)(?:mem|cpu|gpu)|edgegpu)-\d{1,3}g?|"  # of Google's cloud
    r"Standard_[A-Z]{1,3}\d{1,3}[a-z]{0,4}(?:_[A-Z]{1,2}\d{1,3}[A-Z]{0,3})?(?:_v\d)?|"  # of Azure
    r"(?:BM|VM)\.GPU\.?[A-Z]{0,2}\d{1,3}\.\d{1,2}"  # of Oracle's cloud
)
_MARKS = frozenset(
    ".,;:!?()[]{}<>\"'`|/\\=+-*&%$#@^~_\u2018\u2019\u201c\u201d\u2013\u2014\u2026\u00d7\u00b7\u00b0\u2713\u2192"
)
_RULER = re.compile(r"[|+]?(?:[-=]{3,}[|+])+")  # of a table
_MOST_MARKS = 4  # different ones in a row
_MOST_DIGITS = 7  # of a word with letters; more digits could be a personal number
_LONG_PIECE = 12
_LETTER = re.compile(r"[A-Za-z]|[G-Z]\d{1,2}")  # not two hexadecimal digits: they may be part of an address
_MODEL_OR_STATE = re.compile(r"[G-Z]\d{1,2}")  # the GPU T4, the state P8: too short for a name, and not hexadecimal
_ABSL = re.compile(r"lts_20\d{6}")  # the namespace of a release of absl
SYMBOL = re.compile(r"\b_{1,2}Z\w{2,500}")  # a mangled C++ name, as in "undefined symbol": lengths and names alternate
_LIKE_A_NODE = re.compile(r"[a-uyz]\d{2,4}", re.IGNORECASE)  # "c002"; not a factor or a version
_ARCHIVE = re.compile(r"([A-Za-z][\w.-]*?)-(\d[\w.]*(?:\+[\w.]+)?)(?:-([\w-]+)\.whl|\.tar\.(?:gz|bz2)|\.zip|\.conda)")
_LENGTH = re.compile(r"\d{1,3}")
_MOST_CODES = 10  # type letters between two names


class Words:
    """Judge words by the lists and by the names found on this machine."""

    def __init__(
        self, vocabulary: Vocabulary, identity: Identity, placeholders: Placeholders, uuids: Iterable[str] = ()
    ) -> None:
        self._vocabulary, self._placeholders = vocabulary, placeholders
        self._uuids = sorted({uuid.lower() for uuid in uuids})
        self._kinds = dict.fromkeys(identity.hosts, "host") | dict.fromkeys(identity.users, "user")
        for name in [name for name in self._kinds if name in vocabulary.fixed]:
            del self._kinds[name]

    def scrub(self, models: bool = False) -> Callable[[str], str]:
        """Return a function that scrubs the parts of one text; with `models`, it keeps one word that looks like a model."""
        left = [models]

        def word(found: re.Match[str]) -> str:
            text = found[0]
            if text.isspace():
                return text
            if not (text[0].isalnum() or text[0] == "_"):
                return _marks(text)
            if left[0] and len(text) <= _LONGEST_MODEL and not self.is_known(text) and _MODEL.fullmatch(text):
                left[0] = False
                return text
            return self.word(text)

        return lambda text: _WORD.sub(word, text)

    def word(self, word: str, kind: str = "text") -> str:
        """Return the word, or its placeholder."""
        if name := self.name(word):
            return name
        if self.is_known(word) or PLACEHOLDER.fullmatch(word):
            return word
        if is_like_an_ip(word):
            return self._placeholders.of("ip", word)
        released = _VERSION_AND_MORE.fullmatch(word)
        if released and is_plain(released[1]):
            return released[1] + released[2][0] + self.word(released[2][1:], kind)
        return self._placeholders.of(kind, word)

    def tells(self, text: str) -> bool:
        """Whether a text has a word, or a piece of a word, that an earlier position gave as a name."""
        return any(self._is_told(word) or any(map(self._is_told, _JOINTS.split(word))) for word in _TOLD.findall(text))

    def name(self, word: str) -> str:
        """Return the placeholder of a word that is the name of a user, a host or a value seen before; empty otherwise."""
        kind = self._kinds.get(word.lower())
        if kind:
            return self._placeholders.of(kind, word)
        if self._is_told(word):
            return self._placeholders.of("name", word)
        return ""

    def _is_told(self, word: str) -> bool:
        """Whether an earlier position gave a word as the name of a user or a host."""
        if not self._placeholders.known(word) or word.lower() in self._vocabulary.fixed:
            return False
        return not is_plain(word) or bool(_LIKE_A_NODE.fullmatch(word))

    def is_known(self, word: str) -> bool:
        """Whether a word, or every piece of a compound word, is on the lists."""
        if not word.isascii() or word.lower() in self._kinds:
            return False
        if is_plain(word) or _INSTANCE.fullmatch(word) or word in self._vocabulary.variables:
            return True
        if _MODEL_OR_STATE.fullmatch(word):
            return True
        if (found := _ARCHIVE.fullmatch(word)) and self._vocabulary.has_package(found[1]) and is_plain(found[2]):
            return not found[3] or is_plain(found[3]) or found[3].endswith("-none-any")
        pieces = [piece for piece in _JOINTS.split(word) if piece]
        if any(piece.lower() in self._kinds or self._is_told(piece) for piece in pieces):
            return False
        letters = [piece for piece in pieces if not piece.isdigit()]
        if len(pieces) == 1:
            return len(word) == 1 or self._vocabulary.has_word(pieces[0])
        if sum(map(str.isdigit, word)) > _MOST_DIGITS or sum(len(piece) == 1 for piece in letters) > 2:
            return False
        return any(len(piece) > 1 for piece in letters) and all(self._is_known_piece(piece) for piece in pieces)

    def are_known(self, text: str) -> bool:
        """Whether every word of a text is known."""
        return all(self.is_known(found) for found in re.findall(r"[\w.+#@-]*\w", text))

    def is_blob(self, text: str) -> bool:
        """Whether a long run of characters contains a long piece with digits that is on no list."""
        pieces = [piece for piece in re.split(r"[/+_=-]+", text) if len(piece) >= _LONG_PIECE]
        return any(
            re.search(r"\d", each) and re.search("[A-Za-z]", each) and not self.is_known(each) for each in pieces
        )

    def is_symbol(self, symbol: str) -> bool:
        """Whether all names in a C++ symbol are known words."""
        place, codes = symbol.index("Z") + 1, 0
        while place < len(symbol) and codes <= _MOST_CODES:
            if not (length := _LENGTH.match(symbol, place)) or symbol[place - 1] == "S":
                place, codes = place + 1, codes + 1
                continue
            end = length.end() + int(length[0])
            name = symbol[length.end() : end]
            if end > len(symbol) or not (self.is_known(name.strip("_")) or _ABSL.fullmatch(name)):
                return False
            place, codes = end, 0
        return codes <= _MOST_CODES

    def uuid(self, found: re.Match[str]) -> str:
        """Return the placeholder for a UUID; the first digits of a known UUID get the placeholder of the whole."""
        prefix, digits = found[1], found[2]
        start = (prefix + digits).lower()
        meant = [uuid for uuid in self._uuids if uuid.startswith(start)] if prefix else []
        whole = meant[0].removeprefix(prefix.lower()) if len(meant) == 1 else digits
        return prefix + self._placeholders.of("uuid", whole)

    def is_uuid(self, text: str) -> re.Match[str] | None:
        """Match a text that consists of one UUID."""
        return UUIDS.fullmatch(text)

    def _is_known_piece(self, piece: str) -> bool:
        if piece.isdigit():
            return True
        return bool(_LETTER.fullmatch(piece)) or self._vocabulary.has_word(piece) or is_plain(piece)


def _marks(text: str) -> str:
    """Return punctuation without rare characters, and shortened so that it cannot be a password."""
    if _RULER.fullmatch(text):
        return text
    kept = "".join(mark if mark in _MARKS else "\N{REPLACEMENT CHARACTER}" for mark in text)
    unlike = re.sub(r"(.)\1+", r"\1", kept)
    return kept if len(unlike) <= _MOST_MARKS else unlike[:_MOST_MARKS] + "\N{HORIZONTAL ELLIPSIS}"
