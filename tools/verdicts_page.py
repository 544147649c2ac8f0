"""docs/verdicts.md: which root causes decide whether a machine is fit for work, and what the others cost."""

from __future__ import annotations

from tabulate import tabulate

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.knowledge.schema import Cause

_HEAD = """# The verdict

A diagnosis answers two questions, on a line each in the terminal, and as `computes` and `fit` in the JSON document:

- **TensorFlow computes on a GPU here.** Yes, if it multiplied matrices on every GPU that it lists, and the results were right.
  "Not tried" with `--quick`, "not judged" in a rehearsal.
- **Every GPU of this machine is fit for work.** No, if a GPU on the PCI bus cannot be used, whoever else works: it is lost,
  hangs, did not start, computes wrong results, waits for a reset, or has links down that the others have up. Yes, if TensorFlow
  computes on each GPU that it lists, and every other one was withheld on purpose: by CUDA_VISIBLE_DEVICES, MIG, the container,
  the job, another driver such as vfio-pci, or TensorFlow's own choice (too few multiprocessors, a card that the driver no
  longer supports). "Not known" in every other case.

`healthy` is true if the first is answered with yes, the second not with no, and no check failed. With `--quick`, it is true if
the driver provides a GPU and no check failed; in a rehearsal, if TensorFlow registers every simulated GPU and no check failed
(nothing is computed, and `simulated` is true); and who leaves out checks of the GPUs (`--ignore`, `--select`) leaves the second
question open, as does a GPU of which nobody can know why CUDA does not list it.
Where the check of the first question is not among those selected, nothing is called healthy: the exit code 0 then says that
none of the selected checks found an error; if some were skipped or blocked, the headline counts them. An error makes the exit
code 1, a warning does not (`--fail-level warning` changes that). Where neither a pass nor an error answers a question that was
asked, headline and reasons say so, also beside a warning, and the exit code is 3.

| class | what it is |
|---|---|
| unfit | an error, whoever else works; a warning only as a suspicion, or where the GPU computes again |
| blocker | an error if TensorFlow does not compute because of it, or one of its operations fails; otherwise a warning |
| degrades | a warning that says what it costs; an error only if no GPU is left |
| feature | a warning or a note; an error if TensorFlow stops at it |
| no fault | an error of `check`, which asks whether a GPU computes; nothing on the machine is broken |

"A log" in the last column: only `tfgpu-doctor log` can tell.

"""


def verdicts_page(knowledge: Knowledge) -> str:
    """Return the page: a row for each label of the vocabulary, in its order."""
    rows = [
        (f"`{cause.label}`", class_of(cause), cause.costs, "a log" if cause.shown_by == "log" else "")
        for cause in knowledge.causes.values()
    ]
    table = tabulate(
        rows, ("root cause", "class", "what it costs while TensorFlow computes", "shown by"), tablefmt="github"
    )
    return f"{_HEAD}{table}\n"


def class_of(cause: Cause) -> str:
    """Return the class of a label: unfit, or by its severity."""
    return "unfit" if cause.unfit else {"none": "no fault"}.get(cause.severity, cause.severity)
