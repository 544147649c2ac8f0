"""Map the codes of NVIDIA's drivers in a log to causes, using the table of Xids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.knowledge.schema import Xid
from tfgpu_doctor.log.signatures import Hit

# The names that the log rules use for the causes of codes.
_NAMES = {
    "hardware_ecc_error": "xid_memory",
    "hardware_power_supply": "xid_off_the_bus",
    "hardware_faulty_gpu": "xid_application",
}


def xid_signatures(hits: Mapping[str, Sequence[Hit]], knowledge: Knowledge) -> Iterator[tuple[str, Hit]]:
    """Yield the derived signature of each line that contains a code, if the code indicates a specific cause."""
    for kind in ("xid", "sxid"):
        for hit in hits.get(kind, ()):
            row = knowledge.xids.get((kind, int(hit.groups[kind])))
            name = _name(row) if row else ""
            if name:
                yield name, hit


def _name(row: Xid) -> str:
    """Return the signature name, empty for no fault or an unspecific code; a faulty GPU can also cause application errors."""
    if row.severity != "info" and row.likely[:1] == ("application",):
        return "xid_application"
    return _NAMES.get(row.cause, "")
