"""Run the parts one after the other, whatever becomes of each, and write down the results after each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from gpu_run import (
    acceptance,
    advice,
    benchmarks,
    breaks,
    calibration,
    children,
    devices,
    diagnose,
    figures,
    packing,
    report,
    results,
    stress,
    trainings,
)
from gpu_run.plan import ENDING_S, Part, allot
from gpu_run.results import Finding, PartResult, Results, Status
from gpu_run.workbench import NotRun, Setting, Workbench

Doing = Callable[[Workbench], None]
DOINGS: dict[str, Doing] = {
    "diagnose": diagnose.diagnose, "breaks": breaks.breaks, "figures": figures.figures, "bench": benchmarks.benchmarks,
    "deep": stress.deep, "traces": trainings.traces, "devices": devices.devices, "watch": trainings.watches,
    "advice": advice.advice, "accept": acceptance.acceptance, "calibration": calibration.calibration, "soak": stress.soak,
}  # fmt: skip


@dataclass
class Recording:
    """One call of the tool."""

    setting: Setting
    parts: Sequence[Part]
    seconds: float
    now: Results
    earlier: Results | None = None
    cannot_load: str = ""  # why the GPU is not loaded
    tell: Callable[[str], None] = lambda _line: None
    doings: dict[str, Doing] = field(default_factory=lambda: DOINGS)
    began: float = field(default_factory=time.monotonic)

    def run(self) -> bool:
        """Run all parts that are reached; return whether the user interrupted. What is not run is written down, too."""
        interrupted = False
        for number, part in enumerate(self.parts):
            left_s = self.seconds - (time.monotonic() - self.began)
            given_s = allot(self.parts[number:], left_s).get(part.name)
            if interrupted:
                self._keep(part, "not reached", "the recording was interrupted")
            elif part.loads and self.cannot_load:
                self._keep(part, "not run", self.cannot_load)
            elif given_s is None:
                usable = max(0.0, left_s - ENDING_S)
                self._keep(part, "not reached", f"{usable:.0f} s were left, and it needs {part.least_s:.0f} s")
            else:
                interrupted = self._one(part, given_s)
        return interrupted

    def _one(self, part: Part, given_s: float) -> bool:
        self.tell(f"{part.name}: up to {given_s:.0f} s")
        bench = Workbench(part.name, self.setting, given_s)
        status: Status = "done"
        why, interrupted = "", False
        try:
            self.doings[part.name](bench)
        except NotRun as reason:
            status, why = "not run", str(reason)
        except KeyboardInterrupt:
            status, why, interrupted = "failed", "the recording was interrupted", True
        except Exception as error:  # noqa: BLE001 - one part that fails must not cost the others
            status, why = "failed", f"{type(error).__name__}: {error}"
        if any(command.ended for command in bench.commands):  # what hung may have left something that holds the GPU
            children.end_marked(self.setting.variables.get(children.MARK) or "")
        ended = (f"{command.name} was {command.ended}" for command in bench.commands if command.ended)
        reasons = [why, *ended, *(f"left out: {each}" for each in dict.fromkeys(bench.shortened))]
        self._keep(part, status, "; ".join(filter(None, reasons)), bench)
        self.tell(f"{part.name}: {status}, {len(bench.findings)} findings" + (f" ({why})" if why else ""))
        return interrupted

    def _keep(self, part: Part, status: Status, why: str, bench: Workbench | None = None) -> None:
        row = PartResult(part.name, part.question, status, why)
        failed = (Finding(part.name, f"the part failed: {why}"),) if status == "failed" else ()
        self.now = msgspec.structs.replace(self.now, findings=(*self.now.findings, *failed))
        if bench:
            took_s = round(time.monotonic() - bench.began, 1)
            row = msgspec.structs.replace(
                row, given_s=round(bench.seconds), seconds=took_s, commands=tuple(bench.commands)
            )
            self.now = msgspec.structs.replace(
                self.now,
                tables=(*self.now.tables, *bench.tables),
                findings=(*self.now.findings, *bench.findings),
            )
        self.now = msgspec.structs.replace(self.now, parts=(*self.now.parts, row))
        self.write()

    def write(self) -> Results:
        """Write results.json and report.md as far as they are known."""
        found = results.merged(self.earlier, self.now)
        results.write(self.setting.folder, found)
        (self.setting.folder / "report.md").write_text(report.page(found), "utf-8")
        return found

    def pack(self) -> Results:
        """Pack the folders of all parts, and write the results for the last time."""
        folders = ["machine", *DOINGS]
        left_out = packing.pack(
            self.setting.folder, [each for each in folders if (self.setting.folder / each).is_dir()]
        )
        self.now = msgspec.structs.replace(self.now, left_out=tuple(left_out))
        return self.write()
