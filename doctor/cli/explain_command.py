"""`tfgpu-doctor explain`: why a check exists, its sources and its fix; or the meaning of a root cause's label or a code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.output import deliver, refuse
from tfgpu_doctor.model.plain_text import shortened

if TYPE_CHECKING:
    from tfgpu_doctor.knowledge import Knowledge
    from tfgpu_doctor.model import Check


@click.command()
@click.argument("id_", metavar="ID")
def explain(*, id_: str) -> int:
    """Explain why a check exists, with its sources and its fix; or what a cause or a code means.

    ID is a check (DRV002), a cause (driver_too_old), or a code: XID79, SXID12028, CUDA_ERROR_NO_DEVICE,
    NVML_ERROR_GPU_IS_LOST, 'CUDA error 803'.
    """
    from tfgpu_doctor.diagnose.plugins import load_checks
    from tfgpu_doctor.diagnose.selection import nearest
    from tfgpu_doctor.knowledge import read_knowledge

    checks, _ = load_checks()
    knowledge = read_knowledge()
    text = _explanation(id_, checks, knowledge)
    if not text:
        short = shortened(id_)
        near = nearest(short, [*(check.id for check in checks), *knowledge.causes, *_codes(knowledge)])
        refuse(
            f"no check, cause or code is called {short!r}{near} (`tfgpu-doctor check --list` lists all checks; "
            "`tfgpu-doctor log FILE` finds the cause in what a program printed)"
        )
    deliver(text, None)
    return 0


def _explanation(word: str, checks: Sequence[Check], knowledge: Knowledge) -> str:
    """Return the text about what the word is called exactly, else about what it probably means; empty if that is nothing."""
    from tfgpu_doctor.diagnose.code_words import find_cause, find_codes, find_signal
    from tfgpu_doctor.diagnose.explanation import explain_cause, explain_check, explain_code, find_code
    from tfgpu_doctor.diagnose.selection import fits

    if check := next((each for each in checks if each.id == word.upper()), None):
        return explain_check(check, knowledge)
    if word in knowledge.causes:
        return explain_cause(knowledge.causes[word], checks)
    if code := find_code(word, knowledge):
        return explain_code(code, knowledge)
    if group := [each for each in checks if fits(word, each.id)]:
        return "".join(f"{each.id}  {each.title}\n" for each in group)
    parts = [explain_code(each, knowledge) for each in find_codes(word, knowledge)]
    is_number = word.strip().isdecimal()  # which may be one of the driver and one of CUDA's runtime
    if (is_number or not parts) and (cause := find_cause(word, knowledge)):
        parts.append(explain_cause(cause, checks))
    return "\n".join([*parts, *filter(None, [find_signal(word)])])


def _codes(knowledge: Knowledge) -> Iterator[str]:
    """Return the names of the codes that are known, as the user writes them."""
    yield from (f"{kind.upper()}{code}" for kind, code in knowledge.xids)
    yield from (row.name for row in (*knowledge.cuda_errors.values(), *knowledge.nvml_errors.values()))
