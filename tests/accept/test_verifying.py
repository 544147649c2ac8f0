"""A certificate tells when anything in it is changed, as JSON and on a page."""

from __future__ import annotations

import functools
import json
import string
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given
from judged import bench, comparison, judged, recorded_machine, shipped
from locations import ROOT
from stressed import under_stress

from tfgpu_doctor.accept.canonical import NotCanonical, canonical, digest_of, read_strictly
from tfgpu_doctor.accept.certificate import Certificate
from tfgpu_doctor.accept.page import render_certificate
from tfgpu_doctor.accept.verifying import verify

KEY = b"a key that nobody else has"
OTHER_KEY = b"a key that somebody else has"


@functools.cache
def certificate(*, sealed: bool) -> Certificate:
    """A machine that is accepted, with rows of every kind of number and text."""
    facts = msgspec.structs.replace(
        under_stress(),
        bench=bench(comparison(), comparison(name="gpu[convolution]"), comparison("training", "step[cnn]")),
    )
    found = judged(facts, shipped("server"), subject="node 7 <é> \u202e \x1b", seconds=41.3)
    assert found.verdict == "accepted"
    return found.proved(KEY) if sealed else found


@functools.cache
def document(format_: str, *, sealed: bool) -> bytes:
    return render_certificate(certificate(sealed=sealed), format_, key=KEY if sealed else None).encode()


@pytest.mark.parametrize("format_", ["json", "html"])
@pytest.mark.parametrize("sealed", [True, False])
def test_one_as_it_was_issued_is_intact(format_: str, sealed: bool) -> None:
    found = verify(document(format_, sealed=sealed), KEY if sealed else None)
    assert (found.status, found.exit_code) == ("intact", 0)
    assert found.certificate == certificate(sealed=sealed)


def test_one_of_a_machine_that_was_not_accepted_is_intact_and_fails() -> None:
    rejected = judged(recorded_machine("vm-without-gpu"), shipped("ci"))
    found = verify(render_certificate(rejected, "json").encode())
    assert (found.status, found.exit_code) == ("intact", 1)


@given(st.data())
def test_every_byte_of_every_value_counts(data: st.DataObject) -> None:
    """A byte of the JSON document is another one: it is the same document to a reader of JSON, or it is told."""
    content = document("json", sealed=True)
    place = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[place]))
    found = verify(bytes(changed))
    if found.status == "intact":
        assert json.loads(changed) == json.loads(content)
    else:
        assert found.exit_code in (1, 2)


def test_every_character_of_every_value_counts() -> None:
    """All of them, one after the other, each replaced by another that leaves the document readable."""
    original = json.loads(document("json", sealed=True))
    places = list(_places(original))
    assert len(places) > 150
    for path in places:
        holder = functools.reduce(lambda value, key: value[key], path[:-1], original)
        kept = holder[path[-1]]
        for value in _others(kept):
            holder[path[-1]] = value
            assert verify(json.dumps(original).encode()).status != "intact", (path, value)
        holder[path[-1]] = kept
    assert verify(json.dumps(original).encode(), KEY).status == "intact"


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value that is no object and no list."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(each, (*path, key))
    else:
        yield path


def _others(value: Any) -> list[Any]:
    """Values of the same kind that differ in one place."""
    if isinstance(value, str):
        return [value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :] for at in range(len(value))] or ["a"]
    if isinstance(value, bool):
        return [not value]
    return [1] if value is None else [value + 1, -value - 1]


@given(st.data())
def test_every_byte_of_a_page_counts(data: st.DataObject) -> None:
    content = document("html", sealed=True)
    place = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[place]))
    assert verify(bytes(changed)).status != "intact"


@given(st.data())
def test_a_page_that_is_cut_or_grows_is_told(data: st.DataObject) -> None:
    content = document("html", sealed=False)
    end = data.draw(st.integers(0, len(content) - 1))
    assert verify(content[:end]).status != "intact"
    assert verify(content + data.draw(st.binary(min_size=1, max_size=20))).status != "intact"


def test_what_stands_on_the_page_counts_beside_the_document_in_it() -> None:
    page = document("html", sealed=False).decode()
    assert verify(page.replace("<h1>Accepted", "<h1>Not accepted", 1).encode()).status == "changed"


@pytest.mark.parametrize("change", ["pop", "add", "twice"])
def test_names_may_not_come_go_or_double(change: str) -> None:
    original = json.loads(document("json", sealed=False))
    for name in original:
        if change == "pop":
            text = json.dumps({key: value for key, value in original.items() if key != name})
        elif change == "add":
            text = json.dumps({**original, f"{name}2": original[name]})
        else:
            text = json.dumps(original)[:-1] + f", {json.dumps(name)}: {json.dumps(original[name])}" + "}"
        assert verify(text.encode()).status != "intact", name


def test_another_layout_of_the_same_document_is_the_same() -> None:
    original = json.loads(document("json", sealed=True))
    for text in (
        json.dumps(original),
        json.dumps(original, indent=4, sort_keys=True),
        json.dumps(original, ensure_ascii=False),
    ):
        assert verify(text.encode(), KEY).status == "intact"


def test_a_seal_is_made_with_one_key() -> None:
    for format_ in ("json", "html"):
        assert verify(document(format_, sealed=True), OTHER_KEY).why == "its seal was not made with this key"
        assert "requires --key" in verify(document(format_, sealed=True)).why
        assert "has no seal" in verify(document(format_, sealed=False), KEY).why


def forged(**changes: Any) -> bytes:
    """A changed certificate with a digest that fits: who changes one on purpose can make that."""
    original = {**json.loads(document("json", sealed=False)), **changes}
    del original["digest"]
    return json.dumps({**original, "digest": digest_of(original)}).encode()


def test_one_that_contradicts_itself_is_told() -> None:
    assert verify(forged(verdict="not accepted")).why == "its verdict does not match its requirements"
    rows = json.loads(document("json", sealed=False))["requirements"]
    rows[0]["outcome"] = "missed"
    assert verify(forged(requirements=rows)).why == "its verdict does not match its requirements"
    profile = json.loads(document("json", sealed=False))["profile"]
    profile["profile"]["gpus"] = 1
    assert verify(forged(profile=profile)).why == "its profile does not match the profile's digest"


def test_a_forgery_is_told_by_the_key_alone() -> None:
    assert verify(forged(subject="another machine")).status == "intact"
    assert verify(forged(subject="another machine"), KEY).status == "changed"


def test_one_of_a_later_schema_is_not_judged() -> None:
    found = verify(forged(schema=3))
    assert (found.status, found.exit_code) == ("no certificate", 2)
    assert "it has schema 3, but this tfgpu-doctor reads 1 to 2" in found.why


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"null", b"<html></html>", b"\xff\x00", b"verdict: accepted", b"[" * 100_000, b"9" * 10_000, b"NaN"],
)  # fmt: skip
def test_what_is_no_certificate_is_told(content: bytes) -> None:
    found = verify(content)
    assert (found.status, found.exit_code) == ("no certificate", 2)
    assert found.why


def test_a_page_with_two_certificates_holds_none() -> None:
    page = document("html", sealed=False).decode()
    start = page.index('<script type="application/json"')
    block = page[start : page.index("</script>", start) + len("</script>")]
    assert verify(page.replace(block, block * 2).encode()).status == "no certificate"


@given(st.text(alphabet=string.printable + "é\u2028\ud800", max_size=40))
def test_any_text_has_one_canonical_form(text: str) -> None:
    assert canonical({"b": text, "a": [text]}) == canonical({"a": [text], "b": text})
    assert digest_of({"a": text}) != digest_of({"a": text + "x"})


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '{"a": Infinity}', '{"a": NaN}', "{"])
def test_what_readers_may_read_differently_is_refused(text: str) -> None:
    with pytest.raises(NotCanonical):
        read_strictly(text)


def test_a_certificate_fits_its_schema() -> None:
    import jsonschema

    schema = json.loads((ROOT / "doctor/accept/certificate.schema.json").read_text("utf-8"))
    jsonschema.validate(json.loads(document("json", sealed=True)), schema)


@pytest.mark.parametrize("page", ["<q:><![\x0b\0\0<q;><q:>", "<![if", "<!DOCTYPE [", "<!--", "<![CDATA[", "<"])
def test_a_page_that_no_parser_reads_is_no_certificate(page: str) -> None:
    assert verify(page.encode()).status == "no certificate"
