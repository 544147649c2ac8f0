"""The fact of the settings file of Keras."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import FilePath, Text


class Keras(Fact, frozen=True):
    """The keras.json that Keras 3 reads when it is imported."""

    file: FilePath = ""  # where Keras expects it
    exists: bool = False
    backend: Text = ""  # as the file writes it; empty if it names none
    error: Text = ""  # why Keras cannot use its content
