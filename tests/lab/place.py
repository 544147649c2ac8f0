"""Where one machine of the lab is built: a folder with its root, its driver, and a copy of the target if need be."""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
from collections.abc import Callable

from lab import targets


class Place:
    """The folder of one machine. `root` is its file system, `targets` the folder of targets and spare parts."""

    def __init__(
        self, folder: pathlib.Path, targets_folder: pathlib.Path, release: str, *, whole: bool = False
    ) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.targets = targets_folder
        self.release = release
        self._whole = whole
        self._copied = False

    @functools.cached_property
    def copy(self) -> pathlib.Path:
        """A copy of the target, made when it is first asked for; what is done to a target is done to its copy.

        It is made of hard links and takes no room; so a file in it is replaced or deleted, never written into. The
        folder of TensorFlow's headers, two thirds of all files, is a link to the target's, if it need not be `whole`.
        """
        self._copied = True
        headers = targets.site_packages(self._original) / "tensorflow/include"
        left_out = {str(headers.parent): [] if self._whole else [headers.name]}
        shutil.copytree(
            self._original, self.folder / "venv", symlinks=True, copy_function=os.link,
            ignore=lambda folder, names: left_out.get(folder, []),
        )  # fmt: skip
        if not self._whole:
            (self.folder / "venv" / headers.relative_to(self._original)).symlink_to(headers)
        return self.folder / "venv"

    @property
    def site(self) -> pathlib.Path:
        """The site-packages folder of the copy."""
        return targets.site_packages(self.copy)

    @property
    def environment(self) -> pathlib.Path:
        """The virtual environment to look at: the copy where one was made, else the target itself."""
        return self.copy if self._copied else self._original

    @property
    def _original(self) -> pathlib.Path:
        return self.of_release(self.release)

    def of_release(self, release: str) -> pathlib.Path:
        """The target of a release, which nobody may change."""
        return targets.find_targets(self.targets)[release]

    def filled_in(self, text: str) -> str:
        """A text with this place's folders for {site}, {root}, {driver} and {parts}, and {site of 2.16.1} of other targets."""
        folders = {
            "{site}": targets.site_packages(self.environment),
            "{root}": self.root,
            "{driver}": self.folder / "driver",
            "{parts}": targets.part(self.targets, ""),
            **{f"{{site of {each}}}": targets.site_packages(self.of_release(each)) for each in targets.RELEASES},
        }
        for name, folder in folders.items():
            text = text.replace(name, str(folder))
        return text


Change = Callable[[Place], None]
