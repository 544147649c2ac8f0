"""The kernel log of a capture; it was taken by dmesg, and its newest line counts as now."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tfgpu_doctor.model.facts.kernel import KernelLog, KernelMessage, LogSource

_SOURCE = "dmesg"
_AGES = ("first_age_s", "last_age_s", "oldest_age_s", "newest_age_s")
Aged = TypeVar("Aged", KernelMessage, LogSource)


def kernel_log_of(read: KernelLog | None) -> KernelLog:
    """What the doctor's reader found in the log, named as its source; a log of which it knows no message has none."""
    if read is None:
        return KernelLog(source=_SOURCE, tried=(LogSource(name=_SOURCE),))
    tried = tuple(_in_seconds(msgspec.structs.replace(each, name=_SOURCE)) for each in read.tried)
    return msgspec.structs.replace(
        read, source=_SOURCE, tried=tried, messages=tuple(_in_seconds(each) for each in read.messages)
    )


def _in_seconds(fact: Aged) -> Aged:
    """The fact with ages in whole seconds: the reader counts them from the moment at which it reads."""
    ages = {name: getattr(fact, name) for name in _AGES if getattr(fact, name, None) is not None}
    return msgspec.structs.replace(fact, **{name: float(round(age)) for name, age in ages.items()})
