"""Which changes are a fix's: what installers alone write to, and what the lists of a changed distribution name."""

from __future__ import annotations

import pathlib

from every import every

from tfgpu_doctor.fix.installed import of_fix
from tfgpu_doctor.fix.record import Change
from tfgpu_doctor.host.entries import Entry

SITE = "lib/python3.12/site-packages"
DEBIAN = "local/lib/python3.12/dist-packages"
FILE, FOLDER = Entry("file", 0o644), Entry("folder", 0o755)
INFO = "x-1.0.dist-info"


@every("path, text, named", [
    (f"{SITE}/{INFO}/RECORD", "../../../etc/x.toml,sha256=0,1\n", "etc/x.toml"),
    (f"{SITE}/{INFO}/RECORD", '"../../../share/a, b.txt",,\n', "share/a, b.txt"),
    (f"{SITE}/{INFO}/RECORD", "x-1.0.data/data/share/x/table.txt,,\n", "share/x/table.txt"),  # before pip rewrites it
    (f"{SITE}/{INFO}/RECORD", "x-1.0.data/scripts/run-x,,\n", "bin/run-x"),
    (f"{SITE}/{INFO}/entry_points.txt", "[console_scripts]\nsay-x = x:main\n", "bin/say-x"),
    (f"{SITE}/x-1.0.egg-info/installed-files.txt", "../x.py\n../../../../bin/old-x\n", "bin/old-x"),
    (f"{DEBIAN}/{INFO}/RECORD", "../../../bin/say-x,,\n", "local/bin/say-x"),
    (f"{DEBIAN}/{INFO}/RECORD", "x-1.0.data/scripts/run-x,,\n", "local/bin/run-x"),
], key=lambda path, text, named: text)  # fmt: skip
def test_what_a_list_names_is_of_the_fix(path: str, text: str, named: str, tmp_path: pathlib.Path) -> None:
    """As it is now, or as it was: then a copy is kept."""
    place, kept = tmp_path / "now" / path, tmp_path / "kept"
    for folder in (place.parent, kept):
        folder.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    (kept / "0").write_text(text)
    above = [Change(str(folder), after=FOLDER) for folder in pathlib.PurePath(named).parents if str(folder) != "."]
    others = [Change("bin/other", after=FILE), Change("share/mine", after=FOLDER), Change("train.py", FILE, FILE)]
    changes = [Change(named, after=FILE), *above, *others]
    added, removed = Change(path, after=FILE), Change(path, before=FILE, kept="0")
    assert of_fix([added, *changes], str(tmp_path / "now"), str(kept)) == [added, *changes[: -len(others)]]
    place.unlink()
    assert of_fix([removed, *changes], str(tmp_path / "now"), str(kept)) == [removed, *changes[: -len(others)]]
    assert of_fix(changes, str(tmp_path / "now"), str(kept)) == []


@every("change, is_of_fix", [
    (Change(f"{SITE}/x.py", after=FILE), True),
    (Change("lib64/python3.9/site-packages/x.py", FILE, FILE), True),
    (Change("lib/pypy3.10/site-packages/x.py", after=FILE), True),
    (Change("include/site/python3.12/x/x.h", after=FILE), True),
    (Change("bin/old-x", before=FILE), True),  # of a distribution that lists nothing
    (Change("bin/deep/old", before=FILE), False),
    (Change("half.h5", before=FILE), False),
    (Change("lib/libmine.so", after=FILE), False),
    (Change("project/site-packages/x.py", after=FILE), False),
    (Change("lib/python3.12/os.py", FILE, FILE), False),
], key=lambda change, is_of_fix: change.path)  # fmt: skip
def test_folders_of_installers(change: Change, is_of_fix: bool) -> None:
    assert of_fix([change], "/nowhere", "/nowhere") == [change] * is_of_fix


def test_a_folder_that_pip_moved_aside_is_of_the_fix() -> None:
    moved, inside, gone = (
        Change("share/~able", after=FOLDER),
        Change("share/~able/1.txt", after=FILE),
        Change("share/table", before=FOLDER),
    )
    assert of_fix([gone, moved, inside], "/nowhere", "/nowhere") == [moved, inside]
    assert of_fix([moved, inside], "/nowhere", "/nowhere") == []


def test_a_link_of_the_fix_is_of_the_fix() -> None:
    link = Change("lib/libcudnn.so.9", after=Entry("link", 0, target="../x"))
    assert of_fix([link], "/nowhere", "/nowhere", [link.path]) == [link]


def test_what_is_outside_the_prefix_is_of_the_fix() -> None:
    """Nothing is examined there but the folders that pip writes to."""
    change = Change("../scratch/site-packages/x.py", FILE, FILE)
    assert of_fix([change], "/nowhere", "/nowhere") == [change]


def test_folders_behind_links_are_judged_by_the_paths_with_the_links(tmp_path: pathlib.Path) -> None:
    aliases = {"packages": SITE, "../programs": "bin"}
    record = tmp_path / "packages" / INFO / "RECORD"
    record.parent.mkdir(parents=True)
    record.write_text("../../../bin/say-x,,\n")
    of_it = [
        Change(f"packages/{INFO}/RECORD", after=FILE),
        Change("../programs/say-x", after=FILE),
        Change("../programs/old", FILE),
    ]
    others = [Change("../programs/mine", after=FILE), Change("packages-2/x.py", after=FILE)]
    assert of_fix([*of_it, *others], str(tmp_path), "/nowhere", aliases=aliases) == of_it
