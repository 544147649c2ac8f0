"""The probe of limits: control groups of both versions under a made-up root, and those of real processes."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tfgpu_doctor.collect.probe import Unavailable
from tfgpu_doctor.collect.probes.limits import limits
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.limits import UNLIMITED, Limits, numbers_in

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

GIB = 1 << 30
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max stack size            8388608              unlimited            bytes     
Max processes             96365                96365                processes 
Max open files            1024                 1048576              files     
Max locked memory         8388608              8388608              bytes     
Max address space         unlimited            unlimited            bytes     
Max realtime timeout      unlimited            unlimited            us        
"""  # noqa: W291 - as the kernel writes it
STATUS = "Name:\tpython\nThreads:\t1\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8\nMems_allowed_list:\t0\n"
MOUNT_2 = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
ID = "8a3f0e6b2f1c4d5e"


def process(machine: Machine, groups: str = "0::/\n", mounts: str = MOUNT_2) -> None:
    """The files of /proc/self."""
    machine.file("/proc/self/limits", LIMITS)
    machine.file("/proc/self/status", STATUS)
    machine.file("/proc/self/cgroup", groups)
    machine.file("/proc/self/mountinfo", mounts)


def write(machine: Machine, folder: str, **files: str) -> None:
    """Files of a control group; the first _ of a name stands for the dot, as in memory_limit_in_bytes."""
    for name, content in files.items():
        machine.file(f"{folder}/{name.replace('_', '.', 1)}", content + "\n")


def test_resource_limits_are_the_soft_ones(machine: Machine) -> None:
    process(machine)
    found = machine.ask(limits)
    assert found.resources == {"nproc": 96365, "nofile": 1024, "memlock": 8 << 20, "as": UNLIMITED}
    assert (found.resource("nofile"), found.resource("as"), found.resource("stack")) == (1024, None, None)


def test_the_processors_are_those_of_the_affinity(machine: Machine) -> None:
    process(machine)
    found = machine.ask(limits)
    assert found.cpu_list == "0-3,8"
    assert found.cpus == {0, 1, 2, 3, 8}


@pytest.mark.parametrize(
    ("listed", "numbers"),
    [("0", {0}), ("0-2", {0, 1, 2}), ("1,3-4\n", {1, 3, 4}), ("", set()), ("a-b", set()), ("0-99999999999", set()), ("5-", {5})],
)  # fmt: skip
def test_a_list_of_the_kernels(listed: str, numbers: set[int]) -> None:
    assert numbers_in(listed) == numbers


@pytest.mark.parametrize("files", [{}, {"/proc/self/status": "", "/proc/self/limits": ""}])
def test_without_proc_there_are_no_limits_to_read(machine: Machine, files: dict[str, str]) -> None:
    for path, content in files.items():
        machine.file(path, content)
    with pytest.raises(Unavailable, match="Linux"):
        machine.ask(limits)


def test_nothing_is_limited_on_a_plain_host(machine: Machine) -> None:
    process(machine, "0::/user.slice/user-1000.slice/session-2.scope\n")
    write(machine, "/sys/fs/cgroup/user.slice", cpu_max="max 100000", memory_max="max", pids_max="max")
    found = machine.ask(limits)
    assert found.cgroup_version == 2
    assert (found.cpu_quota, found.memory_limit_bytes, found.tasks_limit) == (None, None, None)


# version 2


def test_a_container_in_a_namespace_of_version_2(machine: Machine) -> None:
    process(machine)
    write(
        machine, "/sys/fs/cgroup", cpu_max="400000 100000", cpu_stat="usage_usec 9\nnr_periods 86412\nnr_throttled 78630",
        memory_max=str(16 * GIB), memory_current=str(9 * GIB), memory_stat=f"anon 5\ninactive_file {2 * GIB}",
        memory_events="low 0\noom 3\noom_kill 2", pids_max="4096", pids_current="61",
    )  # fmt: skip
    found = machine.ask(limits)
    assert (found.cpu_quota, found.cpu_quota_group) == (4.0, "/sys/fs/cgroup")
    assert (found.cpu_periods, found.cpu_throttled_periods) == (86412, 78630)
    assert (found.memory_limit_bytes, found.memory_used_bytes, found.oom_kills) == (16 * GIB, 7 * GIB, 2)
    assert (found.tasks_limit, found.tasks_used) == (4096, 61)
    assert found.device_rules == ()


def test_the_tightest_of_the_groups_above_counts(machine: Machine) -> None:
    process(machine, "0::/system.slice/slurmd.service/job_7/step_0\n")
    write(machine, "/sys/fs/cgroup/system.slice/slurmd.service/job_7/step_0", cpu_max="max 100000", memory_max="max")
    write(machine, "/sys/fs/cgroup/system.slice/slurmd.service/job_7", cpu_max="250000 100000", memory_max=str(8 * GIB))
    write(machine, "/sys/fs/cgroup/system.slice", cpu_max="6400000 100000", memory_max=str(100 * GIB))
    found = machine.ask(limits)
    assert (found.cpu_quota, found.cpu_quota_group) == (2.5, "/sys/fs/cgroup/system.slice/slurmd.service/job_7")
    assert found.memory_limit_bytes == 8 * GIB


def test_a_group_outside_of_what_is_mounted_is_read_at_the_mount(machine: Machine) -> None:
    process(machine, "0::/../../other\n")
    write(machine, "/sys/fs/cgroup", cpu_max="100000 100000")
    assert machine.ask(limits).cpu_quota == 1.0


# version 1


V1_MOUNTS = "".join(
    f"{40 + number} 31 0:{number} /docker/{ID} /sys/fs/cgroup/{names} rw - cgroup cgroup rw,{names}\n"
    for number, names in enumerate(("cpu,cpuacct", "memory", "pids", "devices"))
)
V1_GROUPS = "".join(
    f"{9 - number}:{names}:/docker/{ID}\n" for number, names in enumerate(("cpu,cpuacct", "memory", "pids", "devices"))
)


def test_a_container_of_version_1_without_a_namespace(machine: Machine) -> None:
    """Docker mounts the container's own group at the top, and /proc/self/cgroup names the host's path."""
    process(machine, V1_GROUPS, V1_MOUNTS)
    write(
        machine,
        "/sys/fs/cgroup/cpu,cpuacct",
        cpu_cfs_quota_us="50000",
        cpu_cfs_period_us="100000",
        cpu_stat="nr_periods 131\nnr_throttled 118",
    )
    write(machine, "/sys/fs/cgroup/memory", memory_limit_in_bytes=str(GIB), memory_usage_in_bytes=str(GIB // 2),
          memory_stat="total_inactive_file 100", memory_oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 1")  # fmt: skip
    write(machine, "/sys/fs/cgroup/pids", pids_max="100", pids_current="42")
    write(machine, "/sys/fs/cgroup/devices", devices_list="c 1:3 rwm\nc 195:* rw")
    found = machine.ask(limits)
    assert found.cgroup_version == 1
    assert (found.cpu_quota, found.cpu_periods, found.cpu_throttled_periods) == (0.5, 131, 118)
    assert (found.memory_limit_bytes, found.memory_used_bytes, found.oom_kills) == (GIB, GIB // 2 - 100, 1)
    assert (found.tasks_limit, found.tasks_used) == (100, 42)
    assert found.device_rules == ("c 1:3 rwm", "c 195:* rw")


def test_no_limit_of_version_1_is_a_large_number(machine: Machine) -> None:
    process(machine, "4:memory:/\n1:cpu:/\n", "")
    write(machine, "/sys/fs/cgroup/memory", memory_limit_in_bytes="9223372036854771712")
    write(machine, "/sys/fs/cgroup/cpu", cpu_cfs_quota_us="-1", cpu_cfs_period_us="100000")
    found = machine.ask(limits)
    assert (found.cpu_quota, found.memory_limit_bytes) == (None, None)


def test_controllers_of_both_versions_stand_side_by_side(machine: Machine) -> None:
    mounts = "36 31 0:35 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    process(machine, "4:memory:/box\n0::/box\n", mounts)
    write(machine, "/sys/fs/cgroup/memory/box", memory_limit_in_bytes=str(GIB))
    write(machine, "/sys/fs/cgroup/unified/box", cpu_max="300000 100000", pids_max="50")
    found = machine.ask(limits)
    assert (found.memory_limit_bytes, found.cpu_quota, found.tasks_limit) == (GIB, 3.0, 50)
    assert found.tasks_used is None


@pytest.mark.parametrize("junk", ["", "\0\xff", "max", "-1 -1", "1 0", "lots of 100000", "99999999999999999999999999"])
def test_files_that_say_nothing_limit_nothing(machine: Machine, junk: str) -> None:
    process(machine, "0::/\njunk\n:::\n4:memory\n", MOUNT_2 + "no mount at all\n - \n")
    write(machine, "/sys/fs/cgroup", cpu_max=junk, cpu_stat=junk, pids_current=junk)
    found = machine.ask(limits)
    assert (found.cpu_quota, found.tasks_limit) == (None, None)


# real processes

REPORT = """
import sys
from tfgpu_doctor.model.facts import encode_facts, Facts
from tfgpu_doctor.host import Host
from tfgpu_doctor.collect.probes.limits import limits
sys.stdout.buffer.write(encode_facts(Facts(limits=limits.function(Host()))))
"""
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="limits are read on Linux alone")


def seen_by(*before: str, **how: Any) -> Limits:
    """What a process sees of its own limits that was started by those words."""
    from tfgpu_doctor.model.facts import decode_facts

    done = subprocess.run([*before, sys.executable, "-c", REPORT], capture_output=True, check=True, **how)
    found = decode_facts(done.stdout).limits
    assert found is not None
    return found


@on_linux
def test_this_machine_is_looked_at() -> None:
    found = limits.function(host=Host())
    assert found.cpus == os.sched_getaffinity(0)
    assert set(found.resources) == {"as", "memlock", "nofile", "nproc"}


@on_linux
def test_limits_of_a_real_process() -> None:
    import resource

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        resource.setrlimit(resource.RLIMIT_NOFILE, (250, 250))

    found = seen_by(preexec_fn=lower)
    assert (found.resource("as"), found.resource("nofile")) == (3 << 30, 250)


@on_linux
def test_the_affinity_of_a_real_process() -> None:
    one = min(os.sched_getaffinity(0))
    found = seen_by(preexec_fn=lambda: os.sched_setaffinity(0, {one}))
    assert found.cpus == {one}


@pytest.fixture
def group(tmp_path: pathlib.Path) -> Iterator[dict[str, pathlib.Path]]:
    """A real control group of version 1 for each controller; skips where none may be made."""
    made: dict[str, pathlib.Path] = {}
    try:
        for controller in ("cpu", "memory", "pids"):
            folder = pathlib.Path("/sys/fs/cgroup", controller, f"tfgpu-doctor-{os.getpid()}")
            if not (folder.parent / "cgroup.procs").exists():
                pytest.skip("there are no control groups of version 1")
            folder.mkdir()
            made[controller] = folder
        yield made
    except OSError:
        pytest.skip("no control group may be made here")
    finally:
        for folder in made.values():
            folder.rmdir()


@on_linux
def test_the_control_groups_of_a_real_process(group: dict[str, pathlib.Path]) -> None:
    (group["cpu"] / "cpu.cfs_quota_us").write_text("150000")
    (group["memory"] / "memory.limit_in_bytes").write_text(str(1 << 30))
    (group["pids"] / "pids.max").write_text("33")

    def enter() -> None:
        for folder in group.values():
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    found = seen_by(preexec_fn=enter)
    assert found.cgroup_version == 1
    assert (found.cpu_quota, found.cpu_quota_group) == (1.5, str(group["cpu"]))
    assert found.memory_limit_bytes == 1 << 30
    assert found.memory_used_bytes is not None
    assert 0 < found.memory_used_bytes < 1 << 30
    assert (found.tasks_limit, found.oom_kills) == (33, 0)
    assert found.tasks_used
