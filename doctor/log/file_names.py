"""What the names of CUDA's libraries say: for which CUDA and which cuDNN a program was built."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

ONE_NAME_PER_MAJOR = 11  # from CUDA 11 on, a name has the major version only: libcudart.so.11.0 is that of 11.8 too
# Names of other libraries, and libcublas.so.10, belong to several CUDA versions.
_OF_CUDA = (
    re.compile(r"libcudart\.so\.(\d+(?:\.\d+)?)"),
    re.compile(r"lib(?:cublas|cublasLt|cusparse)\.so\.(\d+\.\d+|1[1-9])"),
    re.compile(r"(?:cudart64|cublas64|cusparse64)_(\d{1,3})\.dll"),
)
_OF_CUDNN = re.compile(r"libcudnn(?:_\w+)?\.so\.(\d+)|cudnn(?:_\w+)?64_(\d+)\.dll")
_LONGEST_MAJOR = 20  # "12" in the name of a DLL is CUDA 12, "90" is 9.0, and "101" is 10.1


@dataclass(frozen=True)
class Named:
    """The versions in the names of libraries, each empty where no name, or more than one, says it; and those names."""

    cuda: str = ""  # "11", "10.1"
    cudnn: str = ""  # "8"
    cuda_file: str = ""  # libcudart.so.11.0
    cudnn_file: str = ""

    def fits(self, cuda: str, cudnn: str) -> bool:
        """Whether a release that needs these versions opens files with these names."""
        same_cuda = not self.cuda or _of_name(cuda) == self.cuda
        return same_cuda and (not self.cudnn or cudnn.partition(".")[0] == self.cudnn)


def named(lost: Iterable[str], opened: Iterable[str] = ()) -> Named:
    """Return what the names of lost libraries say, and where they say nothing those of the opened ones."""
    first, second = _said(lost), _said(opened)
    cuda, cuda_file = first["cuda"] or second["cuda"] or ("", "")
    cudnn, cudnn_file = first["cudnn"] or second["cudnn"] or ("", "")
    return Named(cuda, cudnn, cuda_file, cudnn_file)


def _said(files: Iterable[str]) -> dict[str, tuple[str, str] | None]:
    """Map "cuda" and "cudnn" to the version and the first file that says it; None where files disagree, or say nothing."""
    found: dict[str, dict[str, str]] = {"cuda": {}, "cudnn": {}}
    for file in files:
        for kind, version in _versions(file):
            found[kind].setdefault(version, file)
    return {kind: next(iter(each.items())) if len(each) == 1 else None for kind, each in found.items()}


def _versions(file: str) -> Iterator[tuple[str, str]]:
    if match := _OF_CUDNN.fullmatch(file):
        yield "cudnn", match[1] or match[2]
    for pattern in _OF_CUDA:
        if match := pattern.fullmatch(file):
            yield "cuda", _of_name(_dotted(match[1]) if file.endswith(".dll") else match[1])


def _dotted(digits: str) -> str:
    whole = len(digits) == 1 or (len(digits) == len("12") and int(digits) < _LONGEST_MAJOR)
    return digits if whole else f"{digits[:-1]}.{digits[-1]}"


def _of_name(version: str) -> str:
    """Return the part of a CUDA version that the names of its libraries have."""
    major, _, rest = version.partition(".")
    return major if int(major or 0) >= ONE_NAME_PER_MAJOR else f"{major}.{rest.partition('.')[0]}".rstrip(".")
