"""A made-up machine as a folder for --root: the files of a Linux machine with NVIDIA GPUs and their driver."""

from __future__ import annotations

import pathlib


def write(root: pathlib.Path, path: str, text: str) -> None:
    """A file with its folders."""
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def make_gpu_root(root: pathlib.Path, *, gpus: int = 1, driver: str = "550.54.15") -> pathlib.Path:
    """GPUs on the PCI bus, the driver's module loaded, every device node there and open to all."""
    for index in range(gpus):
        device = f"sys/bus/pci/devices/0000:0{index + 1}:00.0"
        write(root, f"{device}/vendor", "0x10de\n")
        write(root, f"{device}/device", "0x2204\n")
        write(root, f"{device}/class", "0x030000\n")
        (root / "sys/bus/pci/drivers/nvidia").mkdir(parents=True, exist_ok=True)
        (root / device / "driver").symlink_to("../../drivers/nvidia")
        (root / f"proc/driver/nvidia/gpus/0000:0{index + 1}:00.0").mkdir(parents=True)
        write(root, f"dev/nvidia{index}", "")
    kernel = "6.8.0-48-generic"
    write(root, "proc/sys/kernel/osrelease", kernel)
    write(root, "proc/version", f"Linux version {kernel}")
    write(
        root, "proc/cpuinfo", "processor\t: 0\nmodel name\t: Made-up CPU\nflags\t\t: fpu sse4_1 sse4_2 avx avx2 fma\n"
    )
    write(root, "etc/os-release", 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\n')
    write(
        root,
        "proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Tue Mar  5 22:23:56 UTC 2024\n",
    )
    for module in ("nvidia", "nvidia_uvm", "nvidia_modeset"):
        (root / "sys/module" / module).mkdir(parents=True)
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-modeset"):
        write(root, f"dev/{name}", "")
    (root / "dev/shm").mkdir()
    return root
