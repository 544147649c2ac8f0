"""Verify that a certificate is unchanged since it was issued, and that it accepts the machine."""

from __future__ import annotations

import hashlib
import hmac
import re
from html.parser import HTMLParser
from typing import Any, Literal

import msgspec

from tfgpu_doctor.accept.canonical import NotCanonical, digest_of, digest_of_bytes, read_strictly, same, seal_of
from tfgpu_doctor.accept.certificate import KIND, SCHEMA, Certificate, verdict_of, without_digest, without_proofs

_EARLIER = {"figure-fractions": "metric-fractions"}
BLOCK = "certificate"  # the id of the page's element that contains the document
_TAIL = re.compile(rb"(?:<!-- (hmac-sha256:[0-9a-f]{64}) -->\n)?<!-- (sha256:[0-9a-f]{64}) -->\n\Z")
Status = Literal["intact", "changed", "no certificate"]


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """The result of verifying a file. `why` is a sentence; `certificate` is set if it could be read."""

    status: Status
    why: str
    certificate: Certificate | None = None

    @property
    def exit_code(self) -> int:
        """0 intact and accepted · 1 changed, or not accepted · 2 not a certificate."""
        if self.status == "no certificate":
            return 2
        accepted = self.certificate is not None and self.certificate.verdict == "accepted"
        return 0 if self.status == "intact" and accepted else 1


def verify(content: bytes, key: bytes | None = None) -> Verified:
    """Verify a certificate, in JSON or HTML; with a key, also its seal."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        return _none(f"it is not UTF-8: {error.reason} at byte {error.start}")
    on_page = text.lstrip("\ufeff \t\r\n")[:1] == "<"
    block = _block_of(text) if on_page else text
    if block is None:
        return _none("the page contains no certificate of tfgpu-doctor")
    try:
        document = read_strictly(block)
    except NotCanonical as error:
        return _changed(str(error)) if KIND in text else _none(str(error))
    if not isinstance(document, dict) or not {"digest", "requirements"} <= set(document):
        return _changed("parts of it are missing") if KIND in text else _none("it is a different document")
    found = _check(document, key)
    if on_page and found.status == "intact" and (why := _page_is_changed(content, key)):
        return _changed(why)
    return found


def _check(document: dict[str, Any], key: bytes | None) -> Verified:
    """Check digest and seal, and that the verdict matches the rows and the profile its digest."""
    try:
        if not _equal(document["digest"], digest_of(without_digest(document))):
            return _changed("its digest does not match its content")
        if key is not None and not document.get("seal"):
            return _changed("it has no seal, so its origin cannot be verified")
        if key is not None and not _equal(document["seal"], seal_of(without_proofs(document), key)):
            return _changed("its seal was not made with this key")
    except ValueError as error:
        return _changed(str(error))
    if document.get("kind") != KIND:
        return _none("it is a different document")
    if document.get("schema") not in (1, SCHEMA):
        return _none(
            f"it has schema {document.get('schema')}, but this tfgpu-doctor reads 1 to {SCHEMA}: upgrade tfgpu-doctor"
        )
    try:
        certificate = msgspec.convert(_renamed(document), Certificate, strict=True)
    except msgspec.ValidationError as error:
        return _none(f"it is from another version of tfgpu-doctor: {error}")
    if certificate.verdict != verdict_of(certificate.requirements, certificate.verdict == "interrupted"):
        return _changed("its verdict does not match its requirements")
    if certificate.profile.digest != digest_of(document["profile"]["profile"]):
        return _changed("its profile does not match the profile's digest")
    return Verified(status="intact", why=_said(certificate, key), certificate=certificate)


def _renamed(document: dict[str, Any]) -> dict[str, Any]:
    """Return a certificate of schema 1 with the names of schema 2, which renamed the `figures` of a suite to `metrics`."""
    profile = document.get("profile")
    if document["schema"] != 1 or not isinstance(profile, dict) or not isinstance(profile.get("profile"), dict):
        return document
    asked = {_EARLIER.get(key, key): value for key, value in profile["profile"].items()}
    sources = profile.get("sources")
    if isinstance(sources, dict):
        sources = {_name_of(key): value for key, value in sources.items()}
    return {**document, "profile": {**profile, "profile": asked, "sources": sources}}


def _name_of(key: str) -> str:
    kind, dot, rest = key.partition(".")
    return _EARLIER.get(kind, kind) + dot + rest


def _equal(claimed: object, computed: str) -> bool:
    return isinstance(claimed, str) and same(claimed, computed)


def _said(certificate: Certificate, key: bytes | None) -> str:
    unasked = "; its seal was not checked: that requires --key" if certificate.seal and key is None else ""
    proof = "digest and seal are correct" if key is not None else "its digest is correct"
    return f"{proof}{unasked}"


def page_with_tail(page: str, certificate: Certificate, key: bytes | None = None) -> str:
    """Return the page, its seal if the certificate has one, and a last line that reveals any change before it."""
    if certificate.seal and key:
        page = f"{page}<!-- {_page_seal(page.encode(), key)} -->\n"
    return f"{page}<!-- {digest_of_bytes(page.encode())} -->\n"


def _page_seal(content: bytes, key: bytes) -> str:
    return f"hmac-sha256:{hmac.new(key, content, hashlib.sha256).hexdigest()}"


def _page_is_changed(content: bytes, key: bytes | None) -> str:
    """Return how the page around an intact document was changed; empty if it was not."""
    tail = _TAIL.search(content)
    if tail is None:
        return "the end of the page was changed"
    if not same(tail.group(2).decode(), digest_of_bytes(content[: tail.start(2) - len("<!-- ")])):
        return "the page around the certificate was changed"
    if key is not None and not same((tail.group(1) or b"").decode(), _page_seal(content[: tail.start()], key)):
        return "the page around the certificate was not sealed with this key"
    return ""


def _changed(why: str) -> Verified:
    return Verified(status="changed", why=why)


def _none(why: str) -> Verified:
    return Verified(status="no certificate", why=why)


class _Block(HTMLParser):
    """Extracts the data block from a page."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script" and ("id", BLOCK) in attrs
        if self._inside:
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - the parser's signature
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.blocks[-1] += data


def _block_of(page: str) -> str | None:
    """Return the certificate's document in a page; None if there is none, or more than one."""
    parser = _Block()
    try:
        parser.feed(page)
        parser.close()
    except (AssertionError, ValueError):  # the parser's word for a declaration that is none
        return None
    return parser.blocks[0] if len(parser.blocks) == 1 else None
