"""Whether a call may add to what an earlier one left in the folder, and what is done then."""

from __future__ import annotations

from gpu_run.report import said
from gpu_run.results import Results

_SAME = ("GPUs", "driver", "TensorFlow")  # of the machine's head
_ON = {True: "a stand-in", False: "a real GPU"}


def difference(earlier: Results, now: Results) -> str:
    """Why the parts of both cannot stand beside each other; empty if they can. The machine counts once it is known."""
    if earlier.stand_in != now.stand_in:
        return f"it was recorded on {_ON[earlier.stand_in]}, and this call is for {_ON[now.stand_in]}"
    if earlier.doctor != now.doctor:
        return f"it was recorded by tfgpu-doctor {earlier.doctor}, and this is {now.doctor}"
    for name in _SAME if now.machine else ():
        then, here = said(earlier.machine.get(name)), said(now.machine.get(name))
        if then != here:
            return f"{name}: it was {then} there, and is {here} here"
    return ""


def all_done(earlier: Results | None, now: Results) -> bool:
    """Whether each part of this call is done; what it had no time for may have been done by an earlier call."""
    before = {part.name for part in earlier.parts if part.status == "done"} if earlier else set()
    return all(part.status == "done" or (part.status == "not reached" and part.name in before) for part in now.parts)
