"""The command on made-up machines whose kernel's log, bus and DKMS tree are files under a root."""

from __future__ import annotations

import pathlib
import shutil
import sys
import time
from typing import Any

from doctor_command import diagnose, make_target, run_doctor
from made_up_root import make_gpu_root, write

from tfgpu_doctor.model.facts import Facts, decode_facts

KERNEL = "6.8.0-48-generic"  # of made_up_root
DKMS = "var/lib/dkms/nvidia/535.129.03"


def kernel_says(root: pathlib.Path, *rows: tuple[float, str]) -> None:
    """Lines of /var/log/kern.log, of a machine that is up for 5000 s: ages in seconds, and messages."""
    write(root, "proc/uptime", "5000.00 39000.00\n")
    lines = [
        f"{time.strftime('%b %e %H:%M:%S', time.localtime(time.time() - age))} node17 kernel: [{5000 - age:12.6f}] {text}\n"
        for age, text in ((4999.0, f"Linux version {KERNEL}"), *rows, (2.0, "usb 1-1: new device"))
    ]
    write(root, "var/log/kern.log", "".join(lines))


def blackwell(root: pathlib.Path) -> pathlib.Path:
    """A machine with a GPU that the proprietary module does not drive."""
    make_gpu_root(root, driver="580.105.08")
    write(root, "sys/bus/pci/devices/0000:01:00.0/device", "0x2b85\n")
    return root


def first_cause(root: pathlib.Path) -> dict[str, Any]:
    """What the command names first, with a TensorFlow beside it that is no more than its name."""
    target = make_target(root.parent / "venv", "")
    document = diagnose("--quick", "--root", str(root), "--python", str(target))
    return document["causes"][0]  # type: ignore[no-any-return]


def recorded(root: pathlib.Path, tmp_path: pathlib.Path) -> Facts:
    record = tmp_path / "record.json"
    run_doctor("--quick", "--root", str(root), "--python", sys.executable, "--record", str(record))
    return decode_facts(record.read_bytes())


def test_the_log_under_a_root_names_the_cause(tmp_path: pathlib.Path) -> None:
    root = blackwell(tmp_path / "root")
    head = "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85)"
    kernel_says(
        root, (4990.0, f"{head}#012NVRM: installed in this system requires use of the NVIDIA open kernel modules.")
    )
    first = first_cause(root)
    assert (first["label"], first["id"], first["confidence"]) == ("driver_does_not_support_gpu", "DRV010", "high")
    assert any("requires use of the NVIDIA open kernel modules" in line for line in first["evidence"])


def test_the_number_of_the_gpu_names_it_where_there_is_no_log(tmp_path: pathlib.Path) -> None:
    first = first_cause(blackwell(tmp_path / "root"))
    assert (first["label"], first["confidence"]) == ("driver_does_not_support_gpu", "high")


def test_a_build_that_dkms_could_not_do_is_named_with_its_reason(tmp_path: pathlib.Path) -> None:
    root = make_gpu_root(tmp_path / "root")
    shutil.rmtree(root / "proc/driver")
    shutil.rmtree(root / "sys/module")
    write(root, "lib/modules/6.5.0-44-generic/modules.dep", "updates/dkms/nvidia.ko:\n")
    write(root, f"lib/modules/{KERNEL}/modules.dep", "")
    write(root, f"lib/modules/{KERNEL}/build/Makefile", "")
    (root / DKMS).mkdir(parents=True)
    (root / DKMS / "source").symlink_to("/usr/src/nvidia-535.129.03")
    log = f"DKMS (dkms-3.0.11) make.log for nvidia/535.129.03 for kernel {KERNEL} (x86_64)\nnv.c:1: error: no such member\n"
    write(root, f"{DKMS}/build/make.log", log)
    first = first_cause(root)
    assert (first["label"], first["id"]) == ("kernel_module_not_built_for_kernel", "DRV005")
    assert f"/{DKMS}/build/make.log: nv.c:1: error: no such member" in first["evidence"]
    assert "DKMS failed to build nvidia/535.129.03" in first["fix"]["text"]


def test_modules_that_an_upgrade_of_the_kernel_removed_need_a_restart(tmp_path: pathlib.Path) -> None:
    root = make_gpu_root(tmp_path / "root")
    for folder in ("proc/driver", "sys/module", f"lib/modules/{KERNEL}"):
        shutil.rmtree(root / folder, ignore_errors=True)
    write(root, "lib/modules/6.17.1-arch1-1/modules.dep", "extramodules/nvidia.ko.zst:\n")
    first = first_cause(root)
    assert (first["label"], first["id"]) == ("reboot_pending", "DRV011")
    assert f"/lib/modules/{KERNEL} holds no modules; 6.17.1-arch1-1 has the NVIDIA module" in first["evidence"]


def test_what_was_read_is_recorded(tmp_path: pathlib.Path) -> None:
    root = make_gpu_root(tmp_path / "root")
    kernel_says(root, (600.0, "NVRM: Xid (PCI:0000:01:00): 13, pid=1, name=python3, Graphics Exception"))
    write(root, "proc/1/comm", "systemd\n")
    write(root, "proc/801/comm", "nv-fabricmanage\n")
    device = "sys/bus/pci/devices/0000:01:00.0"
    write(root, f"{device}/current_link_width", "8\n")
    write(root, f"{device}/numa_node", "1\n")
    facts = recorded(root, tmp_path)
    assert facts.kernel_log and facts.services and facts.pci
    assert facts.kernel_log.source == "/var/log/kern.log"
    assert [(each.kind, each.code) for each in facts.kernel_log.messages] == [("xid", 13)]
    assert facts.services.running == ("nv-fabricmanager",)
    assert facts.pci.devices[0].numa_node == 1
    assert facts.pci.devices[0].link and facts.pci.devices[0].link.width == 8
