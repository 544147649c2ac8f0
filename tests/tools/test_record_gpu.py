"""tools/record_gpu.py: the plan, parts that hang or fail, the document, the packing; slow: three parts on the stand-in."""

from __future__ import annotations

import dataclasses
import json
import lzma
import os
import pathlib
import random
import re
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable

import msgspec
import pytest
import record_gpu
from gpu_run import advice, breaks, children, figures, packing, report, results, workbench
from gpu_run.calibration import covered
from gpu_run.plan import BY_NAME, ENDING_S, PARTS, Part, allot
from gpu_run.recording import DOINGS, Recording
from gpu_run.results import PartResult, Results
from gpu_run.workbench import NotRun, Setting, Workbench, document_of
from installed import skip_without_scipy, skip_without_tensorflow
from locations import ROOT

SLEEPS = (
    "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('begun', flush=True); time.sleep(600)"
)
SECONDS = [0.0, 19.0, 79.9, 80.0, 200.0, 540.0, 1500.0, 3600.0, 36000.0]


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_PATIENCE_S", tuple((number, 1.0) for number, _ in children._PATIENCE_S))


@pytest.fixture
def setting(tmp_path: pathlib.Path) -> Setting:
    return Setting(tmp_path, (sys.executable, "-m", "tfgpu_doctor"), {})


def document(**changes: object) -> Results:
    return msgspec.structs.replace(Results(1, "0", "2026-11-24T00:00:00Z", 25.0, False, {"GPUs": ["a | b"]}), **changes)


def recording(setting: Setting, doings: dict[str, Callable[[Workbench], None]], seconds: float = 100.0) -> Recording:
    parts = [Part(name, "is it so?", 10.0, 20.0) for name in doings]
    return Recording(setting, parts, seconds, document(), doings=doings)


@pytest.mark.parametrize("seconds", SECONDS)
def test_the_sum_is_never_above_the_time_given(seconds: float) -> None:
    assert sum(allot(PARTS, seconds).values()) <= max(0.0, seconds - ENDING_S) + 1e-6


@pytest.mark.parametrize("seconds", SECONDS)
def test_what_is_reached_gets_its_least_time_and_never_more_than_it_wishes(seconds: float) -> None:
    for name, given in allot(PARTS, seconds).items():
        assert BY_NAME[name].least_s <= given <= BY_NAME[name].wished_s


def test_worth_decides() -> None:
    """No part is left out for one of less worth, and none has more than its least while a better one lacks something."""
    for seconds in random.Random(3).choices(range(20, 4000), k=200):
        given = allot(PARTS, seconds)
        spare = seconds - ENDING_S - sum(given.values())
        full = True
        for part in PARTS:
            if part.name in given:
                assert full or given[part.name] == part.least_s
                full = full and given[part.name] == part.wished_s
            else:
                before = sum(BY_NAME[each].least_s for each in given if PARTS.index(BY_NAME[each]) < PARTS.index(part))
                assert seconds - ENDING_S - before < part.least_s
        assert spare == pytest.approx(0) or all(given[each] == BY_NAME[each].wished_s for each in given)


def test_30_minutes_reach_every_part_and_each_part_can_run() -> None:
    assert allot(PARTS, 1800).keys() == DOINGS.keys() == BY_NAME.keys()


def test_the_list_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert record_gpu.main(["--list", "--minutes", "5", "--only", "deep", "accept"]) == 0
    printed = capsys.readouterr().out
    assert "near its peak" in printed
    assert "diagnose" not in printed


@pytest.mark.parametrize(
    "arguments", [["--out", "x", "--only", "deeper"], ["--minutes", "5"], ["--out", "x", "--minutes", "0"]]
)
def test_wrong_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        record_gpu.main(arguments)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/thesis").write_text("mine")
    assert record_gpu.main(["--out", str(tmp_path)]) == 2
    assert "holds other files" in capsys.readouterr().err
    assert (tmp_path / "deep/thesis").read_text() == "mine"


@pytest.mark.timed
def test_a_command_that_hangs_is_ended_with_all_that_it_started(setting: Setting) -> None:
    """It ignores Ctrl-C, and so does what it has started."""
    own = f"{SLEEPS} # {setting.folder.name}"  # other tests of this file sleep at the same time
    parent = (
        f"import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {own!r}], stdout=subprocess.PIPE); "
        f"print(child.stdout.readline().decode(), end=''); {own}"
    )
    for limit_s in (3.0, 15.0, 60.0):
        bench, began = Workbench("hanging", setting, limit_s), time.monotonic()
        done = bench.run("sleeper", [sys.executable, "-c", parent])
        assert time.monotonic() - began < 120
        if done.output.count("begun") == 2:  # else two starts of Python took longer
            break
    assert done.ended.startswith("ended at its deadline")
    assert done.output.count("begun") == 2
    assert not [each for each in pathlib.Path("/proc").glob("[0-9]*/cmdline") if own.encode() in read(each)]
    assert bench.commands[0].ended == done.ended
    assert (setting.folder / "hanging/sleeper.out").exists()


def read(path: pathlib.Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.timed
def test_what_left_its_group_is_ended_by_its_mark() -> None:
    variables = {**os.environ, children.MARK: "of this test"}
    child = subprocess.Popen(
        [sys.executable, "-c", SLEEPS], env=variables, start_new_session=True, stdout=subprocess.PIPE
    )
    assert child.stdout
    child.stdout.readline()
    assert children.end_marked("of another") == 0
    assert children.end_marked("of this test") == 1
    assert child.wait(20) == -9
    child.stdout.close()


def test_a_command_that_cannot_be_started_is_told(setting: Setting) -> None:
    done = Workbench("absent", setting, 5.0).run("nothing", ["/no/such/program"])
    assert done.exit_code is None
    assert "No such file" in done.complaint


@pytest.mark.timed
def test_a_part_that_fails_or_hangs_stops_no_other(setting: Setting) -> None:
    def fails(bench: Workbench) -> None:
        bench.found("seen before")
        raise RuntimeError("a part has a fault")

    def hangs(bench: Workbench) -> None:
        bench.seconds = 1.5
        bench.run("sleeper", [sys.executable, "-c", SLEEPS])

    def is_not_for_here(bench: Workbench) -> None:
        raise NotRun("there is no such thing here")

    def works(bench: Workbench) -> None:
        bench.table("Numbers", ("a", "b"), [(1, None)])

    found = recording(setting, {"fails": fails, "hangs": hangs, "absent": is_not_for_here, "works": works}, 200)
    assert not found.run()
    written = msgspec.json.decode((setting.folder / results.FILE).read_bytes(), type=Results)
    assert [part.status for part in written.parts] == ["failed", "done", "not run", "done"]
    assert written.parts[0].why == "RuntimeError: a part has a fault"
    assert written.parts[1].commands[0].ended
    assert [each.what for each in written.findings][1] == "seen before"
    assert written.tables[0].rows == ((1, None),)
    page = (setting.folder / "report.md").read_text()
    assert "there is no such thing here" in page
    assert r"a \| b" in page


def test_parts_that_are_not_reached_are_written_down(setting: Setting) -> None:
    ran: list[str] = []
    doings = {name: (lambda bench: ran.append(bench.name)) for name in ("one", "two", "three")}
    found = recording(setting, doings, ENDING_S + 300)
    found.parts = [Part("one", "?", 10, 20), Part("two", "?", 500, 600), Part("three", "?", 1, 2, loads=False)]
    found.run()
    assert ran == ["one", "three"]
    assert [part.status for part in found.now.parts] == ["done", "not reached", "done"]
    left, needed = re.findall(r"(\d+) s", found.now.parts[1].why)  # without the time for the report
    assert int(left) <= 300
    assert needed == "500"


def test_a_gpu_that_others_use_is_not_loaded(setting: Setting) -> None:
    ran: list[str] = []
    found = recording(setting, {"loads": lambda bench: ran.append(bench.name)})
    found.cannot_load = "other processes use the GPU (GPU:0: python (4711) computes on it)"
    found.run()
    assert not ran
    assert found.now.parts[0].status == "not run"


def test_an_interruption_keeps_what_is_known(setting: Setting) -> None:
    def interrupted(bench: Workbench) -> None:
        bench.found("known by then")
        raise KeyboardInterrupt

    found = recording(setting, {"one": interrupted, "two": lambda bench: None})
    assert found.run()
    assert [part.status for part in found.now.parts] == ["failed", "not reached"]
    assert "known by then" in {each.what for each in found.now.findings}


def test_a_second_call_adds_to_the_first(setting: Setting) -> None:
    first = recording(setting, {"one": lambda bench: bench.found("old"), "two": lambda bench: bench.found("kept")})
    first.run()
    second = recording(setting, {"one": lambda bench: bench.found("new"), "three": lambda bench: None}, ENDING_S + 300)
    second.earlier = results.read_earlier(setting.folder)
    second.parts = [*second.parts, Part("two", "?", 500, 600)]
    second.doings["two"] = lambda bench: None
    second.run()
    written = results.read_earlier(setting.folder)
    assert written
    assert {part.name: part.status for part in written.parts} == {"one": "done", "two": "done", "three": "done"}
    assert sorted(each.what for each in written.findings) == ["kept", "new"]


def test_the_document_has_its_schema() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(document(schema=2)), type=Results)
    part = PartResult("deep", "?", "done")
    given = json.loads(msgspec.json.encode(document(parts=(part,))))
    assert {"schema", "machine", "parts", "tables", "findings"} <= given.keys()
    assert "| deep" in report.page(document(parts=(part,)))


def test_what_is_packed_is_small_and_has_plain_names(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "LARGE_BYTES", 1 << 20)
    monkeypatch.setattr(packing, "MOST_BYTES", 1 << 20)
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "too large").write_bytes(bytes((1 << 20) + 1))
    for name, size in (("first", 700_000), ("second", 600_000), ("a name: ä", 10)):
        (folder / name).write_bytes(os.urandom(size))
    (folder / "link").symlink_to("/etc/passwd")
    left_out = packing.pack(tmp_path, ["traces", "absent"])
    assert [each.split(" (")[0] for each in left_out] == ["traces/too large", "traces/first"]
    assert [each.name for each in tmp_path.iterdir()] == [packing.ARCHIVE]
    assert (tmp_path / packing.ARCHIVE).stat().st_size <= 1 << 20
    with tarfile.open(tmp_path / packing.ARCHIVE) as archive:
        assert archive.getnames() == ["traces/a_name___", "traces/second"]
    packing.unpack(tmp_path)
    assert (folder / "second").stat().st_size == 600_000


def test_profiles_are_counted_and_compressed_in_place(tmp_path: pathlib.Path) -> None:
    for number in range(3):
        place = tmp_path / f"profile-{number}/plugins/profile/1"
        place.mkdir(parents=True)
        (place / "host.xplane.pb").write_bytes(bytes([number]) * 1000)
    assert packing.profile_bytes(tmp_path) == 3000
    packing.compress_profiles(tmp_path)
    kept = sorted(tmp_path.rglob("*.xz"))
    assert [lzma.decompress(each.read_bytes())[0] for each in kept] == [0, 1, 2]
    assert list(tmp_path.rglob("*.pb")) == []


def test_what_times_nothing_runs_side_by_side(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbench, "_CPUS_EACH", 1 / 3)
    bench = Workbench("breaks", setting, 60)
    both = threading.Barrier(2, timeout=30)  # broken where one runs after the other
    done = bench.side_by_side(5, dict.fromkeys(("one", "two"), lambda: both.wait() >= 0))
    assert done == {"one": True, "two": True}
    late = Workbench("breaks", setting, 1)
    assert late.side_by_side(5, {"third": lambda: "ran"}) == {}
    assert late.shortened == ["third"]


def test_a_failure_beside_others_ends_them(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbench, "_CPUS_EACH", 1 / 3)
    marked = dataclasses.replace(setting, variables={children.MARK: "beside-others"})
    bench = Workbench("breaks", marked, 60)

    def fails() -> str:
        while not (bench.folder / "sleeps.out").exists() or "begun" not in (bench.folder / "sleeps.out").read_text():
            time.sleep(0.05)
        raise NotRun("no")

    began = time.monotonic()
    with pytest.raises(NotRun):
        bench.side_by_side(
            1, {"fails": fails, "sleeps": lambda: bench.run("sleeps", [sys.executable, "-c", SLEEPS]).ended}
        )
    assert time.monotonic() - began < 40


def test_a_fault_is_right_only_as_the_first_cause() -> None:
    assert breaks.judged(("a", "b"), ["b", "c"]) == "right"
    assert breaks.judged(("a",), ["c", "a"]) == "named, but not first"
    assert breaks.judged(("a",), []) == "WRONG"


def test_coverage_counts_the_others_median() -> None:
    runs = [(1.0, (0.9, 1.1)), (1.05, (0.99, 1.1)), (1.5, (1.4, 1.6))]
    assert covered(runs) == 0
    assert covered([(1.0, (0.9, 1.1)), (1.0, (0.9, 1.1)), (1.5, (0.9, 2.0))]) == 1


def test_a_ratio_below_097_is_a_finding(setting: Setting) -> None:
    bench = Workbench("figures", setting, 10)
    figures._row(bench, "a product", [[96.0, 100.0], [95.0, 100.0], [99.0, 100.0]], "")
    figures._row(bench, "a copy", [[98.0, 100.0]], "")
    assert [each.what.split(":")[0] for each in bench.findings] == ["a product"]


def test_advice_that_brings_little_is_a_finding(setting: Setting) -> None:
    bench = Workbench("advice", setting, 10)
    ways = {"as it was": [2.0, 4.0, 2.2], "helps": [1.0, 1.0, 1.0], "does not": [2.0, 4.0, 2.2]}
    helps, does_not = advice.compared(bench, "copies", ways)
    assert helps == ("copies", "as it was", 2200.0, "helps", 1000.0, "2.20", "2.00", "4.00", 3)
    assert does_not[5] == "1.00"
    assert [each.what.split(" is ")[0] for each in bench.findings] == ["copies: does not"]


def test_a_document_may_follow_other_lines() -> None:
    assert document_of('noise\n{"a": 1}\n') == {"a": 1}
    assert document_of("") is document_of("[1]") is None


def tool(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/record_gpu.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **variables})


def has_gpu() -> bool:
    return pathlib.Path("/proc/driver/nvidia/version").exists()


@pytest.mark.tensorflow
def test_without_a_gpu_it_says_so(tmp_path: pathlib.Path) -> None:
    skip_without_tensorflow()
    if has_gpu():
        pytest.skip("this machine has a GPU")
    done = tool("--out", str(tmp_path / "out"), "--minutes", "2")
    assert done.returncode == 2
    assert done.stderr.startswith("record_gpu: this machine has no NVIDIA GPU: neither")
    assert done.stderr.count("\n") == 1
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.slow
@pytest.mark.tensorflow
def test_parts_run_on_the_stand_in(tmp_path: pathlib.Path) -> None:
    """What a part finds depends on the processor, that it runs and is kept does not. All parts together take long."""
    skip_without_tensorflow()
    skip_without_scipy()
    home, out = tmp_path / "home", tmp_path / "out"
    home.mkdir()
    parts = ["diagnose", "breaks", "devices"]
    done = tool("--out", str(out), "--minutes", "30", "--stand-in", "--only", *parts, HOME=str(home))
    assert done.returncode in (0, 1), done.stderr
    written = results.read_earlier(out)
    assert written
    assert written.stand_in
    assert {part.name: part.status for part in written.parts} == dict.fromkeys(parts, "done")
    faults = [row for table in written.tables if table.part == "breaks" for row in table.rows]
    assert faults
    assert [row for row in faults if not row[3].startswith(("right", "not tried"))] == []
    assert len(list(out.iterdir())) <= packing.MOST_FILES
    assert all(each.stat().st_size <= packing.MOST_BYTES for each in out.iterdir())
    assert list(home.rglob("*")) == []
