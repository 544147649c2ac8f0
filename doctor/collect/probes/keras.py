"""The settings file of Keras."""

from __future__ import annotations

import json
import os

from tfgpu_doctor.collect.probe import Unavailable, probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.keras import Keras

_LONGEST = 60  # of the name of a backend
_MOST_BYTES = 1 << 16


@probe(waits_for="the settings of Keras")
def keras(host: Host) -> Keras:
    """Find keras.json as Keras 3 does (keras/src/backend/config.py), and read the backend from it."""
    file = os.path.join(_folder(host), "keras.json")
    if not host.target_files.exists(file):
        return Keras(file=file)
    try:
        content = host.target_files.read_bytes(file, _MOST_BYTES)
    except OSError as error:
        return Keras(file=file, exists=True, error=f"it cannot be read ({error.strerror})")
    try:
        settings = json.loads(content)
    except (ValueError, RecursionError):
        return Keras(file=file, exists=True)  # Keras ignores such a file, too
    if not isinstance(settings, dict):
        return Keras(file=file, exists=True, error="it is no JSON object")
    return Keras(file=file, exists=True, backend=str(settings.get("backend") or "")[:_LONGEST])


def _folder(host: Host) -> str:
    """KERAS_HOME, or .keras in the home folder; if that is not writable, Keras uses /tmp/.keras."""
    home = host.environment.get("HOME") or host.environment.get("USERPROFILE") or ""
    own = host.environment.get("KERAS_HOME") or ""
    if own:
        return home + own[1:] if own == "~" or own.startswith("~/") else own
    if not home:
        raise Unavailable("the home folder is not known")
    return os.path.join(home if host.target_files.is_writable(home) else "/tmp", ".keras")
