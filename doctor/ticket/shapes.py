"""Shapes of words that are kept without being on a list: numbers, versions, dates, bus addresses."""

from __future__ import annotations

import re

_UNITS = (
    "b|k|m|g|t|kb|mb|gb|tb|kib|mib|gib|tib|bytes?|ns|us|ms|s|sec|min|h|d|w|mw|kw|hz|khz|mhz|ghz|c|v|x|%|bits?|"
    "gflops?|tflops?|gflop|tflop|gt/s|core|th|st|nd|rd"
)
_SHORT = re.compile(
    rf"[+-]?(?:\d{{1,7}}|(?:\d{{1,6}}|(?=[\d.]{{3,8}}(?![\d.]))\d{{1,6}}\.\d{{1,6}})(?:{_UNITS})?)", re.IGNORECASE
)
_TINY = re.compile(r"[+-]?\d(?:\.\d{1,3})?e[+-]?\d{1,3}", re.IGNORECASE)
_VERSION = re.compile(
    r"v?\d{1,4}(?:\.\d{1,5}){1,3}(?:[.-]?(?:a|b|rc|post|dev)\d{1,8})?(?:\+(?:cu\d{2,3}|cpu|nv\d\d\.\d\d?|b\d{1,4}))?|\d{1,3}(?:a|b|rc)\d{1,2}"
)
_DOTTED = re.compile(r"\d+(?:\.\d+)*")
_MOST_DIGITS = 8  # of a version: nine could be a personal number
_SHORTEST_SECRET = 8
_IP_LIKE = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_OTHERS = re.compile(
    r"(?:0000)?[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?|[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|"  # on the PCI bus
    r"(?:19|20)\d\d-[01]\d-[0-3]\d(?:[T ][0-2]\d:[0-5]\d:[0-6]\d(?:[.,]\d{1,6})?Z?)?|"
    r"[0-2]?\d:[0-5]\d:[0-6]\d(?:\.\d{1,6})?|"
    r"(?:0x)?0{3,12}[0-9a-f]{1,5}|0x[0-9a-f]{1,8}|0x[0-9a-f]{1,4}_[0-9a-f]{8}|x\d{1,2}|\d{3}\.xx|\d{1,2}\.x|nvme\d{1,2}n\d{1,2}(?:p\d{1,2})?|sd[a-z]\d{0,2}|"
    r"(?:sm|compute)_\d{2,3}[af]?|(?:cp|py|pp)\d{2,3}|cu1\d{1,2}|[sc]\d{1,3}|"
    r"\d{1,3}-\d{1,3}|\d-\d{4}|\d{1,3}(?:x\d{1,4}){1,3}|\d{1,3}/\d{1,3}|\dg\.\d{1,3}gb(?:\+me)?|slot\d{1,2}_\d{1,2}|"
    r"(?:cp|py|pp)\d{2,3}-(?:cp\d{2,3}t?|abi3|none)-(?:manylinux(?:_\d{1,2}_\d{1,2}|1|2010|2014)|macosx_\d{1,2}_\d{1,2}|linux|win)"
    r"_(?:x86_64|aarch64|arm64|amd64|universal2)|(?:cuda\d{2,3}|cpu_)?(?:py\d{2,3})?(?:h[0-9a-f]{7})?_\d{1,3}|\d\d_\d{1,3}|"
    r"10de:[0-9a-f]{4}|gpu:\d{1,2}|cpu:\d{1,2}|task:\d{1,3}|replica:\d{1,3}|[iwef]\d{4}",
    re.IGNORECASE,
)


def is_plain(word: str) -> bool:
    """Whether a word is a number, a date or a bus address, judging by its shape only."""
    return bool(_SHORT.fullmatch(word) or _TINY.fullmatch(word) or _OTHERS.fullmatch(word)) or is_version(word)


def is_version(word: str) -> bool:
    """Whether a word is a version and not an IP address: two or three numbers, or four with one too large for that."""
    if not _VERSION.fullmatch(word):
        return False
    dotted = _DOTTED.search(word)
    numbers = dotted[0].split(".") if dotted else []
    if sum(map(len, numbers)) > _MOST_DIGITS + (len(numbers) > 3):
        return False
    return len(numbers) < 4 or any(int(number) > 255 for number in numbers)


def is_like_an_ip(word: str) -> bool:
    """Whether a word has four numbers like an IPv4 address; versions of NVIDIA's libraries look the same."""
    return bool(_IP_LIKE.fullmatch(word)) and all(int(number) < 256 for number in word.split("."))


def shortened(version: str) -> str:
    """Return the beginning of a version that may be an address, too short to be one."""
    numbers = version.split(".")
    begun = ".".join(numbers[:3])
    return begun if len(begun) < _SHORTEST_SECRET else ".".join(numbers[:2])
