"""The fact of a restart that the machine waits for."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import Text


class Restart(Fact, frozen=True):
    """What was installed after the machine started, as far as files show it."""

    required: bool = False  # Debian's and Ubuntu's packages asked for a restart
    packages: tuple[Text, ...] = ()  # those that did: a text, as the names on the public list are those of Python
    module_is_newer: bool | None = None  # NVIDIA's module for the running kernel was installed after the start
