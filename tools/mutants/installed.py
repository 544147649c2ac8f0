"""Plant faults in the installed package, and put back what was there, also after a run that was killed."""

from __future__ import annotations

import collections
import pathlib
import shutil
from collections.abc import Sequence

from mutants.sites import SWITCH, Site, planted

_HERE = pathlib.Path(__file__).parent


def is_planted(package: pathlib.Path) -> bool:
    """Whether a module of the package has switches of faults."""
    return any(f"from {SWITCH} import" in path.read_text("utf-8") for path in package.rglob("*.py"))


def plant(package: pathlib.Path, chosen: Sequence[Site], original: pathlib.Path) -> None:
    """Copy the package to `original`, which is there only if it is whole, and build the switches in."""
    begun = original.with_name(f"{original.name}.begun")
    shutil.rmtree(begun, ignore_errors=True)
    shutil.copytree(package, begun)
    begun.rename(original)
    shutil.copytree(_HERE, package.parent / SWITCH, dirs_exist_ok=True)
    numbers: dict[str, dict[int, int]] = collections.defaultdict(dict)
    for number, site in enumerate(chosen):
        numbers[site.file][site.place] = number
    for file, places in numbers.items():
        path = package / file
        path.write_text(planted(path.read_text("utf-8"), places), "utf-8")


def restore(package: pathlib.Path, original: pathlib.Path) -> None:
    """Put the original back; if this is killed, another call can do it again."""
    whole, old = (package.with_name(f"{package.name}.{word}") for word in ("whole", "planted"))
    done = original.with_name(f"{original.name}.done")
    for left in (whole, old, done):
        shutil.rmtree(left, ignore_errors=True)
    shutil.copytree(original, whole)
    if package.exists():
        package.rename(old)
    whole.rename(package)
    original.rename(done)
    for left in (old, done, package.parent / SWITCH):
        shutil.rmtree(left, ignore_errors=True)


def make_clean(package: pathlib.Path, original: pathlib.Path) -> str:
    """Undo what a killed run left; return why the package cannot be used, empty if it can."""
    if original.is_dir():
        if not package.is_dir() or is_planted(package):
            restore(package, original)
        else:  # it was killed before the first switch, or the project was installed again
            shutil.rmtree(original)
    if not package.is_dir():
        return f"{package} does not exist: install the project, not editable, in this environment"
    if is_planted(package):
        return f"{package} has the faults of another run, and {original} is not there: install the project again"
    return ""
