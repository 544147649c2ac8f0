"""Documents that the doctor wrote before schema 2 are read as they were: those in schema_1/ are such, unchanged."""

from __future__ import annotations

import json
import pathlib

from doctor_command import run_doctor

from tfgpu_doctor.accept.verifying import verify
from tfgpu_doctor.model.facts import decode_facts, encode_facts
from tfgpu_doctor.model.facts.bench import decode_bench

EARLIER = pathlib.Path(__file__).parent / "schema_1"


def test_a_record() -> None:
    facts = decode_facts((EARLIER / "facts.json").read_bytes())
    assert facts.schema == 2
    assert facts.stress is not None
    assert facts.stress.tested[0].speeds[0].teraflops == 24.1
    assert facts.bench is not None
    (comparison,), (metric,) = facts.bench.comparisons, facts.bench.metrics
    assert comparison.candidate is not None
    assert (comparison.candidate.name, metric.name) == ("on the GPU", "copy in the device")
    assert decode_facts(encode_facts(facts)) == facts


def test_a_run_that_was_kept() -> None:
    kept = json.loads((EARLIER / "facts.json").read_bytes())["bench"]
    bench = decode_bench(json.dumps(kept).encode())
    assert bench == decode_facts((EARLIER / "facts.json").read_bytes()).bench
    assert bench.comparisons[0].candidate is not None


def test_a_certificate_in_both_forms() -> None:
    for form in ("json", "html"):
        found = verify((EARLIER / f"certificate.{form}").read_bytes())
        assert (found.status, found.why, found.exit_code) == ("intact", "its digest is correct", 0)
        assert found.certificate is not None
        assert found.certificate.profile.profile.metric_fractions == {"device_placement/copy in the device": 0.5}
        assert found.certificate.profile.source("metric-fractions") == "prof.toml"


def test_a_certificate_that_was_changed() -> None:
    content = (EARLIER / "certificate.json").read_text("utf-8")
    for now, then in (("0.5", "0.1"), ("figure-fractions", "metric-fractions")):
        assert now in content
        assert verify(content.replace(now, then).encode()).status == "changed"


def test_a_profile(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "certificate.json"
    options = ("--profile", str(EARLIER / "profile.toml"), "--facts", str(EARLIER / "facts.json"), "-o", str(out))
    assert run_doctor("accept", *options).returncode == 1
    rows = {row["key"]: row["outcome"] for row in json.loads(out.read_text("utf-8"))["requirements"]}
    assert "metric-fractions.device_placement/copy in the device" in rows
    # What earlier suites measured does not count; everything else in the record does.
    assert {
        outcome for key, outcome in rows.items() if key.partition(".")[0] in ("checks", "goal", "gpus", "level")
    } == {"met"}
    assert rows["suites"] == "not measured"
