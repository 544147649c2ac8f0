"""The fact of which copy of a library or module is taken, what put its place on the path, and what comes after it."""

from __future__ import annotations

from typing import Literal

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import Count, FilePath, Text

PlacedBy = Literal[
    "LD_LIBRARY_PATH", "LD_PRELOAD", "RUNPATH", "RPATH", "ld.so.conf", "ld.so.cache", "default folder",
    "PYTHONPATH", ".pth file", "working folder", "user site", "start of Python", "",
]  # fmt: skip


class Copy(Fact, frozen=True):
    """The file that is taken for a name, who put its place on the path, whose it is, and what is taken without it.

    For LD_LIBRARY_PATH and PYTHONPATH, `entry` is what the variable says, empty if it says nothing and thereby means the
    working folder, `number` is its place there, and `others` are the other entries. `file` and `line` say where another
    source names the folder: a file of ld.so.conf.d, a .pth file, or the library whose RUNPATH or RPATH it is.
    """

    name: FilePath  # "libcublas.so.12", "google.protobuf"
    path: FilePath
    error: Text = ""  # why the file cannot be loaded: "it is truncated: 12 of at least 340 bytes are present"
    named: bool = True  # for a module: whether the exception itself names it, and not only its traceback
    placed_by: PlacedBy = ""
    entry: FilePath = ""
    number: Count = 0
    others: tuple[FilePath, ...] = ()
    file: FilePath = ""
    line: Count = 0
    owner: Text = (
        ""  # "pip: nvidia-cublas-cu12 12.5.3.2", "conda", "system", "toolkit: /usr/local/cuda"; empty: of no package
    )
    instead: FilePath = ""  # the file that is taken without it
    instead_owner: Text = ""
