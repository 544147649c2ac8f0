"""What a ticket shows of its environment beside the sentences: what programs list, and what kind of program it is."""

from __future__ import annotations

import re
from collections.abc import Iterable

_VERSION = r"(\d\.\d{1,2}\.\d+(?:\.?(?:rc|dev|post)\d+)?)"
# A row of `pip list` (one of conda ends with a build), `pip show`, and what Python prints.
_LISTED = (
    re.compile(
        rf"^[ \t>]*tensorflow(?:[-_](?:gpu|cpu|intel|macos))?[ \t]+{_VERSION}(?:[+]\S+)?"
        r"(?:[ \t]{2,}(?!\w*py\d)\S.*)?[ \t]*$",
        re.MULTILINE,
    ),
    re.compile(rf"^[ \t>]*Name: tensorflow(?:-\w+)?[ \t]*\n[ \t>]*Version: {_VERSION}", re.MULTILINE),
    re.compile(rf"\b(?:tf|tensorflow)\.__version__[)'\" \t]*\n+[ \t>]*['\"]?{_VERSION}['\"]?[ \t]*$", re.MULTILINE),
)
_CONDA_BUILD = re.compile(r"^[ \t>]*tensorflow(?:-base)?[ \t]+\d\.\S+[ \t]+((?:cuda|gpu)\w*py\w+)", re.MULTILINE)
_CONDA_CPU_BUILD = re.compile(r"^[ \t>]*tensorflow(?:-base)?[ \t]+\d\.\S+[ \t]+(?:mkl|eigen|cpu)_py", re.MULTILINE)
_IN_PYTHON = re.compile(
    r"(?:site|dist)-packages/tensorflow/|^[ \t>]*import tensorflow\b|^[ \t>$]*pip3? install [^\n]*\btensorflow\b(?!-?js)",
    re.MULTILINE,
)
# Programs that bring TensorFlow's library without Python, by what their users write or paste.
_LANGUAGES = (
    ("tfjs-node (Node.js)", r"\btfjs-node\b|/node_modules/@tensorflow/|/s?bin/node\b|nextcloud/recognize"),
    ("TensorFlow for Java", r"\borg\.tensorflow\b|\btensorflow-core-(?:api|platform)\b|tensorflow_jni"),
    ("TensorFlow for Rust", r"\btensorflow-sys\b|\btensorflow/rust\b"),
    ("TensorFlow for Go", r"\btensorflow/tensorflow/go\b|\bwamuir/graft\b"),
)
_TENSORFLOW = re.compile(r"tensorflow|keras|\btf\d?\b", re.IGNORECASE)
_JAX_PROGRAM = re.compile(r"\bimport jax\b|\bjaxlib\b|/jax/_src/")
# By its errors and its files; SLEAP computes with it alone from 1.5 on (https://docs.sleap.ai/latest/installation/).
_TORCH_PROGRAM = re.compile(
    r"\btorch\.(?:cuda\.)?OutOfMemoryError\b|[/\\]site-packages[/\\]torch[/\\]|\bimport torch\b"
    r"|\bsleap[- ](?:nn\b|v?(?:1\.(?:[5-9]|\d\d)|[2-9])\b)",
    re.IGNORECASE,
)


def read_listed(text: str) -> Iterable[tuple[str, str]]:
    """Yield the TensorFlow release that a program prints, if it does."""
    found = [match for pattern in _LISTED if (match := pattern.search(text))]
    if found:
        yield "tensorflow", min(found, key=lambda match: match.start())[1]


def kinds_of_program(text: str) -> list[str]:
    """Return words for `install_method`: conda's build, a language other than Python, PyTorch or JAX without TensorFlow."""
    found = []
    if (build := _CONDA_BUILD.search(text)) and not _CONDA_CPU_BUILD.search(text):
        found.append(f"conda with the build {build[1]}")
    if not _IN_PYTHON.search(text):
        found += [name for name, pattern in _LANGUAGES if re.search(pattern, text, re.IGNORECASE)]
    if _TORCH_PROGRAM.search(text) and not _TENSORFLOW.search(text):
        found.append("pytorch alone")
    if _JAX_PROGRAM.search(text) and not _IN_PYTHON.search(text):
        found.append("jax")
    return found
