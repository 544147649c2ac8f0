"""The snapshot of a machine: to JSON and back without loss, and clear words for anything else."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from built_machines import built
from every import every
from healthy import broken, healthy, nvml_gpu
from hypothesis import given
from hypothesis import strategies as st

from tfgpu_doctor.collect.probes import ALL_PROBES
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts import Facts, FactsError, decode_facts, encode_facts
from tfgpu_doctor.model.facts.lengths import shorten
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.render.json_document import as_json


def test_every_probe_gives_a_fact_and_every_fact_has_a_probe() -> None:
    header = {"schema", "doctor", "recorded", "quick", "level", "unknown", "simulated"}
    measured = {"bench"}  # by `tfgpu-doctor bench`, and not by a probe
    assert {probe.name for probe in ALL_PROBES} == set(Facts.__struct_fields__) - header - measured


@every("name", built())
def test_facts_survive_json(name: str) -> None:
    facts = built()[name]
    assert decode_facts(encode_facts(facts)) == facts


@given(text=st.text(), lines=st.lists(st.text(), max_size=4), number=st.integers(0, 2**60))
def test_any_text_survives_json(text: str, lines: list[str], number: int) -> None:
    runtime = Runtime(attempt=healthy().runtime.attempt, log=tuple(lines), import_error=text)  # type: ignore[union-attr]
    facts = msgspec.structs.replace(healthy(), runtime=runtime, unknown={text: text})
    assert decode_facts(encode_facts(facts)) == facts


def test_the_document_says_its_schema() -> None:
    assert json.loads(encode_facts(healthy()))["schema"] == 2


def changed(**changes: Any) -> bytes:
    document = json.loads(encode_facts(healthy()))
    document.update(changes)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (b"", "it is not JSON"),
        (b"hello", "it is not JSON"),
        (b"\x00\xff\xfe", "it is not JSON"),
        (b"[1, 2]", "it is not a recorded machine"),
        (b"{}", "missing required field `schema`"),
        (b'{"schema": "one"}', "Expected `int`"),
        (encode_facts(healthy())[:2000], "it is not JSON"),
        (changed(schema=3), "upgrade tfgpu-doctor"),
        (changed(system=7), r"\$\.system"),
        (changed(system={"os": "Linux"}), "release"),
        (changed(runtime={"attempt": {"outcome": "levitated"}}), r"\$\.runtime\.attempt\.outcome"),
        (b"[" * 100_000, "it is not"),
    ],
)
def test_a_document_that_is_no_machine_is_refused(document: bytes, complaint: str) -> None:
    with pytest.raises(FactsError, match=complaint):
        decode_facts(document)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_record_that_an_editor_saved_again_is_read(encoding: str) -> None:
    facts = msgspec.structs.replace(healthy(), unknown={"nvml": "caf\u00e9 \U0001f600"})
    text = encode_facts(facts).decode().replace("\n", "\r\n")
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    assert decode_facts((mark + text).encode(encoding)) == facts


@pytest.mark.parametrize(
    "content", [b"\xff\xfe{", b"\xfe\xff\xd8\x00", b"\xef\xbb\xbf\xff", b"\xff\xfe", b"\xef\xbb\xbf"]
)
def test_a_mark_before_what_is_no_text_is_refused(content: bytes) -> None:
    with pytest.raises(FactsError, match="it is not JSON"):
        decode_facts(content)


def test_a_report_is_told_from_a_record() -> None:
    with pytest.raises(
        FactsError, match=r"this is a report and not a recorded machine: ask for .*--record FILE.*ticket\.zip"
    ):
        decode_facts(as_json(diagnose(healthy())).encode())


def test_fields_of_a_later_doctor_are_passed_over() -> None:
    assert decode_facts(changed(weather="fair")) == healthy()


@given(st.binary(max_size=200))
def test_any_bytes_are_understood_or_refused(document: bytes) -> None:
    with contextlib.suppress(FactsError):
        decode_facts(document)


def test_no_text_is_read_on_without_end() -> None:
    long = "x" * 200_000
    facts = broken(
        nvml={"gpus": (nvml_gpu(name=long),)},
        environment={"variables": {"LD_LIBRARY_PATH": long[:100_000], "CUDA_VISIBLE_DEVICES": long}},
    )
    short = shorten(facts)
    assert short.nvml and short.environment
    assert len(short.nvml.gpus[0].name) == 4096
    assert len(short.environment.variables["LD_LIBRARY_PATH"]) == 100_000  # lists of folders do get long
    assert len(short.environment.variables["CUDA_VISIBLE_DEVICES"]) == 128 << 10
    assert short.system is facts.system
    assert shorten(healthy()) == healthy()
