"""Map the codes of NVIDIA's drivers in a log to causes, using the table of Xids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.knowledge.schema import Xid
from tfgpu_doctor.log.signatures import Hit

# The signature of each cause that the table names for a code; the rules know all of them.
_NAMES = {
    "hardware_ecc_error": "xid_memory",
    "hardware_faulty_gpu": "xid_faulty",
    "hardware_power_supply": "xid_power",
    "gpu_lost": "xid_off_the_bus",
    "gpu_hang": "xid_hang",
    "gpu_reset_required": "xid_reset",
    "gpu_start_failed": "xid_start",
    "gpu_kernel_fault": "xid_application",
    "nvswitch_fault": "xid_switch",
    "nvlink_down": "xid_nvlink",
}
_UNSPECIFIC = "plain_xid"  # of a fault whose code alone does not show the cause; no rule needs it
_WORDS = {"xid": "Xid", "sxid": "SXid"}


def xid_signatures(hits: Mapping[str, Sequence[Hit]], knowledge: Knowledge) -> Iterator[tuple[str, Hit]]:
    """Yield the derived signature of each line with a code of a fault, with the code's meaning and the action to take."""
    if not any(hits.get(kind) for kind in _WORDS):
        return
    from tfgpu_doctor.checks.kernel_log.xids import FOLLOWS, is_fault, label_of

    for kind in _WORDS:
        for hit in hits.get(kind, ()):
            before = FOLLOWS.search(hit.text)  # the end of a program's channel names the Xid that is its reason
            row = knowledge.xids.get((kind, int(before[1] if before else hit.groups[kind])))
            if row is None:
                yield _UNSPECIFIC, hit
            elif is_fault(row, hit.text):
                yield _NAMES.get(label_of(row, hit.text)[0], _UNSPECIFIC), _explained(hit, row)


def _explained(hit: Hit, row: Xid) -> Hit:
    """Return a hit that also says what the code means and what to do."""
    text = f"{hit.text} ({_WORDS[row.kind]} {row.code}: {row.meaning})"
    return Hit(hit.line, text, {**hit.groups, "fix": row.action})
