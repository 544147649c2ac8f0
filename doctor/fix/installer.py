"""Run the target's own pip so that it writes only to the target."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tfgpu_doctor.fix.bounds import NotPossible
from tfgpu_doctor.fix.plan import PipStep
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.watched import ended_by, run_watched

_LONGEST_S = 4 * 3600.0  # 4 GB of wheels over a slow connection; pip itself times out on a dead connection
_DEADLINE_S = 60.0
# Settings that make pip write elsewhere: variables are removed, but settings in a pip.conf cannot be.
_ELSEWHERE = ("target", "prefix", "root", "python")
_SETTING = re.compile(rf"^(?!:env:)\S+\.({'|'.join(_ELSEWHERE)})=", re.MULTILINE)


class StepFailed(Exception):
    """A step that failed; the message says how it ended."""


def refuse_redirection(host: Host, step: PipStep) -> None:
    """Raise NotPossible if the user's pip.conf makes pip install outside the environment."""
    done = host.run([*step.argv[:3], "config", "list"], deadline_s=_DEADLINE_S, variables=pip_variables({}))
    found = _SETTING.search(done.stdout.decode("utf-8", "replace"))
    if found:
        raise NotPossible(
            f"pip's configuration sets {found.group(1)!r}: pip would install outside the environment. "
            f"Remove that setting (`pip config unset`), or run the command yourself"
        )


def run_pip(step: PipStep, host: Host, *, folder: str, lock: int, on_tick: Callable[[], None]) -> None:
    """Run one step to completion, with its output on standard error. Raises StepFailed."""
    try:
        code = run_watched(
            step.argv, environment=pip_variables(host.variables()), folder=folder,
            deadline_s=_LONGEST_S, holding=(lock,), on_tick=on_tick,
        )  # fmt: skip
    except OSError as error:
        raise StepFailed(f"pip could not be started: {error.strerror or error}") from error
    if code is None:
        raise StepFailed(f"pip did not end within {_LONGEST_S / 3600:.0f} hours")
    if number := ended_by(code):
        raise StepFailed(f"pip was ended by {number}")
    if code != 0:
        raise StepFailed(f"pip ended with exit code {code}; see its output above")


def pip_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for pip: no setting that makes it write elsewhere, and no prompts.

    pip removes what it replaces from wherever it finds it: of the user site and PYTHONPATH it is to see nothing.
    """
    unwanted = {"PYTHONPATH", *(f"PIP_{name.upper()}" for name in _ELSEWHERE)}
    kept = {name: value for name, value in environment.items() if name not in unwanted}
    return {
        **kept,
        "PYTHONNOUSERSITE": "1",
        "PIP_USER": "0",
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
