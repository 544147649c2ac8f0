"""Find and read a recording: a folder of TensorBoard, an .xplane.pb, or a trace.json with or without gzip."""

from __future__ import annotations

import fnmatch
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator

import msgspec

from tfgpu_doctor.host.files import Files
from tfgpu_doctor.model.plain_text import clean
from tfgpu_doctor.tracing.chrome_trace import read_chrome_trace
from tfgpu_doctor.tracing.data_sources import read_sources
from tfgpu_doctor.tracing.dataset_loops import mark_loops
from tfgpu_doctor.tracing.events import Plane
from tfgpu_doctor.tracing.processed import ENDING, Processed, read_processed
from tfgpu_doctor.tracing.python_samples import FILE, read_samples
from tfgpu_doctor.tracing.recorded import Kinds, Profile, make_profile
from tfgpu_doctor.tracing.wire import CutOff
from tfgpu_doctor.tracing.xplane import read_messages, read_planes

_MOST_BYTES = 1 << 30  # some 30 million events; also what a protocol buffer can hold is 2 GiB
_NAME_ONE = "name an .xplane.pb file that TensorFlow wrote, or the folder it lies in"
_GZIP = b"\x1f\x8b"
_DATE = re.compile(r"\d{4}(?:_\d\d){5}")  # 2026_11_23_10_00_00, the folder in plugins/profile
_SUMMARIES = ("overview_page.pb", "kernel_stats.pb", "tensorflow_stats.pb", "memory_profile.json.gz", "op_stats.pb")
_NAMES = ("*.xplane.pb", "*.trace.json.gz", "*.trace.json", "*" + ENDING)


class Unreadable(Exception):
    """What is no profile of TensorFlow, or too large; the message says what it is and what to do, on one line."""

    def __init__(self, message: str) -> None:
        super().__init__(clean(message.encode("utf-8", "replace").decode()).replace("\n", " "))


def _unpacked(path: str, data: bytes) -> bytes:
    """The text of a trace in JSON, with or without gzip."""
    if data[:2] != _GZIP:
        return data
    with gzip.open(io.BytesIO(data)) as packed:
        text = packed.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise Unreadable(f"{path} unpacks to more than {_MOST_BYTES >> 30} GiB; record some seconds only")
    return text


def find_file(path: str) -> str:
    """Return the newest profile in a folder, or the file itself. Raises Unreadable."""
    if not os.path.isdir(path):
        if not os.path.exists(path):
            raise Unreadable(f"{path} does not exist; name a folder with profiles, or an .xplane.pb file")
        return path
    names = list(_files_below(path))
    for name in _NAMES:
        if found := [each for each in fnmatch.filter(names, name) if os.path.isfile(each)]:
            return max(found, key=_age(found))
    raise Unreadable(
        f"{path} holds no profile (no *.xplane.pb below it); TensorFlow writes LOGDIR/plugins/profile/DATE/HOST.xplane.pb"
    )


def _age(paths: list[str]) -> Callable[[str], tuple[str, float, str]]:
    """What is greatest for the newest: TensorFlow's own date, if all have one, as a copy gives all files its own time."""
    dates = {path: os.path.basename(os.path.dirname(path)) for path in paths}
    dated = all(map(_DATE.fullmatch, dates.values()))
    return lambda path: (dates[path] if dated else "", os.path.getmtime(path), path)


def _files_below(path: str) -> Iterator[str]:
    """Yield all names below a folder; through links, but every folder once: links may form a loop."""
    seen = set()
    for folder, folders, names in os.walk(path, followlinks=True):
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        yield from (os.path.join(folder, name) for name in names)


def read_profile(path: str) -> Profile:
    """Read a recording, and the looks at its Python that lie beside it. Raises Unreadable."""
    try:
        if not os.path.isfile(path):
            raise Unreadable(f"{path} is no regular file; save the profile to one first")
        size = os.path.getsize(path)
        if size > _MOST_BYTES:
            raise Unreadable(
                f"{path} has {size / 2**30:.1f} GiB; the doctor reads up to {_MOST_BYTES >> 30} GiB: record some "
                f"seconds only, for instance with tfgpu-doctor trace --record-with"
            )
        with Files().open_binary(path) as file:
            if size == 0:
                raise Unreadable(
                    f"{path} is empty: the program ended before TensorFlow had written the profile; record it again"
                )
            if file.read(1) == b"\0":  # before a GiB of them is read
                raise _cut_off(path, "zeros follow from byte 0")
            file.seek(0)
            data = file.read()
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    profile = _profile(path, data)
    _add_samples(path, profile)
    return profile


def read_summary(path: str) -> Processed:
    """Read what TensorBoard's plugin made of a profile. Raises Unreadable."""
    try:
        with Files().open_binary(path) as file:
            return read_processed(file.read())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Unreadable(
            f"{path} does not sum up any steps ({why}); name the .xplane.pb or the trace.json.gz of the same recording"
        ) from error


def _profile(path: str, data: bytes) -> Profile:
    if path.endswith(_SUMMARIES):
        raise Unreadable(
            f"{path} is what TensorBoard made of a profile; name the .xplane.pb beside it, or the *.{ENDING}"
        )
    kinds, planes, cut_off = Kinds(), [], ""
    head = data[:64]
    if head[:2] == _GZIP or head.lstrip()[:1] in (b"{", b"["):
        try:
            planes = read_chrome_trace(_unpacked(path, data), kinds.wanted)
        except (OSError, EOFError, zlib.error, RecursionError, UnicodeDecodeError, msgspec.DecodeError) as error:
            raise Unreadable(f"{path} is no whole trace in JSON ({error}); record it again") from error
        return _checked(path, planes, kinds, "")
    try:
        for plane in read_planes(data, kinds.wanted):
            planes.append(plane)
    except CutOff as error:
        cut_off = str(error)
    except ValueError as error:
        raise Unreadable(f"{path} is no profile of TensorFlow ({error}); {_NAME_ONE}") from error
    profile = _checked(path, planes, kinds, cut_off)
    profile.errors = read_messages(data)
    return profile


def _checked(path: str, planes: list[Plane], kinds: Kinds, cut_off: str) -> Profile:
    """Make the profile, unless it is another tool's or another device's."""
    names = " ".join(plane.name for plane in planes)
    if cut_off and not any(len(line) for plane in planes for line in plane.lines):
        raise _cut_off(path, cut_off)
    if not planes:
        raise Unreadable(f"{path} is no profile of TensorFlow: it names no host and no device; {_NAME_ONE}")
    if "/device:TPU" in names:
        raise Unreadable(
            f"{path} is a profile of a TPU; the doctor judges NVIDIA GPUs and CPUs. Use XProf (pip install xprof)"
        )
    vendors = {str(plane.stats.get("device_vendor", "")) for plane in planes}
    if "AMD" in vendors or re.search(r"ROCm|HIP", names):
        raise Unreadable(
            f"{path} is a profile of an AMD GPU; the doctor judges NVIDIA GPUs and CPUs. Use XProf (pip install xprof)"
        )
    if not re.search(r"/(host|device|job):", names):
        called = names[:60].strip() or "without names of processes"
        raise Unreadable(f"{path} is a trace of another tool ({called}), not of TensorFlow; {_NAME_ONE}")
    profile = make_profile(planes, kinds, cut_off)
    mark_loops(profile)
    return profile


def _cut_off(path: str, where: str) -> Unreadable:
    return Unreadable(f"{path} is cut off before its first events ({where}); copy it again, or record it again")


def _add_samples(path: str, profile: Profile) -> None:
    """The recorder leaves its file in the folder that it gave to TensorFlow: three above plugins/profile/DATE."""
    folder = os.path.dirname(os.path.abspath(path))
    for candidate in (folder, os.path.normpath(os.path.join(folder, "..", "..", ".."))):
        file = os.path.join(candidate, FILE)
        if os.path.exists(file):
            try:
                with Files().open_binary(file) as opened:
                    content = opened.read()
                profile.samples = read_samples(content, profile.origin_ns, profile.began_ns)
                profile.sources = read_sources(content)
            except (OSError, RecursionError, UnicodeDecodeError, msgspec.DecodeError):
                continue
            return
