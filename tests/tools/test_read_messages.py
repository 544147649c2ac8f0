"""tools/read_messages.py: the inventory is never replaced by less than there was."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import zipfile

import pytest
from locations import ROOT


@pytest.fixture
def wheel(tmp_path: pathlib.Path) -> pathlib.Path:
    """A wheel with an error in its Python."""
    file = tmp_path / "tensorflow-2.98.0-cp312-cp312-manylinux_2_17_x86_64.whl"
    with zipfile.ZipFile(file, "w") as archive:
        text = "Failed to initialize the CUDA driver of this GPU"
        archive.writestr("tensorflow/python/eager/context.py", f'def start():\n    raise RuntimeError("{text}")\n')
    return file


def run(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The tool, on an inventory and saved texts of this test."""
    places = ["--texts", str(folder / "texts"), "--inventory", str(folder / "inventory.json")]
    command = [sys.executable, str(ROOT / "tools/read_messages.py"), *places, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_selecting_again_needs_the_texts_of_every_wheel(wheel: pathlib.Path) -> None:
    folder = wheel.parent
    inventory = folder / "inventory.json"
    done = run(folder, str(wheel))
    assert done.returncode == 0, done.stderr
    before = inventory.read_bytes()
    assert json.loads(before)["rows"]
    done = run(folder, "--again")
    assert done.returncode == 0, done.stderr
    assert inventory.read_bytes() == before

    (folder / "texts/tensorflow_2.98.0.json").unlink()
    done = run(folder, "--again")
    assert done.returncode == 1
    assert "lacks the texts of 1 wheels of the inventory, which is unchanged" in done.stderr
    assert done.stderr.endswith("python tools/read_messages.py 2.98.0\n")
    assert inventory.read_bytes() == before


def test_what_fails_leaves_the_inventory_whole(wheel: pathlib.Path) -> None:
    folder = wheel.parent
    assert run(folder, str(wheel)).returncode == 0
    before = (folder / "inventory.json").read_bytes()
    (folder / "texts/tensorflow_2.97.0.json").write_text('{"libraries": ["cut o')
    assert run(folder, "--again").returncode == 1
    assert (folder / "inventory.json").read_bytes() == before
    assert not (folder / "inventory.json.new").exists()
