"""Write tools/messages/inventory.json: the texts about the GPU that TensorFlow and NVIDIA's libraries can print.

    python tools/read_messages.py                         read the minor releases that the inventory does not have yet
    python tools/read_messages.py 2.21 nvidia-nccl-cu12   read these again: TensorFlow's releases, other packages
    python tools/read_messages.py ./some.whl              read a wheel that is already here
    python tools/read_messages.py --again                 select again from the texts of all wheels that were read before

The wheels come through pip, which decides the index. What was read of a wheel stays in the folder --texts; the wheel does not.
The inventory is written after each wheel that was read, and with --again once, if the texts of all its wheels are there.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Iterator

from messages.codes import read_codes
from messages.selection import belongs, is_failure
from messages.table import Inventory, read_inventory, write_inventory
from messages.texts import read_library_texts, read_python_texts
from messages.wheels import NoWheel, downloaded, project_and_version

ROOT = pathlib.Path(__file__).resolve().parent.parent
INVENTORY = ROOT / "tools/messages/inventory.json"
RELEASES = ROOT / "checks/data/tensorflow_releases.json"
TEXTS = pathlib.Path("~/.cache/tfgpu-doctor-messages").expanduser()
PACKAGES = (  # NVIDIA's packages with the codes and texts that TensorFlow passes on
    *("nvidia-ml-py", "nvidia-nccl-cu12", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-cuda-nvrtc-cu12"),
    *("nvidia-nvjitlink-cu12", "nvidia-cuda-cupti-cu12", "nvidia-cublas-cu12", "nvidia-cufft-cu12"),
    *("nvidia-cudnn-cu12", "nvidia-cudnn-cu12==8.*", "nvidia-cusolver-cu12", "nvidia-cusparse-cu12"),
    "nvidia-curand-cu12",
)

Texts = dict[str, list[str]]  # "libraries", "python", "codes"


def read_wheel(wheel: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Read a wheel's texts and error codes, save them, and return their file."""
    name, version = project_and_version(wheel)
    texts = {
        "libraries": sorted(read_library_texts(wheel)),
        "python": sorted(read_python_texts(wheel)),
        "codes": sorted(read_codes(wheel)),
    }
    file = folder / f"{name}_{version}.json"
    file.write_text(json.dumps(texts, indent=0))
    return file


def select(texts: Texts, package: str) -> Iterator[tuple[str, str, str]]:
    """Return the texts that belong into the inventory: text, kind, where."""
    where = package.removeprefix("nvidia-").removesuffix("-cu12")
    for source, place in (("libraries", where), ("python", "python")):
        for text in texts.get(source, ()):
            if belongs(text, place):
                yield text, "error" if is_failure(text) else "other", place
    for code in texts.get("codes", ()):
        yield code, "code", where


def add(table: Inventory, file: pathlib.Path) -> None:
    """Add the saved texts of a wheel to the inventory."""
    package, version = file.stem.rsplit("_", 1)
    table.add(package, version, select(json.loads(file.read_text()), package))
    print(f"{package} {version}: {table.counts[f'{package} {version}']}", file=sys.stderr, flush=True)


def missing(table: Inventory) -> list[str]:
    """Return the requirements for what the inventory does not have: minor releases of TensorFlow, and NVIDIA's packages."""
    rows = json.loads(RELEASES.read_text())["rows"]
    minors = dict.fromkeys(".".join(row["version"].split(".")[:2]) for row in rows)
    known = [name.split() for name in table.counts]
    read_before = {".".join(version.split(".")[:2]) for package, version in known if package == "tensorflow"}
    packages = {package for package, _ in known}
    return [each for each in minors if each not in read_before] + [
        each for each in PACKAGES if each.partition("=")[0] not in packages
    ]


def unsaved(table: Inventory, folder: pathlib.Path) -> list[str]:
    """Return what to read again: the wheels of the inventory whose texts are not in the folder."""
    wheels = [name.split() for name in table.counts]
    lost = [(package, version) for package, version in wheels if not (folder / f"{package}_{version}.json").is_file()]
    return [version if package == "tensorflow" else f"{package}=={version}" for package, version in lost]


def selected_again(folder: pathlib.Path) -> Inventory:
    """Select again from all texts that are saved."""
    table = Inventory()
    for file in sorted(folder.glob("*.json")):
        add(table, file)
    return table


def read(wanted: str, folder: pathlib.Path) -> pathlib.Path:
    """Read a wheel file, a release of TensorFlow or a package. Raises NoWheel."""
    if wanted.endswith(".whl"):
        return read_wheel(pathlib.Path(wanted), folder)
    with downloaded(f"tensorflow=={wanted}.*" if wanted[0].isdigit() else wanted) as wheel:
        return read_wheel(wheel, folder)


def main() -> int:
    """Read wheels and write the inventory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wanted", nargs="*", help="a minor release, a requirement or a wheel")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--texts", type=pathlib.Path, default=TEXTS)
    parser.add_argument("--inventory", type=pathlib.Path, default=INVENTORY)
    options = parser.parse_args()
    options.texts.mkdir(parents=True, exist_ok=True)
    table = read_inventory(options.inventory)
    if options.again:
        if lost := unsaved(table, options.texts):
            print(
                f"{options.texts} lacks the texts of {len(lost)} wheels of the inventory, which is unchanged; read them first: "
                f"python tools/read_messages.py {' '.join(lost)}",
                file=sys.stderr,
            )
            return 1
        table = selected_again(options.texts)
        write_inventory(options.inventory, table)
    try:
        for wanted in options.wanted or ([] if options.again else missing(table)):
            add(table, read(wanted, options.texts))
            write_inventory(options.inventory, table)
    except NoWheel as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
