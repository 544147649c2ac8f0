"""The requirements of an installed distribution, from its metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfgpu_doctor.model.facts.python import Target

if TYPE_CHECKING:
    from packaging.version import Version


@dataclass(frozen=True)
class Requirement:
    """A required distribution: canonical name, allowed versions, and the extra that requires it (empty: always)."""

    name: str
    specifier: str
    extra: str

    def allows(self, version: str) -> bool:
        """Whether a version is allowed; true for a version that cannot be parsed."""
        from packaging.specifiers import SpecifierSet
        from packaging.version import InvalidVersion, Version

        try:
            return SpecifierSet(self.specifier).contains(Version(version), prereleases=True)
        except InvalidVersion:
            return True

    @property
    def lowest(self) -> str:
        """The lowest version that is allowed, or the one that is pinned; empty if there is none."""
        from packaging.specifiers import SpecifierSet

        bounds = [each.version for each in SpecifierSet(self.specifier) if each.operator in (">=", "==", "~=", ">")]
        return min(bounds, key=_order, default="")

    def is_undercut_by(self, version: str) -> bool:
        """Whether a version is older than the lowest allowed; false for a version that cannot be parsed."""
        from packaging.version import InvalidVersion, Version

        try:
            return bool(self.lowest) and Version(version) < Version(self.lowest)
        except InvalidVersion:
            return False


def _order(version: str) -> Version:
    from packaging.version import InvalidVersion, Version

    try:
        return Version(version)
    except InvalidVersion:  # "1.2.*"
        return Version("0")


def requirements_on(target: Target, distribution: str, prefix: str) -> list[Requirement]:
    """A distribution's requirements with names that begin with `prefix`; markers are not evaluated except for extras."""
    from packaging.requirements import InvalidRequirement
    from packaging.requirements import Requirement as Parsed
    from packaging.utils import canonicalize_name

    found = target.find(distribution)
    parsed: list[Requirement] = []
    for line in found.requires if found else ():
        if not line.lower().replace("_", "-").startswith(prefix):
            continue
        try:
            each = Parsed(line)
        except InvalidRequirement:
            continue
        extra = str(each.marker).partition('extra == "')[2].partition('"')[0] if each.marker else ""
        parsed.append(Requirement(canonicalize_name(each.name), str(each.specifier), extra))
    return parsed
