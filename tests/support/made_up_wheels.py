"""Small wheels, made up and built offline, and virtual environments to install them into."""

from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import stat
import subprocess
import zipfile
from collections.abc import Mapping

from doctor_command import clean_environment


def make_wheel(
    folder: pathlib.Path, name: str, version: str, files: Mapping[str, str | bytes], scripts: Mapping[str, str] = {}
) -> pathlib.Path:
    """A wheel with those files, and console scripts by name ("colours.say:main")."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    content = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    content[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    content[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if scripts:
        lines = "".join(f"{script} = {place}\n" for script, place in scripts.items())
        content[f"{info}/entry_points.txt"] = f"[console_scripts]\n{lines}".encode()
    rows = [f"{path},sha256={_hash(data)},{len(data)}" for path, data in content.items()]
    content[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in content.items():
            archive.writestr(path, data)
    return wheel


def pip(target: pathlib.Path, *words: str, wheels: pathlib.Path) -> None:
    """Run the target's pip, offline."""
    subprocess.run(
        [target / "bin/python", "-m", "pip", *words], check=True, capture_output=True,
        env=clean_environment(**offline(wheels)),
    )  # fmt: skip


def offline(wheels: pathlib.Path) -> dict[str, str]:
    """Variables that make pip look into a folder alone."""
    return {
        "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull,
        "PIP_EXTRA_INDEX_URL": "", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }  # fmt: skip


def tree(folder: pathlib.Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder: mode and content of a file and when it was written, target of a link."""
    return {str(path.relative_to(folder)): entry(path) for path in sorted(folder.rglob("*"))}


def entry(path: pathlib.Path) -> tuple[object, ...]:
    """The same of one path; empty where nothing is."""
    try:
        status = path.lstat()
        if path.is_symlink():
            return ("link", os.readlink(path))
        if path.is_dir():
            return ("folder", stat.S_IMODE(status.st_mode))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ()
    return ("file", stat.S_IMODE(status.st_mode), status.st_mtime_ns, digest)


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
