"""Part 4: a profile learnt on this machine, which then has to accept it."""

from __future__ import annotations

from gpu_run.telemetry import telemetry
from gpu_run.workbench import Workbench

_DEEP_FROM_S = 560.0  # three runs and one more, each with a stress test
_PROFILE = """about = "learnt by record_gpu"
extends = "ci"
level = "{level}"
suites = ["device_placement"]
budget = "{budget}"
"""


def acceptance(bench: Workbench) -> None:
    """Learn, accept, verify the certificate."""
    level = "deep" if bench.left_s >= _DEEP_FROM_S and not bench.setting.stand_in else "standard"  # too slow for it
    if level == "standard":
        bench.shortened.append("level deep in the profile: there was time for level standard")
    base, learnt, certificate = (bench.folder / name for name in ("base.toml", "learnt.toml", "certificate.json"))
    one_s = bench.left_s / 4.5 - (90 if level == "deep" else 20)
    base.write_text(_PROFILE.format(level=level, budget=f"{max(20, min(120, one_s)):.0f}s"))
    with telemetry(bench):
        done = bench.doctor(
            "learn", "accept", "learn", "--profile", str(base), "--runs", "3", "-o", str(learnt), *bench.busy_option
        )
        if not learnt.exists():
            bench.found(f"no profile was learnt: {done.complaint}")
            return
        judged = bench.doctor("accept", "accept", "run", "--profile", str(learnt), "-o", str(certificate),
                              "--html", str(bench.folder / "certificate.html"), *bench.busy_option)  # fmt: skip
    if judged.exit_code != 0:
        bench.found(f"the machine is not accepted by the profile that was learnt on it: {judged.complaint}")
    verified = bench.doctor("verify", "accept", "verify", str(certificate), limit_s=30)
    said = (verified.output.strip().splitlines() or [verified.complaint])[0]
    bench.table("Acceptance", ("step", "exit code", "seconds", "said"), [
        ("learn", done.exit_code, done.seconds, f"{len(learnt.read_text().splitlines())} lines of profile"),
        ("accept", judged.exit_code, judged.seconds, ""),
        ("verify", verified.exit_code, verified.seconds, said),
    ])  # fmt: skip
