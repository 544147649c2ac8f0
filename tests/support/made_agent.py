"""A process with TensorFlow that answers at once."""

from __future__ import annotations

import lzma
import pathlib

from locations import TESTS

from tfgpu_doctor.watching.agent import LOOK_ANSWER_S, Look

RECORDED = sorted((TESTS / "tracing/recorded").glob("2.21*-py_function.*.xz"))


class MadeAgent:
    """A process that answers at once, and writes a real profile, or none."""

    def __init__(self, pid: int = 7, profile: pathlib.Path | None = RECORDED[0] if RECORDED else None) -> None:
        self.pid, self.profile = pid, profile
        self.look: Look | None = None
        self.asked_s: float | None = None
        self.recording, self.problem, self.folder = "", "", pathlib.Path()
        self.full, self.seconds, self.changed_s, self.most_bytes = False, 0.0, 0.0, 0
        self.over: str | None = None
        self.lost, self.unable, self.answer_s = False, "", LOOK_ANSWER_S
        self.recorded: list[float] = []

    def ask(self, *, others: bool) -> None:
        pass

    def start(self, folder: str, most_bytes: int) -> None:
        self.folder, self.recording, self.most_bytes = pathlib.Path(folder), "running", most_bytes

    def stop(self) -> None:
        self.recording = ""
        if self.profile is not None:
            with lzma.open(self.profile) as file:
                (self.folder / "host.xplane.pb").write_bytes(file.read())
