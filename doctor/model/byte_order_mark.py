"""The encoding of a file that an editor or a shell saved again: Notepad and PowerShell write UTF-16, or a mark before UTF-8."""

from __future__ import annotations

import codecs

# The mark of UTF-32 begins with that of UTF-16, and stands before it.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def in_utf8(content: bytes) -> bytes:
    """Return the content in UTF-8 if a byte order mark says how it is encoded, and otherwise as it is."""
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            try:
                return content[len(mark) :].decode(encoding).encode()
            except UnicodeError:
                return content
    return content
