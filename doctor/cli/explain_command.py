"""`tfgpu-doctor explain`: why a check exists, its sources and its fix; or the meaning of a root cause's label or a code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.output import deliver, refuse

if TYPE_CHECKING:
    from tfgpu_doctor.knowledge import Knowledge


@click.command()
@click.argument("id_", metavar="ID")
def explain(*, id_: str) -> int:
    """Explain why a check exists, with its sources and its fix; or what a cause or a code means.

    ID is a check (DRV002), a cause (driver_too_old), or a code: XID79, SXID12028, CUDA_ERROR_NO_DEVICE,
    NVML_ERROR_GPU_IS_LOST.
    """
    from tfgpu_doctor.diagnose.explanation import explain_cause, explain_check, explain_code, find_code
    from tfgpu_doctor.diagnose.plugins import load_checks
    from tfgpu_doctor.diagnose.selection import fits, nearest
    from tfgpu_doctor.knowledge import read_knowledge

    checks, _ = load_checks()
    knowledge = read_knowledge()
    found = next((check for check in checks if check.id == id_.upper()), None)
    code = find_code(id_, knowledge)
    if found:
        deliver(explain_check(found, knowledge), None)
    elif id_ in knowledge.causes:
        deliver(explain_cause(knowledge.causes[id_], checks), None)
    elif code:
        deliver(explain_code(code, knowledge), None)
    else:
        group = [check for check in checks if fits(id_, check.id)]
        if not group:
            near = nearest(id_, [*(check.id for check in checks), *knowledge.causes, *_codes(knowledge)])
            refuse(f"no check, cause or code is called {id_!r}{near} (`tfgpu-doctor check --list` lists all checks)")
        deliver("".join(f"{check.id}  {check.title}\n" for check in group), None)
    return 0


def _codes(knowledge: Knowledge) -> Iterator[str]:
    """Return the names of the codes that are known, as the user writes them."""
    yield from (f"{kind.upper()}{code}" for kind, code in knowledge.xids)
    yield from (row.name for row in (*knowledge.cuda_errors.values(), *knowledge.nvml_errors.values()))
