"""Read the texts of a wheel that may concern the GPU, from its libraries and its Python files; selection.py selects."""

from __future__ import annotations

import ast
import io
import pathlib
import re
import warnings
import zipfile
from collections.abc import Iterator

from elftools.elf.elffile import ELFFile

_LIBRARY = re.compile(r"\.so(?:\.\d+)*$")
_CONSTANTS = (".rodata", ".lrodata")  # the sections of a library that contain its texts
_STRING = re.compile(rb"[\x09\x20-\x7e]{8,}")
_LONGEST = 700
_SMALLEST_LIBRARY = 50_000
_SUBJECTS = b"""
    gpu cuda cudnn cublas cusolver cusparse cufft curand cupti nccl nvml nvrtc nvjitlink nvlink nvidia
    tensorrt ptx libdevice xla hlo thunk memory oom alloc stream executor placement placed device driver dso
    dlopen librar autotun algorithm rendezvous collective reduce gather all-to-all communicator clique peer
    numa kernel memcpy memset launch cubin capability cluster worker replica strategy profil core precision
    float16 blas fft dnn rnn solver convolution gemm jit compil llvm ibv_ socket connect bootstrap proxy
    channel rank
""".split()
_WORDS = re.compile(rb"[A-Za-z]{2,} [A-Za-z]{2,}|[A-Za-z]{3,}: |[a-z]{3,} ")
_LOGGING = ("warning", "warn", "error", "info", "fatal", "log", "exception", "log_first_n", "vlog", "print")


def read_library_texts(wheel: pathlib.Path) -> set[str]:
    """Return the texts of several words in the libraries of a wheel."""
    found: set[str] = set()
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if _LIBRARY.search(member.filename) and member.file_size > _SMALLEST_LIBRARY:
                found.update(_texts(archive.read(member)))
    return found


def _texts(content: bytes) -> Iterator[str]:
    for part in _constants(content):
        for text in {found[0] for found in _STRING.finditer(part) if b" " in found[0] and len(found[0]) < _LONGEST}:
            if _may_matter(text):
                yield text.decode("ascii").strip("\t")


def _constants(content: bytes) -> Iterator[bytes]:
    """Return the sections of a library that contain texts."""
    if content[:4] != b"\x7fELF":
        return
    for section in ELFFile(io.BytesIO(content)).iter_sections():
        if section.name.startswith(_CONSTANTS):
            yield content[section["sh_offset"] : section["sh_offset"] + section["sh_size"]]


def _may_matter(text: bytes) -> bool:
    lower = text.lower()
    return any(part in lower for part in _SUBJECTS) and _WORDS.search(text) is not None


def read_python_texts(wheel: pathlib.Path) -> set[str]:
    """Return the texts that TensorFlow's own Python files raise or log; a placeholder is written {}."""
    found: set[str] = set()
    with zipfile.ZipFile(wheel) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old files contain invalid escapes
        for name in archive.namelist():
            if re.match(r"tensorflow/.*(?<!_test)(?<!_pb2)\.py$", name):
                found.update(_raised_and_logged(archive.read(name)))
    return {text for text in found if len(text) < _LONGEST and _may_matter(text.encode())}


def _raised_and_logged(source: bytes) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _name_of(node.func) in _LOGGING):
            yield from _literals(node)


def _name_of(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _literals(node: ast.AST) -> Iterator[str]:
    """Return the string literals under a node on one line each, an f-string as one text."""
    if isinstance(node, ast.JoinedStr):
        parts = (str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        yield " ".join("".join(parts).split())
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield " ".join(node.value.split())
    else:
        for child in ast.iter_child_nodes(node):
            yield from _literals(child)
