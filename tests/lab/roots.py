"""Changes to a made-up root: the files of a machine with GPUs and their driver, broken in one way each."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

from lab.place import Change, Place
from made_up_root import write

KERNEL = "6.8.0-48-generic"  # as made_up_root has it
_SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_OTHER_USER, _VIDEO_GROUP, _NVIDIA_MAJOR = 12345, 44, 195

# Commands to run the doctor under, for what the kernel alone can do to a root.
SMALL_SHM = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
             'mount -t tmpfs -o size=64m tmpfs "$0/dev/shm" && exec "$@"', "{root}")  # fmt: skip
# The kernel refuses devices on a file system mounted so, whatever their mode allows: EACCES, as from SELinux.
NO_DEVICES = ("unshare", "--mount", "sh", "-c",
              'mount --bind "$0/dev" "$0/dev" && mount -o remount,bind,nodev "$0/dev" && exec "$@"', "{root}")  # fmt: skip
ANOTHER_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000")


def having(path: str, text: str = "") -> Change:
    """A file, in the place of another if need be."""
    return lambda place: write(place.root, path, text)


def lacking(*patterns: str) -> Change:
    """Files and folders that are not there."""

    def change(place: Place) -> None:
        for path in [found for pattern in patterns for found in place.root.glob(pattern)]:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    return change


# What is left where the driver's module is not loaded is the GPU on the bus alone.
not_loaded = lacking("proc/driver", "sys/module/nvidia*", "dev/nvidia*", "sys/bus/pci/devices/*/driver")
without_gpu = lacking("proc/driver", "sys/module/nvidia*", "dev/nvidia*", "sys/bus/pci/devices/*")
without_nodes = lacking("dev/nvidia*")
in_docker = having(".dockerenv")
in_podman = having("run/.containerenv")
in_kubernetes = having("proc/1/cgroup", "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-4f1c.scope\n")
with_secure_boot = having(_SECURE_BOOT, "\6\0\0\0\1")


def bound_to(driver: str) -> Change:
    """The GPUs held by another kernel driver."""

    def change(place: Place) -> None:
        not_loaded(place)
        for folder in (f"sys/module/{driver}", f"sys/bus/pci/drivers/{driver}"):
            (place.root / folder).mkdir(parents=True)
        for device in (place.root / "sys/bus/pci/devices").iterdir():
            (device / "driver").symlink_to(f"../../drivers/{driver}")

    return change


def of_driver(version: str) -> Change:
    """The kernel module of another version."""
    return having(
        "proc/driver/nvidia/version", f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Mon Nov 1\n"
    )


def module_built_for(kernel: str) -> Change:
    return having(
        f"lib/modules/{kernel}/modules.dep", "updates/dkms/nvidia.ko.zst: kernel/drivers/video/video.ko.zst\n"
    )


def with_pci_device(address: str, vendor: str, device: str, class_code: str) -> Change:
    """One more device on the bus."""

    def change(place: Place) -> None:
        for name, value in (("vendor", vendor), ("device", device), ("class", class_code)):
            write(place.root, f"sys/bus/pci/devices/{address}/{name}", f"0x{value}\n")

    return change


def with_intel_gpu(place: Place) -> None:
    """The processor's own GPU, as most laptops and many desktops have one."""
    with_pci_device("0000:00:02.0", "8086", "9bc4", "030000")(place)


def with_nvswitch(place: Place) -> None:
    with_pci_device("0000:81:00.0", "10de", "22a3", "068000")(place)


def own_libcuda(place: Place) -> None:
    """The driver's own libcuda in the folder where Ubuntu keeps it; only its name and its place are looked at."""
    folder = place.root / "usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    (folder / "libcuda.so.550.54.15").write_bytes(b"\x7fELF")
    (folder / "libcuda.so.1").symlink_to("libcuda.so.550.54.15")


def nodes_for_group_video(place: Place) -> None:
    """Device nodes that their owner and the group video may open, nobody else."""
    for node in _nodes(place):
        os.chown(node, _OTHER_USER, _VIDEO_GROUP)
        node.chmod(0o660)


def nodes_that_refuse(place: Place) -> None:
    """Nodes of which `open` gives EPERM, as it does where a container's device rules forbid them: immutable files."""
    subprocess.run(["chattr", "+i", *map(str, _nodes(place))], check=True, capture_output=True)


def let_go(place: Place) -> None:
    """Immutable files made ordinary again, so that they can be deleted."""
    if nodes := [str(node) for node in _nodes(place) if node.is_file()]:
        subprocess.run(["chattr", "-i", *nodes], check=False, capture_output=True)


def real_nodes(place: Place) -> None:
    """Character devices in the place of the plain files."""
    for minor, node in enumerate(_nodes(place)):
        node.unlink()
        os.mknod(node, 0o020666, os.makedev(_NVIDIA_MAJOR, minor))
        node.chmod(0o666)


def _nodes(place: Place) -> list[pathlib.Path]:
    return sorted((place.root / "dev").glob("nvidia*"))
