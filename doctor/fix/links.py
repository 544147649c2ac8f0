"""Links that make libraries found: each in a folder where TensorFlow looks, to the copy that pip put elsewhere."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from tfgpu_doctor.model.facts.python import Target
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

NOT_FOUND = "pip_cuda_libs_not_found"  # the label of the cause that such links mend


@dataclass(frozen=True)
class LinkStep:
    """A symbolic link, named as the library, with a target relative to the link's own folder."""

    path: str
    target: str

    @property
    def text(self) -> str:
        """The step in a few words, to be shown."""
        return f"link {self.path} to {self.target}"


def plan_links(target: Target, resolution: Resolution) -> tuple[LinkStep, ...]:
    """A link for each library that is missing though pip brought it; none unless that makes all of these found."""
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


def _folders_searched(target: Target, resolution: Resolution) -> list[str]:
    """The folders where TensorFlow looks that are there and lie in the environment, in the loader's order."""
    there = {os.path.dirname(path) for path in target.nvidia_libraries}
    there.add(os.path.dirname(resolution.opener))
    listed = dict.fromkeys(os.path.normpath(folder) for folder in resolution.search_folders)
    return [folder for folder in listed if folder in there and _is_inside(folder, target)]


def _folder_for(
    library: ResolvedLibrary, copy: str, folders: Sequence[str], links: dict[str, LinkStep], target: Target
) -> str:
    """Where the link must lie for the loader to find it; empty where no folder is fit for that.

    A library that TensorFlow opens itself is found in the folders of its RUNPATH. One that another library needs is
    looked for from where that one lies: NVIDIA's have `$ORIGIN` in their RUNPATH.
    """
    if len(library.missing_chain) > 1:
        return _folder_of(library.missing_chain[-2], folders, links, target)
    # A library finds those that it needs itself as it did before only from a folder that lies equally deep.
    equally_deep = [folder for folder in folders if _is_beside(folder, os.path.dirname(copy))]
    return next(iter(equally_deep), "")


def _folder_of(soname: str, folders: Sequence[str], links: dict[str, LinkStep], target: Target) -> str:
    """The folder in which the loader finds a library, or will find it by a link."""
    planned = (os.path.dirname(path) for path in links if os.path.basename(path) == soname)
    there = (folder for folder in folders if os.path.join(folder, soname) in target.nvidia_libraries)
    return next(planned, None) or next(there, "")


def _is_beside(folder: str, other: str) -> bool:
    """Whether both are folders like nvidia/*/lib of one site-packages."""
    above = os.path.dirname(os.path.dirname(folder))
    alike = os.path.basename(folder) == os.path.basename(other)
    return folder != other and alike and above == os.path.dirname(os.path.dirname(other))


def _is_inside(path: str, target: Target) -> bool:
    return os.path.normpath(path).startswith(os.path.join(os.path.normpath(target.prefix), ""))
