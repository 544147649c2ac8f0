"""What a process may be started with that nobody thought of."""

from __future__ import annotations

from collections.abc import Mapping

from attempts import Surroundings

_SPEAKS = "\x1b[31m\n::error::forged\n##vso[task.complete]\r"
SURROUNDINGS: Mapping[str, Surroundings] = {
    "nothing special": Surroundings(),
    "the locale C": Surroundings({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}),
    "a terminal of one column": Surroundings({"COLUMNS": "1", "LINES": "1", "TERM": "dumb"}),
    "columns that are no number": Surroundings({"COLUMNS": "-7", "TERM": "", "NO_COLOR": "1"}),
    "GitHub": Surroundings({"GITHUB_ACTIONS": "true", "CI": "1", "GITHUB_STEP_SUMMARY": "/nonexistent/summary"}),
    "no home": Surroundings(without=("HOME", "XDG_CACHE_HOME", "USER", "LOGNAME")),
    "a home that is a file": Surroundings({"HOME": "/etc/passwd", "XDG_CACHE_HOME": "/etc/passwd/cache"}),
    "no path": Surroundings(without=("PATH",)),
    "no variables": Surroundings(without=("HOME", "PATH", "XDG_CACHE_HOME", "LANG", "USER", "SHELL", "TERM")),
    "variables that speak": Surroundings(
        {"CUDA_VISIBLE_DEVICES": _SPEAKS, "LD_LIBRARY_PATH": _SPEAKS, "XLA_FLAGS": _SPEAKS, "SLURM_JOB_ID": _SPEAKS}
    ),
    "a deep TF_CONFIG": Surroundings({"TF_CONFIG": "[" * 50_000}),
    "a job that is none": Surroundings(
        {"SLURM_PROCID": "x", "SLURM_JOB_NODELIST": "n[1-", "SLURM_TASKS_PER_NODE": "9(x", "JOB_COMPLETION_INDEX": "-1"}
    ),
    "no standard input": Surroundings(closed=(0,)),
    "no standard output": Surroundings(closed=(1,)),
    "no standard error": Surroundings(closed=(2,)),
    "no standard descriptor": Surroundings(closed=(0, 1, 2)),
    "few files": Surroundings(limits={"RLIMIT_NOFILE": 24}),
    "no large file": Surroundings(limits={"RLIMIT_FSIZE": 1 << 20}),
    "no core, a small stack": Surroundings(limits={"RLIMIT_CORE": 0, "RLIMIT_STACK": 256 << 10}),
}
