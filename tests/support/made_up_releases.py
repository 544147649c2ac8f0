"""Wheels as TensorFlow's are, but for their size."""

from __future__ import annotations

import io
import struct
import zipfile


def made_up_library(runpath: str, padding_bytes: int = 3 << 20) -> bytes:
    """The least of an ELF file that has a RUNPATH; its end is a long way behind the dynamic section."""
    names = b"\0" + runpath.encode() + b"\0"
    strings_at, dynamic_at = 0x200, 0x200 + len(names) + 64
    dynamic = struct.pack("<QQQQQQ", 5, 0x10000 + strings_at, 29, 1, 0, 0)
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0
    )
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0x10000, 0x10000, 0x1000, 0x1000, 0x1000)
    dynamic_row = struct.pack("<IIQQQQQQ", 2, 6, dynamic_at, 0x10000 + dynamic_at, 0, len(dynamic), len(dynamic), 8)
    start = (header + load + dynamic_row).ljust(strings_at, b"\0") + names
    noise = bytes(range(256)) * (padding_bytes // 256)
    return start.ljust(dynamic_at, b"\0") + dynamic + noise


def made_up_container(*targets: tuple[int, int]) -> bytes:
    """Code for GPUs, as CUDA's compilers write it: kind (1 PTX, 2 machine code) and compute capability of each."""
    code = b"\x7fELF" + bytes(60)
    entries = b"".join(
        struct.pack("<HHIQIIHHI", kind, 0x101, 64, len(code), len(code), 0, 1, 7, capability).ljust(64, b"\0") + code
        for kind, capability in targets
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


BUILT = ((2, 60), (2, 90), (1, 90))  # "sm_60", "compute_90"


def made_up_gpu_library(*containers: bytes, single: bytes = b"") -> bytes:
    """A library with a row of containers in .nv_fatbin, and one that stands alone elsewhere."""
    begin, row = 4096 + len(single), b"".join(containers)
    names = b"\0.nv_fatbin\0.nv_fatbinX\0.shstrtab\0"
    sections = [(0, 0, 0), (12, 64, 8), (1, begin, len(row)), (24, begin + len(row), len(names))]
    table = b"".join(struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, at, size, 0, 0, 1, 0) for name, at, size in sections)
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, begin + len(row) + len(names), 0, 64, 56, 0, 64, len(sections), 3
    )
    return head.ljust(4096, b"\0") + single + row + names + table


def made_up_wheel(
    version: str,
    *,
    cuda: str | None = "12.5.1",
    requires: tuple[str, ...] = (
        "numpy>=1.26.0",
        "protobuf (>=3.20.3,<6)",
        'nvidia-cublas-cu12==12.5.3.2; extra == "and-cuda"',
    ),
    runpath: str | None = "$ORIGIN/../nvidia/cublas/lib:$ORIGIN/../nvidia/cudnn/lib:$ORIGIN/../tensorrt",
    windows: bool = False,
    kernels: bytes = b"",
) -> bytes:
    """A wheel as TensorFlow's are, but for its size. `cuda` None is a wheel without code; with `kernels` its
    build_info.py names no version, as that of 2.22.0rc0."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        if cuda is not None:
            numbers = (f"64_{cuda.replace('.', '')}", "64_8") if windows else (cuda, "9")
            info = [("is_cuda_build", bool(cuda)), ("cuda_version", numbers[0]), ("cudnn_version", numbers[1])]
            info.append(("cuda_compute_capabilities", ["sm_60", "compute_90"]))
            info = info[:1] if kernels else info
            source = f"import collections\nbuild_info = collections.OrderedDict({info if cuda else info[:1]!r})\n"
            archive.writestr("tensorflow/python/platform/build_info.py", source)
            if runpath is not None:
                archive.writestr("tensorflow/libtensorflow_framework.so.2", made_up_library(runpath))
        if kernels:
            archive.writestr("tensorflow/libtensorflow_cc.so.2", kernels)
        lines = "".join(f"Requires-Dist: {each}\n" for each in requires)
        metadata = f"Metadata-Version: 2.1\nName: tensorflow\nVersion: {version}\nRequires-Python: >=3.9\n{lines}\n"
        archive.writestr(f"tensorflow-{version}.dist-info/METADATA", metadata)
    return content.getvalue()
