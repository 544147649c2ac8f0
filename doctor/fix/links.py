"""Links that let TensorFlow find libraries: each is in a folder it searches and points to pip's copy elsewhere."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from tfgpu_doctor.model.facts.python import Target
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

NOT_FOUND = "pip_cuda_libs_not_found"  # the labels of the causes that such links fix
NO_COMPILER = "cudnn_nvrtc_not_found"


@dataclass(frozen=True)
class LinkStep:
    """A symbolic link with the library's name and a target relative to the link's folder."""

    path: str
    target: str

    @property
    def text(self) -> str:
        """A short description of the step, for display."""
        return f"link {self.path} to {self.target}"


def plan_links(target: Target, resolution: Resolution) -> tuple[LinkStep, ...]:
    """Return a link for each missing library that pip installed; no links unless they make all of these found."""
    folders = _folders_searched(target, resolution)
    links: dict[str, LinkStep] = {}
    for library in resolution.missing:
        copy = next((path for path in library.elsewhere if _is_inside(path, target)), "")
        if not copy:
            continue
        folder = _folder_for(library, copy, folders, links, target)
        if not folder:
            return ()
        path = os.path.join(folder, os.path.basename(copy))
        links.setdefault(path, LinkStep(path, os.path.relpath(copy, folder)))
    return tuple(links.values())


def plan_compiler_links(target: Target, resolution: Resolution) -> tuple[LinkStep, ...]:
    """Return links beside cuDNN to the compiler that it does not find, and to what the compiler opens from its own folder.

    libnvrtc opens libnvrtc-builtins from the folder of the link, not from that of the file behind it.
    """
    links = {}
    for library in resolution.lost_later:
        asker = resolution.find(library.asked_by)
        copy = next((path for path in library.elsewhere if _is_inside(path, target)), "")
        folder = os.path.dirname(asker.path) if asker else ""
        if not copy or not _is_inside(folder, target):
            continue
        stem = library.soname.partition(".so")[0]
        for path in target.nvidia_libraries:
            if os.path.dirname(path) == os.path.dirname(copy) and os.path.basename(path).startswith(stem):
                link = os.path.join(folder, os.path.basename(path))
                links[link] = LinkStep(link, os.path.relpath(path, folder))
    return tuple(links.values())


def _folders_searched(target: Target, resolution: Resolution) -> list[str]:
    """Return the existing folders in the environment that TensorFlow searches, in the loader's order."""
    there = {os.path.dirname(path) for path in target.nvidia_libraries}
    there.add(os.path.dirname(resolution.opener))
    listed = dict.fromkeys(os.path.normpath(folder) for folder in resolution.search_folders)
    return [folder for folder in listed if folder in there and _is_inside(folder, target)]


def _folder_for(
    library: ResolvedLibrary, copy: str, folders: Sequence[str], links: dict[str, LinkStep], target: Target
) -> str:
    """Return the folder in which the loader finds the link; empty if no folder is suitable.

    A library that TensorFlow opens itself is found in the folders of its RUNPATH. A library that another library needs
    is searched for relative to that library's folder: NVIDIA's libraries have `$ORIGIN` in their RUNPATH.
    """
    if len(library.missing_chain) > 1:
        return _folder_of(library.missing_chain[-2], folders, links, target)
    # A linked library still finds its own dependencies only from a folder at the same depth.
    equally_deep = [folder for folder in folders if _is_beside(folder, os.path.dirname(copy))]
    return next(iter(equally_deep), "")


def _folder_of(soname: str, folders: Sequence[str], links: dict[str, LinkStep], target: Target) -> str:
    """Return the folder in which the loader finds a library, or will find it through a link."""
    planned = (os.path.dirname(path) for path in links if os.path.basename(path) == soname)
    there = (folder for folder in folders if os.path.join(folder, soname) in target.nvidia_libraries)
    return next(planned, None) or next(there, "")


def _is_beside(folder: str, other: str) -> bool:
    """Whether both are folders such as nvidia/*/lib in the same site-packages."""
    above = os.path.dirname(os.path.dirname(folder))
    alike = os.path.basename(folder) == os.path.basename(other)
    return folder != other and alike and above == os.path.dirname(os.path.dirname(other))


def _is_inside(path: str, target: Target) -> bool:
    return os.path.normpath(path).startswith(os.path.join(os.path.normpath(target.prefix), ""))
