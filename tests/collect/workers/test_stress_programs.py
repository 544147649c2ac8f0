"""The programs that load a GPU, with a real TensorFlow on the processor; and faults planted before what compares."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import types
from collections.abc import Sequence
from typing import Any

import pytest
from stand_in_run import make_stand_in
from stand_in_tensorflow import outward

import tfgpu_doctor.collect.workers
from tfgpu_doctor.collect.workers import stress_exactness, stress_memory, stress_sustained

pytestmark = pytest.mark.tensorflow

PROGRAMS = pathlib.Path(tfgpu_doctor.collect.workers.__file__).parent
HERE = "/CPU:0"
LONG_S = 600
PLAN = {
    "device": HERE, "seconds": 6.0, "round_s": 3.0, "side": 128, "sustained_side": 256, "precisions": ["float32", "bfloat16"],
    "most_memory_bytes": 32 << 20,
}  # fmt: skip


@pytest.fixture(scope="module")
def tf() -> Any:
    return pytest.importorskip("tensorflow", reason="TensorFlow is not installed in this Python")


@pytest.fixture(scope="module")
def np(tf: Any) -> Any:
    return pytest.importorskip("numpy")


@pytest.fixture(scope="module")
def stand_in(tf: Any, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The Python of a target with two GPUs that are parts of the processor."""
    return make_stand_in(tmp_path_factory.mktemp("placeholder") / "venv", 2) / "bin/python"


def run(program: str, plan: dict[str, Any], python: str | pathlib.Path = sys.executable) -> dict[str, Any]:
    """What a program says, merged as the doctor merges it; standard input stays open until it has ended."""
    argv = [str(python), str(PROGRAMS / f"{program}.py"), json.dumps(plan)]
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = process.stdout.read()
        errors = process.stderr.read().decode()
        code = process.wait(LONG_S)
    assert code == 0, errors[-2000:]
    merged: dict[str, Any] = {}
    for line in said.splitlines():
        for name, value in json.loads(line).items():
            kept = merged.get(name)
            merged[name] = {**kept, **value} if isinstance(kept, dict) and isinstance(value, dict) else value
    return merged


def repeated(np: Any, kind: str = "matmul", precision: str = "float32", side: int = 128) -> Any:
    (make,) = {make for name, _, make in stress_exactness.OPERATIONS if name == kind}
    return stress_exactness.Repeated(np, side, kind, precision, make)


@pytest.mark.parametrize(
    ("kind", "precision"), [(kind, precision) for kind, precision, _ in stress_exactness.OPERATIONS]
)
def test_an_operation_repeats_to_the_last_bit_and_is_right(tf: Any, np: Any, kind: str, precision: str) -> None:
    each = repeated(np, kind, precision)
    rows = [each.repeat(tf, np, HERE, 0.2) for _ in range(2)]
    for row in rows:
        assert row["mismatches"] == 0
        assert row["iterations"] >= stress_exactness.LEAST_REPEATS
        assert 0 <= row["deviation"] < 1
        assert row["elements"] > 0
        assert row["placed_on"].endswith("CPU:0")
    assert rows[0]["digests"] == rows[1]["digests"]
    assert rows[0]["digests"] == repeated(np, kind, precision).repeat(tf, np, HERE, 0.0)["digests"]


def flipping(tf: Any, np: Any, real: Any, places: Sequence[int], every: int) -> Any:
    """The computation, with the lowest bit of some elements flipped now and then."""
    calls = []

    def compute(tf: Any, operation: str, inputs: list[Any]) -> Any:
        found = real(tf, operation, inputs).numpy()
        calls.append(1)
        if len(calls) % every == 0:
            bits = found.reshape(-1).view("uint%d" % (8 * found.dtype.itemsize))
            bits[list(places)] ^= 1
        return tf.constant(found)

    return compute


@pytest.mark.parametrize(
    ("kind", "precision"), [(kind, precision) for kind, precision, _ in stress_exactness.OPERATIONS]
)
def test_a_single_flipped_bit_is_counted(
    tf: Any, np: Any, monkeypatch: pytest.MonkeyPatch, kind: str, precision: str
) -> None:
    monkeypatch.setattr(stress_exactness, "compute", flipping(tf, np, stress_exactness.compute, (3, 17), every=3))
    row = repeated(np, kind, precision).repeat(tf, np, HERE, 0.0)
    assert row["iterations"] == 3  # the third computation, the second repetition, was changed
    assert row["mismatches"] == 2


def test_a_flip_in_a_later_round_is_seen_against_the_first(tf: Any, np: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    each = repeated(np)
    sound = each.repeat(tf, np, HERE, 0.0)
    monkeypatch.setattr(stress_exactness, "compute", flipping(tf, np, stress_exactness.compute, (5,), every=1))
    row = each.repeat(tf, np, HERE, 0.0)
    assert row["mismatches"] == row["iterations"]
    assert row["digests"] != sound["digests"]
    assert sum(one != other for one, other in zip(row["digests"], sound["digests"], strict=True)) == 1


@pytest.mark.parametrize("wrong", [1.01, float("nan"), -1.0])
@pytest.mark.parametrize(("kind", "precision"), [("matmul", "float32"), ("matmul", "float16")])
def test_a_wrong_result_that_repeats_is_off_its_reference(
    tf: Any, np: Any, monkeypatch: pytest.MonkeyPatch, kind: str, precision: str, wrong: float
) -> None:
    real = stress_exactness.compute
    monkeypatch.setattr(stress_exactness, "compute", lambda *given: real(*given) * tf.cast(wrong, precision))
    row = repeated(np, kind, precision).repeat(tf, np, HERE, 0.0)
    assert row["mismatches"] == 0
    assert row["deviation"] > 1
    json.dumps(row, allow_nan=False)


def test_what_rounding_allows_covers_factors_of_ten_bits(tf: Any, np: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """TF32 cuts each factor to 10 bits; that is no fault."""

    def cut(array: Any) -> Any:
        return (array.view("uint32") & np.uint32(0xFFFFE000)).view("float32")

    def compute(tf: Any, operation: str, inputs: list[Any]) -> Any:
        return tf.linalg.matmul(*(tf.constant(cut(each.numpy())) for each in inputs))

    monkeypatch.setattr(stress_exactness, "compute", compute)
    row = repeated(np, side=512).repeat(tf, np, HERE, 0.0)
    assert 0 < row["deviation"] < 1


@pytest.mark.parametrize("pattern", stress_memory.PATTERNS)
def test_a_pattern_is_kept_and_what_was_tested_is_told(tf: Any, np: Any, pattern: str) -> None:
    row: dict[str, Any] = stress_memory.try_pattern(tf, np, HERE, pattern, 32 << 20, 30.0)
    size = stress_memory.chunk_words(32 << 20) * stress_memory.WORD_BYTES
    assert row["tested_bytes"] == (32 << 20) - stress_memory.KEPT_CHUNKS * size
    assert row["mismatches"] == 0
    assert "example" not in row


@pytest.mark.parametrize("pattern", stress_memory.PATTERNS)
def test_patterns_fill_every_word(tf: Any, np: Any, pattern: str) -> None:
    writer = stress_memory.Writer(tf, np, stress_memory.ROW_WORDS * 4)
    one, other = (writer.content(pattern, place).numpy() for place in (0, 1))
    assert one.shape == (stress_memory.ROW_WORDS * 4,)
    expected = {"0x55": {0x5555555555555555}, "0xAA": {0xAAAAAAAAAAAAAAAA - (1 << 64)}}
    if pattern in expected:
        assert set(one.tolist()) == expected[pattern]
    else:
        assert len(set(one.tolist()) | set(other.tolist())) == 2 * len(one)


@pytest.mark.parametrize("pattern", stress_memory.PATTERNS)
def test_a_word_that_changed_is_counted_and_shown(
    tf: Any, np: Any, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    real = stress_memory.write

    def write(*given: Any) -> Any:
        chunks, full = real(*given)
        bad = chunks[1].numpy()
        bad[[7, 4000]] ^= 1 << 40
        return [chunks[0], tf.constant(bad), *chunks[2:]], full

    monkeypatch.setattr(stress_memory, "write", write)
    row: dict[str, Any] = stress_memory.try_pattern(tf, np, HERE, pattern, 32 << 20, 30.0)
    assert row["mismatches"] == 2
    assert row["example"].startswith("chunk 1, word 7: wrote 0x")


def test_loading_the_kernels_takes_none_of_the_time(tf: Any, np: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real, clock = stress_memory.Writer.content, [0.0]

    def content(self: Any, pattern: str, place: int) -> Any:
        clock[0] += 100.0 if not clock[0] else 0.0  # the first kernel has to be loaded
        return real(self, pattern, place)

    monkeypatch.setattr(stress_memory.Writer, "content", content)
    monkeypatch.setattr(stress_memory, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    row: dict[str, Any] = stress_memory.try_pattern(tf, np, HERE, "0x55", 32 << 20, 1.0)
    size = stress_memory.chunk_words(32 << 20) * stress_memory.WORD_BYTES
    assert row["tested_bytes"] == (32 << 20) - stress_memory.KEPT_CHUNKS * size
    assert row["seconds"] == 0.0


def test_where_no_more_fits_the_rest_is_tested(tf: Any, np: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = stress_memory.Writer.content

    def content(self: Any, pattern: str, place: int) -> Any:
        if place == 4:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")
        return real(self, pattern, place)

    monkeypatch.setattr(stress_memory.Writer, "content", content)
    row: dict[str, Any] = stress_memory.try_pattern(tf, np, HERE, "0x55", 32 << 20, 30.0)
    assert row["tested_bytes"] == row["fits"] == 4 * stress_memory.chunk_words(32 << 20) * stress_memory.WORD_BYTES


def test_without_time_one_chunk_is_tested(tf: Any, np: Any) -> None:
    row: dict[str, Any] = stress_memory.try_pattern(tf, np, HERE, "0x55", 32 << 20, 0.0)
    assert row["tested_bytes"] == stress_memory.chunk_words(32 << 20) * stress_memory.WORD_BYTES


@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16"])
def test_products_are_counted_and_stay_numbers(tf: Any, precision: str) -> None:
    row: dict[str, Any] = stress_sustained.sustain(tf, HERE, precision, 128, 0.2)
    assert row["iterations"] > 0
    assert row["seconds"] >= 0.2
    assert row["teraflops"] == pytest.approx(2 * 128**3 * row["iterations"] / row["seconds"] / 1e12)
    assert row["finite"]


def test_a_load_goes_round_and_round_until_its_time_is_over(tf: Any) -> None:
    said = run("stress_gpu", PLAN)
    assert "error" not in said
    assert said["deterministic"]
    assert next(iter(said["rounds"])) == "0"
    first = said["rounds"]["0"]
    assert [(row["operation"], row["precision"]) for row in first["exactness"]] == [
        ("matmul", "float32"), ("convolution", "float32"), ("matmul", "float16"),
    ]  # fmt: skip
    assert [row["precision"] for row in first["speeds"]] == ["float32", "bfloat16"]
    assert [row["pattern"] for row in first["memory"]] == list(stress_memory.PATTERNS)
    for each in said["rounds"].values():
        assert all(row["mismatches"] == 0 for row in each["exactness"] + each["memory"])


@pytest.mark.slow
def test_two_devices_of_one_kind_compute_the_same_bits(stand_in: pathlib.Path) -> None:
    """Two parts of the processor stand for two GPUs, each with a process of its own."""
    plan = {**PLAN, "seconds": 1.0, "round_s": 1.0, "device": "/GPU:0"}
    one = run("stress_gpu", plan, stand_in)
    other = run("stress_gpu", {**plan, "device": "/GPU:1"}, stand_in)
    parts = [[row["digests"] for row in said["rounds"]["0"]["exactness"]] for said in (one, other)]
    assert parts[0] == parts[1]
    assert outward(other["rounds"]["0"]["exactness"][0]["placed_on"]).endswith("GPU:1")


@pytest.mark.slow
def test_a_step_that_tensorflow_cannot_do_costs_no_other(tf: Any) -> None:
    said = run("stress_gpu", {**PLAN, "seconds": 1.0, "round_s": 1.0, "precisions": ["no such type", "float32"]})
    assert "error" not in said
    first, second = said["rounds"]["0"]["speeds"]
    assert "TypeError" in first["error"]
    assert second["iterations"] > 0
    assert said["rounds"]["0"]["memory"]


@pytest.mark.slow
def test_a_device_that_is_not_there_is_told(tf: Any) -> None:
    said = run("stress_gpu", {**PLAN, "device": "/CPU:7"})
    rows = said["rounds"]["0"]["exactness"]
    assert all("iterations" not in row for row in rows)
    assert "error" in rows[0]


def test_without_tensorflow_the_reason_is_told(tmp_path: pathlib.Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    for program in ("stress_gpu", "stress_links"):
        plan = {**PLAN, "devices": [HERE], "copied_bytes": 1 << 20}
        assert "ModuleNotFoundError" in run(program, plan, tmp_path / "venv/bin/python")["error"]


@pytest.mark.slow
def test_copies_go_every_way_and_arrive(stand_in: pathlib.Path) -> None:
    said = run("stress_links", {"devices": ["/GPU:0", "/GPU:1"], "seconds": 4.0, "copied_bytes": 1 << 20}, stand_in)
    assert "error" not in said
    ways = [(row["source"], row["destination"]) for row in said["transfers"].values()]
    assert ways == [
        ("host", "GPU:0"), ("GPU:0", "host"), ("host", "GPU:0"), ("host", "GPU:1"), ("GPU:1", "host"), ("host", "GPU:1"),
        ("GPU:0", "GPU:1"), ("GPU:1", "GPU:0"),
    ]  # fmt: skip
    for row in said["transfers"].values():
        assert row["copies"] >= 3
        assert row["mismatches"] == 0
        assert row["gb_per_s"] > 0
        assert row["copied_bytes"] == 1 << 20


@pytest.mark.slow
def test_without_time_each_gpu_still_sends_and_receives(stand_in: pathlib.Path) -> None:
    said = run(
        "stress_links", {"devices": ["/GPU:0", "/GPU:1", "/CPU:0"], "seconds": 0.0, "copied_bytes": 1 << 10}, stand_in
    )
    assert "error" not in said
    ways = [(row["source"], row["destination"]) for row in said["transfers"].values()]
    assert ways[9:] == [("GPU:0", "GPU:1"), ("GPU:1", "host"), ("host", "GPU:0")]


@pytest.mark.slow
def test_a_load_ends_when_nobody_waits_for_it(tf: Any) -> None:
    plan = {**PLAN, "seconds": 10_000.0}
    argv = [sys.executable, str(PROGRAMS / "stress_gpu.py"), json.dumps(plan)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while b"rounds" not in process.stdout.readline():
            assert process.poll() is None
        process.stdin.close()
        code = process.wait(LONG_S)
    assert code == 1


def test_a_tensorflow_without_a_switch_for_tf32_is_not_measured_in_it() -> None:
    old = types.SimpleNamespace(config=types.SimpleNamespace(experimental=object()))
    with pytest.raises(NotImplementedError, match="TF32"):
        stress_sustained.sustain(old, HERE, "tf32", 128, 0.1)
