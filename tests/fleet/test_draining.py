"""Which causes take a node out of service, and how many nodes may leave in an hour."""

from __future__ import annotations

import concurrent.futures
import errno
import json
import multiprocessing
import os
import pathlib
import resource
import time

import pytest
from doctor_command import run_doctor

from tfgpu_doctor.fleet.draining import Drains, reason_to_drain
from tfgpu_doctor.fleet.node import Cause, NodeReport, encode_node
from tfgpu_doctor.knowledge import read_knowledge

CAUSES = read_knowledge().causes
# What a node's administrator must repair: its hardware, its driver, and what the driver needs.
OWN = {
    "driver_does_not_support_gpu", "driver_library_version_mismatch", "fabric_manager_not_running", "gpu_hang", "gpu_lost",
    "gpu_reset_required", "gpu_start_failed", "gsp_firmware_not_loaded", "hardware_ecc_error", "hardware_faulty_gpu",
    "hardware_power_supply", "kernel_module_not_built_for_kernel", "multi_gpu_p2p_iommu_acs", "no_nvidia_driver", "nouveau_loaded",
    "nvidia_uvm_missing", "nvlink_down", "nvswitch_fault", "reboot_pending", "secure_boot_blocks_module",
    "uvm_broken_after_suspend",
}  # fmt: skip
# Of the labels that make a machine unfit: a licence server that is away is one fault, not one of each node.
NOT_OWN = {"vgpu_unlicensed"}


# Of those, what lies in a board itself. A reset mends gpu_reset_required, a cable or a supply hardware_power_supply.
OF_A_BOARD = {
    "gpu_hang", "gpu_lost", "gpu_start_failed", "hardware_ecc_error", "hardware_faulty_gpu", "nvlink_down", "nvswitch_fault",
}  # fmt: skip


def cause(label: str, severity: str = "error", title: str = "what was found") -> Cause:
    return Cause(label=label, id="TST001", title=title, severity=severity)  # type: ignore[arg-type]


def test_the_causes_of_the_node_itself() -> None:
    assert {label for label, row in CAUSES.items() if row.drains} == OWN
    assert {label for label, row in CAUSES.items() if row.unfit} - OWN == NOT_OWN


def test_what_a_vendor_may_take_back_is_an_error_of_the_node_that_makes_it_unfit() -> None:
    assert {label for label, row in CAUSES.items() if row.returns} == OF_A_BOARD
    assert all(CAUSES[label].drains and CAUSES[label].unfit for label in OF_A_BOARD)


def test_a_reason_names_the_nodes_own_errors_alone() -> None:
    found = [
        cause("pip_without_and_cuda_extra"),
        cause("nvlink_down", "warning"),
        cause("gpu_lost", title="GPU 3 $(id)\n'is' lost"),
    ]
    assert reason_to_drain(found, read_knowledge()) == "tfgpu-doctor: gpu_lost (TST001): GPU 3 (id) is lost"
    for other in ("undetermined", "no_such_label", "scheduler_did_not_grant_gpu", "gpu_kernel_fault"):
        assert reason_to_drain([cause(other)], read_knowledge()) == ""
    assert len(reason_to_drain([cause("gpu_lost", title="long " * 100)], read_knowledge())) == 200


def test_the_limit_holds_for_an_hour(tmp_path: pathlib.Path) -> None:
    drains, now = Drains(str(tmp_path)), time.time()
    assert [drains.take_place(node, "why", 2, now) for node in ("a", "b")] == [[], []]
    assert drains.take_place("c", "why", 2, now) == ["a", "b"]
    assert drains.take_place("a", "why", 2, now) == []  # its own place
    assert drains.take_place("c", "why", 3, now) == []
    assert drains.take_place("d", "why", 3, now + 3500) == ["a", "b", "c"]
    assert drains.take_place("d", "why", 2, now + 3700) == []
    records = [json.loads(path.read_text()) for path in sorted((tmp_path / "drained").iterdir())]
    assert [(each["node"], each["reason"]) for each in records] == [(node, "why") for node in "abcd"]


def test_a_record_that_was_cut_short_or_removed(tmp_path: pathlib.Path) -> None:
    drains, now = Drains(str(tmp_path)), time.time()
    assert drains.take_place("a", "why", 1, now) == []
    (tmp_path / "drained/000001.json").write_text("")  # the node died
    assert drains.take_place("b", "why", 1, now) == ["an unknown node"]
    (tmp_path / "drained/000001.json").unlink()
    assert drains.take_place("b", "why", 1, now) == []


class StaleDrains(Drains):
    """A node whose file system still shows an old list of the folder, as NFS may for a minute."""

    def _last(self) -> int:
        return 0


@pytest.mark.parametrize("links", [True, False])
def test_a_node_that_sees_an_old_list_takes_no_place_of_another(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", no_link)
    now = time.time()
    found = [StaleDrains(str(tmp_path)).take_place(node, "why", 2, now) for node in "abcd"]
    assert found == [[], [], ["a", "b"], ["a", "b"]]
    records = [json.loads(path.read_text()) for path in sorted((tmp_path / "drained").iterdir())]
    assert [each["node"] for each in records] == ["a", "b"]


def no_link(_part: str, path: str) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted", path)


def test_a_place_is_taken_with_its_whole_content(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is about to take one holds none, and another that finds it taken can read who has it."""
    now, link = time.time(), os.link

    def another_is_faster(part: str, path: str) -> None:
        monkeypatch.setattr(os, "link", link)
        assert not os.path.exists(path)
        assert Drains(str(tmp_path)).take_place("b", "why", 1, now) == []
        link(part, path)

    monkeypatch.setattr(os, "link", another_is_faster)
    assert Drains(str(tmp_path)).take_place("a", "why", 1, now) == ["b"]
    assert [path.name for path in (tmp_path / "drained").iterdir()] == ["000001.json"]


def test_a_full_disk_takes_no_place(tmp_path: pathlib.Path) -> None:
    drains, now = Drains(str(tmp_path)), time.time()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            drains.take_place("a", "why", 1, now)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list((tmp_path / "drained").iterdir()) == []
    assert drains.take_place("b", "why", 1, now) == []


def take_at(start_s: float, out: str, node: str) -> bool:
    """As one node, in a process of its own, at a moment that all nodes share."""
    while time.time() < start_s:
        pass
    return Drains(out).take_place(node, "why", 3, time.time()) == []


def test_nodes_that_ask_at_once_share_the_places(tmp_path: pathlib.Path) -> None:
    nodes = [f"n{place}" for place in range(12)]
    forks = multiprocessing.get_context("fork")  # the default from Python 3.14 on, forkserver, leaves a process behind
    with concurrent.futures.ProcessPoolExecutor(len(nodes), forks) as pool:
        for turn in range(5):
            out = str(tmp_path / str(turn))
            start_s = time.time() + 0.2
            found = [pool.submit(take_at, start_s, out, node) for node in nodes]
            assert sum(each.result() for each in found) == 3
            assert len(list((tmp_path / str(turn) / "drained").iterdir())) == 3


def test_the_command(tmp_path: pathlib.Path) -> None:
    def drains(*causes: Cause, options: tuple[str, ...] = ()) -> tuple[int, str]:
        document = encode_node(NodeReport(node="n1", outcome="reported", exit_code=1, causes=causes))
        (tmp_path / "n1.json").write_bytes(document)
        done = run_doctor("fleet", "drains", "--out", str(tmp_path), "--name", "n1", *options)
        return done.returncode, done.stdout

    code, said = drains(cause("wrong_python_environment"))
    assert (code, "nothing that was found lies in" in said) == (1, True)
    dry = drains(cause("gpu_lost"), options=("--dry-run",))
    assert dry == (0, "tfgpu-doctor: gpu_lost (TST001): what was found\n")
    assert not (tmp_path / "drained").exists()
    assert drains(cause("gpu_lost")) == dry
    assert len(list((tmp_path / "drained").iterdir())) == 1


def test_without_a_report_there_is_no_verdict(tmp_path: pathlib.Path) -> None:
    done = run_doctor("fleet", "drains", "--out", str(tmp_path), "--name", "n1")
    assert (done.returncode, done.stdout) == (2, "")
    (tmp_path / "n1.json").write_text("{")
    assert run_doctor("fleet", "drains", "--out", str(tmp_path), "--name", "n1").returncode == 2
    (tmp_path / "n1.json").write_bytes(
        encode_node(NodeReport(node="n1", outcome="reported", causes=(cause("gpu_lost"),)))
    )
    (tmp_path / "drained").write_text("a file where the folder belongs")
    done = run_doctor("fleet", "drains", "--out", str(tmp_path), "--name", "n1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "drained cannot be written" in done.stderr
