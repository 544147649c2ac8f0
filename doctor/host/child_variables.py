"""The variables by which the doctor's own children write nothing outside of the folder of the run."""

from __future__ import annotations

import os
import shutil
import threading
import zlib
from collections.abc import Mapping

from tfgpu_doctor.host.files import Files, write_whole
from tfgpu_doctor.host.scratch import children_folder

_SETTINGS = "keras.json"
_LINKED = ("datasets", "models")  # downloads that a suite of the user's may need
_NOWHERE = os.path.join(os.devnull, "keras")  # no folder can be made there, and Keras goes on without
_LOCK = threading.Lock()


def child_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables for a child of a user with that environment: temporary files, settings of Keras, no bytecode."""
    variables = {"PYTHONDONTWRITEBYTECODE": "1"}
    users = keras_home_of(environment) or os.path.join(os.path.expanduser("~"), ".keras")
    try:
        folder = children_folder()
        variables.update(dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder))
        with _LOCK:
            variables["KERAS_HOME"] = _keras_home(users, os.path.dirname(folder))
    except OSError:  # the disk is full or read-only, or the user's settings cannot be copied
        if not os.path.lexists(os.path.join(users, _SETTINGS)):  # Keras writes nothing where there are settings
            variables["KERAS_HOME"] = _NOWHERE
    return variables


def keras_home_of(environment: Mapping[str, str]) -> str:
    """The folder of the user's Keras, as Keras 3 finds it (keras/src/backend/config.py); empty if there is no home.

    That is KERAS_HOME, or .keras in the home folder; if that is not writable, Keras uses /tmp/.keras.
    """
    home = environment.get("HOME") or environment.get("USERPROFILE") or ""
    own = environment.get("KERAS_HOME") or ""
    if own:
        return home + own[1:] if own == "~" or own.startswith("~/") else own
    if not home:
        return ""
    return os.path.join(home if Files().is_writable(home) else "/tmp", ".keras")


def _keras_home(users: str, folder: str) -> str:
    """A folder with a copy of the user's settings: Keras writes its defaults where it finds none. Raises OSError."""
    users = os.path.abspath(users)
    place = os.path.join(folder, f"keras-{zlib.crc32(os.fsencode(users)):08x}")
    if os.path.isdir(place):
        return place
    try:
        settings = Files().read_bytes(os.path.join(users, _SETTINGS))
    except (FileNotFoundError, NotADirectoryError):
        settings = None
    os.mkdir(place)
    try:
        if settings is not None:
            write_whole(os.path.join(place, _SETTINGS), settings)
        for name in _LINKED:
            if os.path.isdir(os.path.join(users, name)):
                os.symlink(os.path.join(users, name), os.path.join(place, name))
    except OSError:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return place
