"""A folder for the time of one run."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """A new folder that is gone afterwards. Raises OSError where none can be made."""
    with tempfile.TemporaryDirectory(prefix="tfgpu-doctor-") as folder:
        yield folder


def make_links(folder: str, targets: Mapping[str, str]) -> None:
    """Make a folder with links of these names. Raises OSError."""
    os.makedirs(folder, exist_ok=True)
    for name, target in targets.items():
        os.symlink(target, os.path.join(folder, name))
