"""Read a profile, and the profiles that it extends."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tfgpu_doctor.accept.canonical import digest_of
from tfgpu_doctor.accept.terms import Profile, Resolved
from tfgpu_doctor.accept.validating import validate, validate_whole
from tfgpu_doctor.accept.vocabulary import FOLDER, ProfileError, Vocabulary, nearest
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.host.toml_text import decode_toml

_SHIPPED = os.path.join(FOLDER, "profiles")
_TOML = ".toml"
_MERGED = (
    "checks", "speed-ups", "peak-fractions", "metric-fractions", "reference-fractions", "metrics", "spreads",
)  # key by key along `extends`  # fmt: skip
_MOST_BYTES = 64 << 10
_EARLIER = {"figure-fractions": "metric-fractions"}
_OWN = ("about", "extends")  # not inherited


@dataclass(frozen=True)
class _Layer:
    """The content of one file."""

    name: str
    place: str  # its path
    raw: Mapping[str, Any]


def shipped_profiles() -> list[str]:
    """Return the names of the shipped profiles."""
    return sorted(name.removesuffix(_TOML) for name in Files().list_folder(_SHIPPED) if name.endswith(_TOML))


def read_profile(name: str, vocabulary: Vocabulary) -> Resolved:
    """Return the shipped profile of that name, or the profile in that file. Raises ProfileError."""
    layers: list[_Layer] = []
    wanted, folder = name, "."
    while wanted or not layers:
        try:
            layer = _read(_find(wanted, folder), wanted)
        except ProfileError as error:
            raise ProfileError(f"{layers[-1].name}: extends: {error}" if layers else str(error)) from error
        layers.append(layer)
        if any(layer.place == each.place for each in layers[:-1]):
            raise ProfileError(f"a profile extends itself: {' -> '.join(each.name for each in layers)}")
        try:
            validate(layer.raw, vocabulary)
        except ProfileError as error:
            raise ProfileError(f"{layer.name}: {error}") from error
        wanted, folder = layer.raw.get("extends", ""), os.path.dirname(layer.place)
    return _resolve(layers)


def _find(name: str, folder: str) -> str:
    """Return the path of a profile; a name without an extension is a shipped profile, or else an existing file."""
    if not name:
        raise ProfileError(
            f"the name of the profile is empty (an unset variable?); {nearest(name, tuple(shipped_profiles()))}"
        )
    if not name.endswith(_TOML) and os.sep not in name:
        if name in shipped_profiles():
            return os.path.join(_SHIPPED, name + _TOML)
        if not Files().exists(os.path.join(folder, name)):
            known = tuple(shipped_profiles())
            raise ProfileError(f"there is no profile {name!r}; {nearest(name, known)} (or name a file: {name}{_TOML})")
    return os.path.realpath(os.path.join(folder, name))


def file_of(name: str) -> str | None:
    """Return the path of a user's profile; None for a shipped one. Raises ProfileError."""
    place = _find(name, ".")
    return None if os.path.dirname(place) == _SHIPPED else place


def _read(place: str, name: str) -> _Layer:
    title = os.path.basename(place) if place != os.path.join(_SHIPPED, name + _TOML) else name
    try:
        content = Files().read_bytes(place, _MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ProfileError(f"{name} is larger than {_MOST_BYTES >> 10} KiB: it is not a profile")
        return _Layer(title, place, _renamed(decode_toml(content.decode())))
    except OSError as error:
        raise ProfileError(f"{name} cannot be read: {error.strerror or error}") from error
    except ProfileError:
        raise
    except ValueError as error:
        raise ProfileError(f"{name} is not TOML: {error}") from error


def _renamed(raw: dict[str, Any]) -> dict[str, Any]:
    """Replace the names of keys from earlier releases by the current names."""
    return {_EARLIER.get(key, key): value for key, value in raw.items()}


def _resolve(layers: list[_Layer]) -> Resolved:
    """Merge all layers: earlier layers override later ones."""
    merged: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for layer in reversed(layers):
        for key, value in layer.raw.items():
            if key in _OWN:
                continue
            if key == "allowed":
                merged[key] = [*merged.get(key, []), *value]
            elif key in _MERGED:
                merged[key] = {**merged.get(key, {}), **value}
                sources.update({f"{key}.{name}": layer.name for name in value})
            else:
                merged[key] = value
            sources[key] = layer.name
    profile = msgspec.convert({**merged, "about": layers[0].raw.get("about", "")}, Profile, strict=True)
    try:
        validate_whole(profile)
    except ProfileError as error:
        raise ProfileError(f"{layers[0].name}: {error}") from error
    return Resolved(
        name=layers[0].name,
        chain=tuple(layer.name for layer in layers),
        digest=digest_of(msgspec.to_builtins(profile)),
        profile=profile,
        sources=sources,
    )
