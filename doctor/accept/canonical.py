"""The canonical form of a document: equal documents have equal digests."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any


class NotCanonical(ValueError):
    """A text that two readers may interpret differently; the message says why."""


def canonical(document: Any) -> bytes:
    """Return JSON with sorted keys, without whitespace between tokens or escapes of non-ASCII characters, in UTF-8."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def digest_of(document: Any) -> str:
    """Return the SHA-256 of the canonical document. It detects accidental change; a forger can compute a new one."""
    return digest_of_bytes(canonical(document))


def digest_of_bytes(content: bytes) -> str:
    """Return the SHA-256 as `sha256sum` prints it, with the prefix `sha256:`."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def seal_of(document: Any, key: bytes) -> str:
    """Return the HMAC with SHA-256 (RFC 2104) of the canonical document: it can only be made with the key."""
    return f"hmac-sha256:{hmac.new(key, canonical(document), hashlib.sha256).hexdigest()}"


def same(one: str, other: str) -> bool:
    """Return whether two digests are equal, in a time that does not reveal where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))


def read_strictly(text: str) -> Any:
    """Read a JSON document that is unambiguous: no duplicate names, no NaN or infinity. Raises NotCanonical."""
    try:
        return json.loads(text, object_pairs_hook=_no_name_twice, parse_constant=_no_number)
    except NotCanonical:
        raise
    except (ValueError, RecursionError) as error:  # ValueError: also for a number with thousands of digits
        raise NotCanonical(f"it is not JSON: {error}") from error


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotCanonical("a name occurs twice in one object")
    return found


def _no_number(word: str) -> Any:
    raise NotCanonical(f"{word} is not a JSON number")
