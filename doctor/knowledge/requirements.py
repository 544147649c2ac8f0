"""What an installed distribution asks of others, from its metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfgpu_doctor.model.facts.python import Target

if TYPE_CHECKING:
    from packaging.version import Version


@dataclass(frozen=True)
class Requirement:
    """A distribution asked for, by canonical name, the versions allowed, and the extra that asks (empty: always)."""

    name: str
    specifier: str
    extra: str

    def allows(self, version: str) -> bool:
        """Whether a version is allowed; one that cannot be understood is."""
        from packaging.specifiers import SpecifierSet
        from packaging.version import InvalidVersion, Version

        try:
            return SpecifierSet(self.specifier).contains(Version(version), prereleases=True)
        except InvalidVersion:
            return True

    @property
    def lowest(self) -> str:
        """The lowest version that is allowed, or the one that is pinned; empty where there is none."""
        from packaging.specifiers import SpecifierSet

        bounds = [each.version for each in SpecifierSet(self.specifier) if each.operator in (">=", "==", "~=", ">")]
        return min(bounds, key=_order, default="")

    def is_undercut_by(self, version: str) -> bool:
        """Whether a version is older than the lowest allowed; one that cannot be understood is not."""
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
    """What a distribution of the target asks of those whose names begin with `prefix`, markers not judged but for extras."""
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
