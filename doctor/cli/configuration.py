"""The project's settings: tfgpu-doctor.toml, or [tool.tfgpu-doctor] in pyproject.toml; command-line options override them."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tfgpu_doctor.cli.output import note
from tfgpu_doctor.host.files import Files, owners_of
from tfgpu_doctor.host.toml_text import decode_toml
from tfgpu_doctor.model import SEVERITIES, Severity

if TYPE_CHECKING:
    from tfgpu_doctor.diagnose.selection import Selection

DEADLINE_S = 120.0
_MOST_BYTES = 256 << 10


class ConfigurationError(ValueError):
    """A settings file is invalid; the message names the file and the error."""


class Configuration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Settings. --select on the command line replaces the file's setting; --ignore adds to it."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_level: Severity = "error"
    python: str | None = None  # in a settings file, a path starts at the file's folder
    deadline: float = DEADLINE_S  # seconds

    def __post_init__(self) -> None:
        """Refuse a time limit that none would keep, or that would never come."""
        if not 1 <= self.deadline < math.inf:
            raise ValueError(f"deadline is {self.deadline}, and must be 1 s or more")

    @property
    def selects(self) -> bool:
        """Whether the settings name any check."""
        return bool(self.select or self.ignore)

    @property
    def selection(self) -> Selection:
        """The checks to show and to ignore."""
        from tfgpu_doctor.diagnose.selection import Selection

        return Selection(select=self.select, ignore=self.ignore)

    def with_options(
        self,
        *,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        fail_level: str | None = None,
        python: str | None = None,
        deadline: float | None = None,
    ) -> Configuration:
        """Return the settings with the command line's options applied; commas may separate the words of a list.

        Raises ConfigurationError if the Python is an empty word, which would be read as the working folder.
        """
        if python == "":
            raise ConfigurationError(
                "the Python of --python is empty: is a variable not set? Leave the option out, or name one"
            )
        options: dict[str, Any] = {"fail_level": fail_level, "python": python, "deadline": deadline}
        options = {name: value for name, value in options.items() if value is not None}
        options["select"] = _words(select) or self.select
        options["ignore"] = (*self.ignore, *_words(ignore))
        return msgspec.structs.replace(self, **options)


def _words(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for value in values for word in value.replace(",", " ").split())


def read_configuration(folder: str | None = None) -> Configuration:
    """Return the settings of the nearest folder that has any, from this one upwards. Raises ConfigurationError."""
    return find_configuration(folder)[0]


def find_configuration(folder: str | None = None) -> tuple[Configuration, str]:
    """Return the same, and the path of the file that they are from; empty if there is none. Raises ConfigurationError."""
    files = Files()
    try:
        begin = here = os.path.abspath(folder or os.getcwd())
    except OSError:
        return Configuration(), ""  # the working folder was deleted
    while True:
        for name, table in (("tfgpu-doctor.toml", ()), ("pyproject.toml", ("tool", "tfgpu-doctor"))):
            path = os.path.join(here, name)
            found = _read(files, path, table)
            if found is None:
                continue
            if here == begin or not _is_anothers(path):
                return found, path
            note(f"{path} belongs to another user: its settings are not followed")
        above = os.path.dirname(here)
        if above == here:
            return Configuration(), ""
        here = above


def _text(files: Files, path: str, *, own: bool) -> str:
    """Return the text of a file; empty if there is none. Of other tools' files, what cannot be read costs a note."""
    try:
        content = files.read_bytes(path, _MOST_BYTES + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        if own and not isinstance(error, (PermissionError, NotADirectoryError)):
            raise ConfigurationError(f"{path} cannot be read: {error.strerror or error}") from error
        if os.path.lexists(path):  # there is no telling what is in a folder that may not be searched
            note(f"{path} cannot be read ({error.strerror or error}): settings in it are not followed")
        return ""
    if len(content) > _MOST_BYTES:
        if own:
            raise ConfigurationError(f"{path} is larger than {_MOST_BYTES >> 10} KiB: it holds no settings")
        note(f"{path} is larger than {_MOST_BYTES >> 10} KiB: settings in it are not followed")
        return ""
    return content.decode("utf-8", "replace")


def _is_anothers(path: str) -> bool:
    """Whether the file, or a link to it, belongs neither to this user nor to root: it may name a Python to run."""
    try:
        return hasattr(os, "getuid") and not owners_of(path) <= {0, os.getuid()}
    except OSError:
        return False


def _read(files: Files, path: str, table: Sequence[str]) -> Configuration | None:
    """Return the settings in one file; None if it has none."""
    text = _text(files, path, own=not table)
    if not text or (table and table[-1] not in text):
        return None
    try:
        settings: Any = decode_toml(text)
        for name in table:
            settings = settings.get(name)
            if settings is None:
                return None
        _refuse_unknown_values(settings)
        found = msgspec.convert(settings, Configuration)
    except (msgspec.ValidationError, ValueError, AttributeError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    if found.python is None:
        return found
    return msgspec.structs.replace(found, python=_python_from(os.path.dirname(path), found.python))


def _refuse_unknown_values(settings: Any) -> None:
    """Raise ValueError for a word that msgspec would refuse without a word on those that are valid."""
    if not isinstance(settings, dict):
        return
    level = settings.get("fail-level", "error")
    if level not in SEVERITIES:
        raise ValueError(f"fail-level is {level!r}, and must be one of {', '.join(SEVERITIES)}")
    if settings.get("python") == "":
        raise ValueError("python is empty: leave it out, or name an interpreter or a virtual environment's folder")


def _python_from(folder: str, python: str) -> str:
    """Return the Python that a settings file in this folder names: a name on $PATH, else a path that starts at the folder.

    No shell replaces ~ in a settings file.
    """
    python = os.path.expanduser(python)
    beside = os.path.join(folder, python)
    is_name = os.path.basename(python) == python and not os.path.lexists(beside)
    return python if is_name and shutil.which(python) else beside
