"""The copies of libraries that cannot be loaded, or hide another copy: who put each on the path, and what comes after it."""

from __future__ import annotations

import os
from typing import Any

from tfgpu_doctor.collect.ldso.loader_conf import line_that_names, real_folder
from tfgpu_doctor.collect.ldso.owners import Owners
from tfgpu_doctor.collect.ldso.resolver import Resolver, Taken
from tfgpu_doctor.collect.ldso.search_path import CACHE, DEFAULT, VARIABLE
from tfgpu_doctor.model.facts.copies import Copy


def copies_of(resolver: Resolver, owners: Owners, working_folder: str) -> tuple[Copy, ...]:
    """Each file that was refused, or that was taken in place of another one, in the order of the search."""
    users = [each for each in resolver.taken.values() if not _is_placed_by_the_doctor(each, resolver)]
    found = [_copy(each, resolver, owners, working_folder) for each in users]
    return tuple(each for each in found if each.error or each.instead)


def _is_placed_by_the_doctor(taken: Taken, resolver: Resolver) -> bool:
    """Whether the doctor itself put the file's folder on the path: that of the simulated driver."""
    return taken.place.found_by == VARIABLE and taken.place.folder not in resolver.search.listed


def _copy(taken: Taken, resolver: Resolver, owners: Owners, working_folder: str) -> Copy:
    after = resolver.next_after(taken)
    return Copy(
        name=taken.name,
        path=os.path.normpath(os.path.join(working_folder, taken.place.path)),
        error=taken.error,
        owner=owners.of(taken.place.files.real_path(taken.place.path))[0],
        instead=os.path.normpath(after.path) if after else "",
        instead_owner=owners.of(after.files.real_path(after.path))[0] if after else "",
        **_placed_by(taken, resolver),
    )


def _placed_by(taken: Taken, resolver: Resolver) -> dict[str, Any]:
    """The fields that say what put the folder of a file on the loader's path."""
    folder, search = taken.place.folder, resolver.search
    if taken.place.found_by == VARIABLE:
        real = real_folder(search.target_files, folder)
        return {
            "placed_by": VARIABLE,
            "entry": "" if folder == "." else folder,
            "number": search.listed.index(folder) + 1,
            # Without this entry, another name of the same folder would lead to the same file.
            "others": tuple(
                each for each in dict.fromkeys(search.listed) if real_folder(search.target_files, each) != real
            ),
        }
    if taken.place.found_by == CACHE:
        file, line = line_that_names(search.machine_files, folder)
        return {"placed_by": "ld.so.conf" if file else "ld.so.cache", "entry": folder, "file": file, "line": line}
    if taken.place.found_by == DEFAULT:
        return {"placed_by": DEFAULT, "entry": folder}
    if taken.place.found_by in ("RUNPATH", "RPATH"):
        holder = resolver.holder_of(folder, taken.asker)
        return {"placed_by": taken.place.found_by, "entry": folder, "file": os.path.normpath(holder) if holder else ""}
    return {"placed_by": "LD_PRELOAD"}  # a name with a slash in it is a path, and no library is opened by one
