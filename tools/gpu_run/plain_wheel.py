"""A target with the TensorFlow of this one and without its CUDA libraries, as plain `pip install tensorflow` leaves it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

from gpu_run.workbench import NotRun, Workbench

_CUDA = ("libcudart.so", "libcublas.so", "libcudnn.so", "libcufft.so", "libcusolver.so", "libcusparse.so", "libnccl.so",
         "libnvrtc.so", "libcupti.so", "libnvJitLink.so")  # fmt: skip


@contextlib.contextmanager
def variables(bench: Workbench) -> Iterator[dict[str, str | None]]:
    """The environment without folders of CUDA libraries, and without the TensorFlow that PYTHONPATH adds."""
    path = bench.setting.variables.get("PYTHONPATH") or os.environ.get("PYTHONPATH", "")
    kept = [each for each in path.split(os.pathsep) if each and not (pathlib.Path(each) / "tensorflow").exists()]
    yield {"LD_LIBRARY_PATH": without_cuda(bench), "PYTHONPATH": os.pathsep.join(kept) or None}


def without_cuda(bench: Workbench) -> str | None:
    """LD_LIBRARY_PATH without folders of CUDA libraries; that of the driver stays."""
    path = bench.setting.variables.get("LD_LIBRARY_PATH") or os.environ.get("LD_LIBRARY_PATH", "")
    return ":".join(each for each in path.split(":") if each and not _has_cuda(each)) or None


def _has_cuda(folder: str) -> bool:
    with contextlib.suppress(OSError):
        return any(name.startswith(_CUDA) for name in os.listdir(folder))
    return False


def target(bench: Workbench) -> str:
    """Make a virtual environment of links to what this one has, but for the nvidia packages; return its Python."""
    folder = bench.folder / "plain"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    (place,) = folder.glob("lib/python3*/site-packages")
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:
        raise NotRun("this Python has no TensorFlow")
    tensorflow = pathlib.Path(found.origin).parent
    _link_files(tensorflow, place / "tensorflow")  # as files: the libraries look beside themselves for CUDA's
    for each in [entry for path in _sites(tensorflow) for entry in sorted(path.iterdir())]:
        new = place / each.name
        if (
            not each.name.startswith(("nvidia", "__"))
            and not new.is_symlink()
            and not new.exists()
            and each.suffix != ".pth"
        ):
            new.symlink_to(each)
    return str(folder / "bin/python")


def _sites(tensorflow: pathlib.Path) -> list[pathlib.Path]:
    """The folders with installed packages, TensorFlow's first."""
    found = [
        tensorflow.parent,
        *(pathlib.Path(each) for each in sys.path if each.endswith(("site-packages", "dist-packages"))),
    ]
    return [each for each in dict.fromkeys(found) if each.is_dir()]


def _link_files(source: pathlib.Path, place: pathlib.Path) -> None:
    """Folders with libraries made anew, what has none as a link: a library looks for others beside itself."""
    with_libraries = {source}
    for folder, _, names in os.walk(source):
        if any(".so" in name for name in names):
            inside = pathlib.Path(folder)
            with_libraries |= {inside, *(each for each in inside.parents if each.is_relative_to(source))}
    for each in sorted(with_libraries):
        new = place / each.relative_to(source)
        new.mkdir(parents=True)
        for entry in each.iterdir():
            if entry not in with_libraries and entry.name != "__pycache__":
                (new / entry.name).symlink_to(entry)
