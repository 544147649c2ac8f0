"""The settings file of Keras."""

from __future__ import annotations

import os

from tfgpu_doctor.collect.probe import Unavailable, probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.child_variables import keras_home_of
from tfgpu_doctor.host.json_text import read_json
from tfgpu_doctor.model.facts.keras import Keras

_LONGEST = 60  # of the name of a backend
_MOST_BYTES = 1 << 16


@probe(waits_for="the settings of Keras")
def keras(host: Host) -> Keras:
    """Find keras.json as Keras 3 does (keras/src/backend/config.py), and read the backend from it."""
    folder = keras_home_of(host.environment)
    if not folder:
        raise Unavailable("the home folder is not known")
    file = os.path.join(folder, "keras.json")
    if not host.target_files.exists(file):
        return Keras(file=file)
    try:
        content = host.target_files.read_bytes(file, _MOST_BYTES)
    except OSError as error:
        return Keras(file=file, exists=True, error=f"it cannot be read ({error.strerror})")
    try:
        settings = read_json(content)
    except ValueError:
        return Keras(file=file, exists=True)  # Keras ignores such a file, too
    if not isinstance(settings, dict):
        return Keras(file=file, exists=True, error="it is no JSON object")
    return Keras(file=file, exists=True, backend=str(settings.get("backend") or "")[:_LONGEST])
