"""The one way to write a document down, so that two equal documents have equal digests."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any


class NotCanonical(ValueError):
    """Text that two readers may read differently; the message says why."""


def canonical(document: Any) -> bytes:
    """JSON with sorted keys, nothing between its words, characters as they are, in UTF-8."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def digest_of(document: Any) -> str:
    """SHA-256 of the canonical document. It tells accidental change; who changes on purpose can make a new one."""
    return digest_of_bytes(canonical(document))


def digest_of_bytes(content: bytes) -> str:
    """SHA-256 as `sha256sum` has it, with its name in front."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def seal_of(document: Any, key: bytes) -> str:
    """HMAC with SHA-256 (RFC 2104) of the canonical document: nobody without the key can make it."""
    return f"hmac-sha256:{hmac.new(key, canonical(document), hashlib.sha256).hexdigest()}"


def same(one: str, other: str) -> bool:
    """Whether two digests are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))


def read_strictly(text: str) -> Any:
    """A JSON document that every reader reads alike: no name twice, no number that is none. Raises NotCanonical."""
    try:
        return json.loads(text, object_pairs_hook=_no_name_twice, parse_constant=_no_number)
    except NotCanonical:
        raise
    except (ValueError, RecursionError) as error:  # ValueError: also of a number with thousands of digits
        raise NotCanonical(f"it is not JSON: {error}") from error


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotCanonical("a name stands twice in one object")
    return found


def _no_number(word: str) -> Any:
    raise NotCanonical(f"{word} is no number of JSON")
