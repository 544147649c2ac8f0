"""`tfgpu-doctor explain`: why a check exists, its sources and its fix; or the meaning of a root cause's label or a code."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.output import deliver, refuse


@click.command()
@click.argument("id_", metavar="ID")
def explain(*, id_: str) -> int:
    """Explain why a check exists, with its sources and its fix; or what a cause or a code means.

    ID is a check (DRV002), a cause (driver_too_old), or a code: XID79, SXID12028, CUDA_ERROR_NO_DEVICE,
    NVML_ERROR_GPU_IS_LOST.
    """
    from tfgpu_doctor.diagnose.explanation import explain_cause, explain_check, explain_code, find_code
    from tfgpu_doctor.diagnose.plugins import load_checks
    from tfgpu_doctor.diagnose.selection import Selection, UnknownId
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
        try:
            Selection(select=(id_,)).validate([*(check.id for check in checks), *knowledge.causes])
        except UnknownId as error:
            refuse(str(error))
        deliver("".join(f"{check.id}  {check.title}\n" for check in checks if check.id.startswith(id_.upper())), None)
    return 0
