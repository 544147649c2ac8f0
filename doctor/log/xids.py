"""What the codes of NVIDIA's drivers in a log speak for, by the table of Xids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.knowledge.schema import Xid
from tfgpu_doctor.log.signatures import Hit

# The names by which the rules for logs know what a code speaks for.
_NAMES = {
    "hardware_ecc_error": "xid_memory",
    "hardware_power_supply": "xid_off_the_bus",
    "hardware_faulty_gpu": "xid_application",
}


def xid_signatures(hits: Mapping[str, Sequence[Hit]], knowledge: Knowledge) -> Iterator[tuple[str, Hit]]:
    """The derived signature of each line that holds a code, where the code says more than that something went wrong."""
    for kind in ("xid", "sxid"):
        for hit in hits.get(kind, ()):
            row = knowledge.xids.get((kind, int(hit.groups[kind])))
            name = _name(row) if row else ""
            if name:
                yield name, hit


def _name(row: Xid) -> str:
    """Empty for what is no fault, or may be anything; what a program does wrong a faulty GPU may do as well."""
    if row.severity != "info" and row.likely[:1] == ("application",):
        return "xid_application"
    return _NAMES.get(row.cause, "")
