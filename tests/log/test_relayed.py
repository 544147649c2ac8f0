"""What a relay writes around the lines of a program changes nothing about them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable

from every import every
from read_logs import HEALTHY, HIDDEN, KILLED, LOST, causes, report_on

from tfgpu_doctor.log.relayed import _MOST_RELAYS

Relay = Callable[[int, str], str]


def moment(number: int) -> dt.datetime:
    return dt.datetime(2024, 5, 3, 9, 59, 50, 1) + dt.timedelta(milliseconds=137 * number)


RELAYS: dict[str, Relay] = {
    "Docker Compose": lambda _, line: f"app_1  | {line}",
    "two services of Docker Compose": lambda number, line: f"trainer-{number % 2 + 1}  | {line}",
    "Ray": lambda number, line: (
        f"\x1b[2m\x1b[36m(train_fn pid={2200 + number % 3}, ip=10.0.0.{number % 3})\x1b[0m {line}"
    ),
    "kubectl logs --prefix": lambda _, line: f"[pod/trainer-7d9f/worker] {line}",
    "mpirun --tag-output": lambda number, line: f"[1,{number % 2}]<stderr>:{line}",
    "srun --label": lambda number, line: f"{number % 4}: {line}",
    "pdsh": lambda number, line: f"node-{number % 4}: {line}",
    "SageMaker": lambda _, line: f"[1,mpirank:0,algo-1]<stderr>:{line}",
    "syslog": lambda number, line: f"{moment(number):%b %d %H:%M:%S} host1 python[4711]: {line}",
    "journalctl -o short-iso": lambda number, line: (
        f"{moment(number).isoformat()[:19]}+0000 host1 train.sh[4711]: {line}"
    ),
    "a CRI runtime": lambda number, line: f"{moment(number).isoformat()}789Z stderr F {line}",
    "Docker's json-file": lambda number, line: json.dumps(
        {"log": line + "\n", "stream": "stderr", "time": f"{moment(number).isoformat()}Z"}
    ),
    "Kaggle": lambda number, line: (
        f'{",{" if number else "[{"}"stream_name":"stderr","time":{number * 0.3:.3f},"data":{json.dumps(line + chr(10))}}}'
    ),
    "Python's logging": lambda number, line: f"{moment(number).isoformat(' ')[:19]},123 - trainer - INFO - {line}",
    "Airflow": lambda number, line: (
        f"[{moment(number).isoformat(' ')[:19]},123] {{{{subprocess.py:93}}}} INFO - {line}"
    ),
    "Celery": lambda number, line: f"[{moment(number).isoformat(' ')[:19]},123: WARNING/ForkPoolWorker-1] {line}",
    "Jenkins": lambda number, line: f"[{moment(number).isoformat()[:-3]}Z] {line}",
    "CloudWatch": lambda number, line: f"{1714726790000 + number * 137}\t{line}",
    "another program": lambda _, line: f"Classifier process output: {line}",
}


def relayed(relay: Relay, text: str) -> str:
    return "".join(f"{relay(number, line)}\n" for number, line in enumerate(text.splitlines()))


@every("name", list(RELAYS))
def test_a_relay_changes_nothing(name: str) -> None:
    for text, cause in (
        (LOST, "gpu_libs_not_found"),
        (HEALTHY, "harmless_noise_only"),
        (KILLED, "container_memory_limit"),
        (HIDDEN, "cuda_visible_devices_hides_gpu"),
    ):
        assert causes(text)[0][0] == cause
        assert causes(relayed(RELAYS[name], text)) == causes(text), text


def test_a_line_keeps_its_number_and_is_shown_bare() -> None:
    (first, *_) = report_on("starting\n" + relayed(RELAYS["Docker's json-file"], LOST)).causes
    assert [line for line, text in zip(first.lines, first.evidence, strict=True) if "libcudnn" in text] == [3]
    assert all(text.startswith(("2024-05-03 09:59:5", "Skipping")) for text in first.evidence)


def test_what_somebody_writes_once_before_a_line_is_no_relay() -> None:
    line = LOST.splitlines()[1]
    text = f"TensorFlow does not use my GPU, it says {line}\nWhat can I do?\n"
    assert "it says" in report_on(text).causes[0].evidence[0]


def test_of_many_workers_each_line_is_read() -> None:
    workers = _MOST_RELAYS // 2
    names = [f"worker{chr(97 + number // 26)}{chr(97 + number % 26)}: " for number in range(workers)]
    text = "".join(relayed(lambda _, line, name=name: name + line, HEALTHY) for name in names)  # type: ignore[misc]
    assert causes(text) == causes(HEALTHY)


def test_a_string_of_several_lines_is_read_line_by_line() -> None:
    records = [{"log": LOST, "stream": "stderr"}, {"log": LOST, "stream": "stderr"}]
    text = "".join(json.dumps(record) + "\n" for record in records)
    assert causes(text)[0] == causes(LOST)[0]
