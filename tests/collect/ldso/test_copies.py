"""Who put a library's place on the loader's path, and what comes after it; what the real loader does is compared."""

from __future__ import annotations

import pathlib
import platform
from typing import TYPE_CHECKING

import pytest
from healthy import target
from made_up_root import write

from tfgpu_doctor.collect.ldso.copies import copies_of
from tfgpu_doctor.collect.ldso.loader_conf import line_that_names
from tfgpu_doctor.collect.ldso.owners import Owners
from tfgpu_doctor.collect.ldso.resolver import Resolver
from tfgpu_doctor.collect.ldso.search_path import SearchPath
from tfgpu_doctor.host import Files, Host
from tfgpu_doctor.model.facts.copies import Copy

if TYPE_CHECKING:
    from collect.ldso.conftest import Workshop


def copies(workshop: Workshop, opener: pathlib.Path, *names: str) -> list[Copy]:
    """What is told of the copies after these names were opened."""
    resolver = workshop.resolver()
    asker = resolver.load_file(str(opener))
    for name in names:
        resolver.open(name, asker)
    return [*copies_of(resolver, Owners(Host(), target()), str(workshop.folder))]


def test_a_damaged_file_of_the_variable(workshop: Workshop) -> None:
    own = workshop.build("own/liba.so.1")
    first = workshop.folder / "first/liba.so.1"
    first.parent.mkdir()
    first.write_bytes(b"")
    workshop.variables["LD_LIBRARY_PATH"] = f"/nowhere:{first.parent}/:{first.parent}"
    opener = workshop.opener(runpath="$ORIGIN/own")
    assert workshop.real(opener, "liba.so.1")["liba.so.1"][0] is False
    (told,) = copies(workshop, opener, "liba.so.1")
    assert (told.path, told.error, told.instead) == (str(first), "it is empty", str(own))
    assert (told.placed_by, told.entry, told.number) == ("LD_LIBRARY_PATH", f"{first.parent}/", 2)
    assert told.others == ("/nowhere",)


def test_every_name_of_a_folder_is_the_same_entry(workshop: Workshop) -> None:
    """/usr/local/cuda is a link to /usr/local/cuda-12.2, and LD_LIBRARY_PATH often names both."""
    own, first = workshop.build("own/liba.so.1"), workshop.build("cuda-12.2/lib64/liba.so.1")
    (workshop.folder / "cuda").symlink_to("cuda-12.2")
    (workshop.folder / "loop").symlink_to("loop")
    link, loop = workshop.folder / "cuda/lib64", workshop.folder / "loop"
    workshop.variables["LD_LIBRARY_PATH"] = f"/nowhere:{loop}:/nowhere:{link}:{first.parent}"
    opener = workshop.opener(runpath="$ORIGIN/own")
    (told,) = copies(workshop, opener, "liba.so.1")
    assert (told.path, told.entry, told.number) == (f"{link}/liba.so.1", str(link), 4)
    assert told.others == ("/nowhere", str(loop))
    assert workshop.real(opener, "liba.so.1") == {"liba.so.1": (True, {str(first)})}
    workshop.variables["LD_LIBRARY_PATH"] = ":".join(told.others)
    assert workshop.real(opener, "liba.so.1") == {"liba.so.1": (True, {str(own)})}


def test_a_folder_that_the_doctor_put_first_is_not_an_entry_of_the_users(workshop: Workshop) -> None:
    """A rehearsal puts the folder of its simulated driver first, and deletes it afterwards."""
    own, first = workshop.build("own/liba.so.1"), workshop.build("first/liba.so.1")
    for folder in ("doctors", "first"):
        workshop.build(f"{folder}/libcuda.so.1")
    users = {"LD_LIBRARY_PATH": f"{first.parent}:/nowhere"}
    doctors = {"LD_LIBRARY_PATH": f"{workshop.folder}/doctors:{users['LD_LIBRARY_PATH']}"}
    resolver = Resolver(SearchPath(Host(environment=users, additions=doctors), platform.machine()))
    asker = resolver.load_file(str(workshop.opener(runpath="$ORIGIN/own")))
    for name in ("liba.so.1", "libcuda.so.1"):
        resolver.open(name, asker)
    (told,) = copies_of(resolver, Owners(Host(), target()), str(workshop.folder))
    assert (told.path, told.instead) == (str(first), str(own))
    assert (told.entry, told.number, told.others) == (str(first.parent), 1, ("/nowhere",))


def test_a_folder_in_the_place_of_a_library(workshop: Workshop) -> None:
    workshop.build("own/liba.so.1")
    (workshop.folder / "first/liba.so.1").mkdir(parents=True)
    workshop.variables["LD_LIBRARY_PATH"] = str(workshop.folder / "first")
    opener = workshop.opener(runpath="$ORIGIN/own")
    assert workshop.real(opener, "liba.so.1")["liba.so.1"] == (False, set())
    assert [each.error for each in copies(workshop, opener, "liba.so.1")] == ["it is a folder"]


def test_an_empty_entry_is_the_working_folder(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop.build("own/liba.so.1")
    (workshop.folder / "liba.so.1").write_bytes(b"")
    monkeypatch.chdir(workshop.folder)
    workshop.variables["LD_LIBRARY_PATH"] = ":/nowhere"
    (told,) = copies(workshop, workshop.opener(runpath="$ORIGIN/own"), "liba.so.1")
    assert (told.path, told.entry, told.number) == (str(workshop.folder / "liba.so.1"), "", 1)


@pytest.mark.parametrize("kind", ["rpath", "runpath"])
def test_the_path_of_the_object_that_asks(workshop: Workshop, kind: str) -> None:
    """As conda's lib folder comes before pip's, in the RUNPATH of what asks."""
    first, own = workshop.build("conda/libb.so.1"), workshop.build("own/libb.so.1")
    asks = workshop.build("liba.so.1", needs=["own/libb.so.1"], **{kind: "$ORIGIN/conda:$ORIGIN/own"})
    opener = workshop.opener(runpath="$ORIGIN")
    first.write_bytes(b"")
    (told,) = copies(workshop, opener, "liba.so.1")
    assert (told.name, told.path, told.instead) == ("libb.so.1", str(first), str(own))
    assert (told.placed_by, told.file) == (kind.upper(), str(asks))


def test_a_dependency_is_looked_for_once_more_as_it_was_asked_for_first(workshop: Workshop) -> None:
    """Only the first that asks has the right copy on its own path."""
    own = workshop.build("own/libb.so.1")
    workshop.build("liba.so.1", needs=["own/libb.so.1"], runpath="$ORIGIN/own")
    (workshop.folder / "first").mkdir()
    (workshop.folder / "first/libb.so.1").write_bytes(b"")
    workshop.variables["LD_LIBRARY_PATH"] = str(workshop.folder / "first")
    (told,) = copies(workshop, workshop.opener(runpath="$ORIGIN"), "liba.so.1", "libb.so.1")
    assert told.instead == str(own)


def test_an_intact_copy_that_hides_another_is_told_and_one_that_hides_none_is_not(workshop: Workshop) -> None:
    first = workshop.build("first/liba.so.1")
    for path in ("own/liba.so.1", "own/libb.so.1"):
        workshop.build(path)
    workshop.variables["LD_LIBRARY_PATH"] = str(first.parent)
    (told,) = copies(workshop, workshop.opener(runpath="$ORIGIN/own"), "liba.so.1", "libb.so.1")
    assert (told.path, told.error) == (str(first), "")


def test_the_line_of_the_loaders_configuration(tmp_path: pathlib.Path) -> None:
    write(tmp_path, "etc/ld.so.conf", "# all\ninclude ld.so.conf.d/*.conf\n/opt/last\n")
    write(tmp_path, "etc/ld.so.conf.d/a.conf", "include /etc/ld.so.conf\n/opt/a=libc6\n")  # includes itself
    write(tmp_path, "etc/ld.so.conf.d/b.conf", "\n/opt/b # of old\nhwcap 1 x\n")
    write(tmp_path, "etc/ld.so.conf.d/c.txt", "/opt/c\n")
    (tmp_path / "opt/real").mkdir(parents=True)
    (tmp_path / "opt/b").symlink_to("real")
    files = Files(str(tmp_path))
    assert line_that_names(files, "/opt/a") == ("/etc/ld.so.conf.d/a.conf", 2)
    assert line_that_names(files, "/opt/real") == ("/etc/ld.so.conf.d/b.conf", 2)
    assert line_that_names(files, "/opt/last/") == ("/etc/ld.so.conf", 3)
    assert line_that_names(files, "/opt/c") == ("", 0)
