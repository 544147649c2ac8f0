"""The project's settings: tfgpu-doctor.toml, or [tool.tfgpu-doctor] in pyproject.toml; command-line options override them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tfgpu_doctor.host.files import Files

if TYPE_CHECKING:
    from tfgpu_doctor.diagnose.selection import Selection

DEADLINE_S = 120.0


class ConfigurationError(ValueError):
    """A settings file is invalid; the message names the file and the error."""


class Configuration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Settings. --select on the command line replaces the file's setting; --ignore adds to it."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_level: Literal["info", "warning", "error"] = "error"
    python: str | None = None
    deadline: float = DEADLINE_S  # seconds

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
        """Return the settings with the command line's options applied; commas may separate the words of a list."""
        options: dict[str, Any] = {"fail_level": fail_level, "python": python, "deadline": deadline}
        options = {name: value for name, value in options.items() if value is not None}
        options["select"] = _words(select) or self.select
        options["ignore"] = (*self.ignore, *_words(ignore))
        return msgspec.structs.replace(self, **options)


def _words(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for value in values for word in value.replace(",", " ").split())


def read_configuration(folder: str | None = None) -> Configuration:
    """Return the settings of the nearest folder that has any, from this one upwards. Raises ConfigurationError."""
    files = Files()
    try:
        here = os.path.abspath(folder or os.getcwd())
    except OSError:
        return Configuration()  # the working folder was deleted
    while True:
        for name, table in (("tfgpu-doctor.toml", ()), ("pyproject.toml", ("tool", "tfgpu-doctor"))):
            found = _read(files, os.path.join(here, name), table)
            if found is not None:
                return found
        above = os.path.dirname(here)
        if above == here:
            return Configuration()
        here = above


def _read(files: Files, path: str, table: Sequence[str]) -> Configuration | None:
    """Return the settings in one file; None if it has none."""
    text = files.text_if_any(path)
    if not text or (table and table[-1] not in text):
        return None
    try:
        settings: Any = _parse(text)
        for name in table:
            settings = settings.get(name)
            if settings is None:
                return None
        return msgspec.convert(settings, Configuration)
    except (msgspec.ValidationError, ValueError, AttributeError) as error:
        raise ConfigurationError(f"{path}: {error}") from error


def _parse(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)
