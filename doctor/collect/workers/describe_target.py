"""Describe the interpreter that runs this file, and the packages that it would import. Imports none of them."""

from __future__ import annotations

import json
import os
import re
import site
import struct
import sys

SAFE_PATH = getattr(sys.flags, "safe_path", False)
if not SAFE_PATH:
    # The folder of this file; a user's program would have its own folder, or the working folder, in this place.
    del sys.path[0]
OWNED = b"tensorflow/__init__.py,"
WITH_REQUIREMENTS = ("tensorflow", "tf-nightly", "torch")
CONDA_RECORDS = ("tensorflow", "_tflow_select", "cudatoolkit", "cudnn", "cuda-", "libcudnn")
# pipx writes the first (its commit 201ae5a), `uv tool` the second (its crate uv-tool); both read 2026-11-28
TOOL_RECORDS = ("pipx_metadata.json", "uv-receipt.toml")
# `uvx` and `uv run --with` make theirs in uv's cache, and leave no record (uv 0.13.9)
CACHED = ("archive-v", "builds-v")
RESTORED = re.compile(r"[\"']?\$\{?\w*(?:OLD|SAVE|BACKUP|ORIG)", re.IGNORECASE)
EXPORTED = ("LD_LIBRARY_PATH", "XLA_FLAGS")
UNSET = "***unset***"  # what conda writes for a variable that was taken out
# of `uv run --with`, in pyvenv.cfg (uv's EphemeralEnvironment::set_parent_environment)
PARENT = "extends-environment"
IMPLEMENTATIONS = ("cpython", "pypy", "graalpy")
ON = ("1", "true", "yes", "on", "y", "t")  # pip's strtobool
MOST_BYTES = 64 << 20  # of a file; the longest RECORDs of real packages have a few MiB
HIDING = ("tensorflow", "keras", "numpy", "google", "six", "wrapt", "absl", "h5py", "requests", "packaging")


def canonical(name: str) -> str:
    """The name as the packaging specification normalizes it: lower case, runs of -_. as one dash."""
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part)


def read_bytes(path: str) -> bytes:
    """The content of a file, empty if it cannot be read."""
    try:
        if not os.path.isfile(path):  # a pipe gives nothing for ever, and a device never ends
            return b""
        with open(path, "rb") as file:
            return file.read(MOST_BYTES)
    except OSError:
        return b""


def read(path: str) -> str:
    """The text of a file, empty if it cannot be read."""
    return read_bytes(path).decode("utf-8", "replace")


def header(text: str, name: str) -> list[str]:
    """All values of one header of a METADATA file."""
    prefix = name + ": "
    return [line[len(prefix) :].strip() for line in text.split("\n\n", 1)[0].splitlines() if line.startswith(prefix)]


def name_and_version(folder: str, entry: str) -> tuple[str, str]:
    """Name and version from the name of a .dist-info or .egg-info, or from the metadata inside if the name has none."""
    stem = entry.rsplit(".", 1)[0]
    parts = stem.split("-")
    if len(parts) >= 2 and parts[1][:1].isdigit():
        return canonical(parts[0]), parts[1]
    text = ""
    for file in ("METADATA", "PKG-INFO"):
        text = text or read(os.path.join(folder, entry, file))
    names, versions = header(text, "Name"), header(text, "Version")
    return canonical(names[0] if names else stem), versions[0] if versions else ""


def distributions(search_path: list[str]) -> tuple[list[dict[str, object]], list[str]]:
    """Every installed distribution, in the order of the search path, and the owners of tensorflow/__init__.py."""
    found: list[dict[str, object]] = []
    owners: list[str] = []
    for folder in search_path:
        entries: list[tuple[str, str]] = []
        for entry in names(folder):
            # A name that begins with ~ is a leftover of an interrupted pip upgrade.
            if entry.startswith("~") or not entry.endswith((".dist-info", ".egg-info")):
                continue
            name, version = name_and_version(folder, entry)
            inside = os.path.join(folder, entry)
            row: dict[str, object] = {"name": name, "version": version, "folder": folder}
            row["installer"] = read(os.path.join(inside, "INSTALLER")).strip()
            if name.startswith(WITH_REQUIREMENTS) or "tensorflow" in name:
                text = read(os.path.join(inside, "METADATA")) or read(os.path.join(inside, "PKG-INFO"))
                row["requires"] = header(text, "Requires-Dist")
            found.append(row)
            entries.append((name, inside))
        owners += owners_in(folder, entries)
    return found, owners


def owners_in(folder: str, entries: list[tuple[str, str]]) -> list[str]:
    """The distributions in a folder that list tensorflow/__init__.py: a RECORD is long, and a network file system slow.

    Only those with a name of TensorFlow's are read, and the others where none of these owns the package that is there.
    """
    likely = [(name, inside) for name, inside in entries if "tensorflow" in name or "tf" in name.split("-")]
    found = [name for name, inside in likely if owns(inside)]
    if not found and is_file(folder or ".", os.path.join("tensorflow", "__init__.py")):
        found = [name for name, inside in entries if (name, inside) not in likely and owns(inside)]
    return found


def owns(inside: str) -> bool:
    """Whether the RECORD in a .dist-info lists tensorflow/__init__.py."""
    record = read_bytes(os.path.join(inside, "RECORD"))
    return record.startswith(OWNED) or b"\n" + OWNED in record


def names(folder: str) -> list[str]:
    """The names in a folder, sorted; empty if it cannot be read."""
    try:
        return sorted(os.listdir(folder or "."))
    except OSError:
        return []


def is_module(folder: str, name: str) -> str:
    """The file that `import name` would run if this folder were the first on the search path."""
    for candidate in (os.path.join(folder, name, "__init__.py"), os.path.join(folder, name + ".py")):
        if os.path.isfile(candidate):
            return candidate
    return ""


def first_module(search_path: list[str], name: str) -> str:
    """The file that `import name` runs."""
    return next((found for found in (is_module(folder or ".", name) for folder in search_path) if found), "")


def local_modules(folder: str) -> list[str]:
    """Modules in the working folder that have the name of one that TensorFlow imports."""
    library = os.path.dirname(os.__file__)
    # sys.stdlib_module_names exists since Python 3.10
    standard = getattr(sys, "stdlib_module_names", None) or {name.partition(".")[0] for name in names(library)}
    found = [entry[:-3] if entry.endswith(".py") else entry for entry in names(folder)]
    hiding = [name for name in found if "." not in name and (name in standard or name in HIDING)]
    return [found for found in (is_module(folder, name) for name in hiding) if found]


def nvidia_libraries(search_path: list[str]) -> list[str]:
    """Shared libraries under nvidia/*/lib (nvidia/*/bin on Windows) from pip wheels."""
    found: list[str] = []
    for folder in search_path:
        base = os.path.join(folder, "nvidia")
        if not folder or not os.path.isdir(base):
            continue
        for part in names(base):
            for sub in ("lib", "bin"):
                inside = os.path.join(base, part, sub)
                libraries = [name for name in names(inside) if ".so" in name or name.endswith(".dll")]
                found += [os.path.join(inside, name) for name in libraries]
    return found


def conda_packages() -> dict[str, str]:
    """Map the name to version and build of the conda packages that matter here."""
    found: dict[str, str] = {}
    folder = os.path.join(sys.prefix, "conda-meta")
    if not os.path.isdir(folder):
        return found
    for entry in names(folder):
        parts = entry[: -len(".json")].rsplit("-", 2)
        if entry.endswith(".json") and entry.startswith(CONDA_RECORDS) and len(parts) == 3:
            found[parts[0]] = parts[1] + " " + parts[2]
    return found


def exports() -> dict[str, str]:
    """The relevant variables that activating this environment sets, as its scripts write them.

    conda sets those that `conda env config vars set` saved before it runs the scripts.
    """
    found = saved_variables()
    folder = os.path.join(sys.prefix, "etc", "conda", "activate.d")
    scripts = [os.path.join(folder, name) for name in names(folder) if name.endswith(".sh")]
    for script in [os.path.join(sys.prefix, "bin", "activate")] + scripts:
        found.update(exported(read(script)))
    return found


def exported(script: str) -> dict[str, str]:
    """The relevant variables that a script of the shell exports, in one statement or after it has set them."""
    found: dict[str, str] = {}
    plain: dict[str, str] = {}
    for line in script.splitlines():
        before, equals, value = line.strip().partition("=")
        words = before.split()
        is_export = words[:1] == ["export"]
        names = words[1:] if is_export else words
        if equals and len(names) == 1 and names[0] in EXPORTED:
            first, _, last = value.rpartition(";")
            at_once = last.split() == ["export"] + names
            value = first.strip() if at_once else value
            is_of_one_command = not (is_export or at_once) and bool(re.match(r"[^\s'\"$`]+\s+[^\s#]", value))
            if RESTORED.match(value) or is_of_one_command:
                continue  # RESTORED: what `deactivate` does
            (found if is_export or at_once else plain)[names[0]] = value
        elif is_export and not equals:
            found.update({name: plain[name] for name in names if name in plain})
    return found


def saved_variables() -> dict[str, str]:
    """The relevant variables in conda-meta/state, where `conda env config vars set` saves them."""
    try:
        state = json.loads(read(os.path.join(sys.prefix, "conda-meta", "state")) or "{}")
    except (ValueError, RecursionError):
        return {}
    saved = state.get("env_vars") if isinstance(state, dict) else None
    rows = saved.items() if isinstance(saved, dict) else ()
    return {name: value for name, value in rows if name in EXPORTED and isinstance(value, str) and value != UNSET}


def extended() -> str:
    """The environment that `uv run --with` laid this one over; empty if it did not."""
    for line in read(os.path.join(sys.prefix, "pyvenv.cfg")).splitlines():
        name, _, value = line.partition("=")
        if name.strip() == PARENT:
            return value.strip()
    return ""


def beside(working_folder: str, own: str) -> str:
    """The environment in the working folder, if it is another than one's own."""
    folder = os.path.join(working_folder, ".venv")
    is_there = bool(working_folder) and is_file(folder, "pyvenv.cfg")
    return folder if is_there and os.path.realpath(folder) != os.path.realpath(own) else ""


def main() -> None:
    try:
        working_folder = os.getcwd()
    except OSError:  # it was removed
        working_folder = ""
    program_path = sys.path if SAFE_PATH else [working_folder] + sys.path
    found, owners = distributions(sys.path)
    library = os.path.dirname(os.__file__)
    user_site = site.getusersitepackages() if site.ENABLE_USER_SITE else ""
    parent = extended()
    implementation = sys.implementation.name
    is_base = os.path.realpath(parent) == os.path.realpath(sys.base_prefix) if parent else sys.prefix == sys.base_prefix
    answer = {
        "executable": sys.executable,
        "version": "%d.%d.%d" % sys.version_info[:3],
        "bits": struct.calcsize("P") * 8,
        "implementation": implementation if implementation in IMPLEMENTATIONS else "other",
        "free_threaded": "t" in getattr(sys, "abiflags", ""),  # Windows has none before 3.14
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "search_path": sys.path,
        "working_folder": working_folder,
        "user_site": user_site,
        "externally_managed": is_base and is_file(library, "EXTERNALLY-MANAGED"),
        "breaks_system_packages": os.environ.get("PIP_BREAK_SYSTEM_PACKAGES", "").lower() in ON,
        "extends": parent,
        "beside": beside(working_folder, parent or sys.prefix),
        "is_of_one_tool": not parent and is_of_one_tool(sys.prefix),
        "conda_packages": conda_packages(),
        "distributions": found,
        "tensorflow_owners": owners,
        "tensorflow_file": first_module(program_path, "tensorflow"),
        "local_modules": [] if SAFE_PATH else local_modules(working_folder),
        "nvidia_libraries": nvidia_libraries(sys.path),
        "exports": exports(),
    }
    sys.stdout.write(json.dumps(answer) + "\n")


def is_of_one_tool(prefix: str) -> bool:
    """Whether pipx or uv made an environment for one program."""
    folder, kind = os.path.split(os.path.dirname(prefix))
    cached = kind.startswith(CACHED) and is_file(folder, "CACHEDIR.TAG")
    return cached or any(is_file(prefix, name) for name in TOOL_RECORDS)


def is_file(folder: str, name: str) -> bool:
    """Whether a folder contains a file of that name."""
    return os.path.isfile(os.path.join(folder, name))


if __name__ == "__main__":
    main()
