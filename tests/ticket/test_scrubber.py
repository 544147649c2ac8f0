"""What texts, paths and names become, and what they keep."""

from __future__ import annotations

import pathlib

import pytest
from healthy import runtime

from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.nvidia import DeviceNode, DeviceNodes, GpuProcess, Nvml, NvmlGpu
from tfgpu_doctor.model.facts.python import Target
from tfgpu_doctor.ticket.identity import Identity, told_by_machine
from tfgpu_doctor.ticket.scrub import Scrub
from tfgpu_doctor.ticket.vocabulary import _words

ANSWERED = Attempt(outcome="answered")


def scrub(text: str, *, users: tuple[str, ...] = (), hosts: tuple[str, ...] = ()) -> str:
    return Scrub(Facts(), Identity(frozenset(users), frozenset(hosts))).text(text)


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-21 10:11:12.123456: E external/local_xla/xla/stream_executor/cuda/cuda_platform.cc:51] failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
        "W0000 00:00:1739677334.594935    1234 gpu_device.cc:2344] Cannot dlopen some GPU libraries. Please make sure the missing libraries mentioned above are installed properly",
        "Could not load dynamic library 'libcudnn.so.8'; dlerror: libcudnn.so.8: cannot open shared object file: No such file or directory",
        "kernel version 470.82.1 does not match DSO version 470.103.1 -- cannot find working devices in this configuration",
        "NVRM: Xid (PCI:0000:01:00): 79, pid=1234, name=python3, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:000F:A1:00): 48, pid=17, DBE (double bit error) ECC Error",
        "NVRM: Xid (PCI:0000:01:00): 31, pid=1, name=python3, Ch 00000010, intr 10000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f3c_2a000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
        "NVRM: The NVIDIA GPU 0000:5d:00.0 (PCI ID: 10de:2330) installed in this system has fallen off the bus and is not responding to commands.",
        "undefined symbol: _ZN10tensorflow8OpKernel11TraceStringERKNS_15OpKernelContextEb",
        "tensorflow[and-cuda]==2.20.0 needs nvidia-cudnn-cu12<10.0,>=9.3.0.75, found nvidia-cudnn-cu12 9.28.0.42",
        "Created device /job:localhost/replica:0/task:0/device:GPU:0 with 22018 MB memory:  -> device: 0, name: NVIDIA GeForce RTX 3090, pci bus id: 0000:01:00.0, compute capability: 8.6",
        "tf-nightly 2.21.0.dev20250729 on Python 3.12.7, glibc 2.39, driver 550.54.15, CUDA 12.4",
        "see https://www.tensorflow.org/install/gpu",
        "the host driver is older than the container's",
        "mkdir -p /opt/cuda/lib64",
        "the SDK of this DGX, and MPI",
        "memory-1234567 and loss_2024_123",
    ],
)
def test_what_a_diagnosis_needs_stays(line: str) -> None:
    assert scrub(line) == line


@pytest.mark.parametrize(
    ("path", "shared"),
    [
        ("/home/anna/venv/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9",
         "/home/<user-1>/venv/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9"),
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15", "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15"),
        ("/Users/anna/miniconda3/envs/kestrel/bin/python3.11", "/Users/<user-1>/miniconda3/envs/<name-1>/bin/python3.11"),
        ("/srv/kestrel/kestrel/train.py", "/srv/<name-1>/<name-1>/train.py"),
        ("/usr/local/cuda-12.4/lib64", "/usr/local/cuda-12.4/lib64"),
        ("/opt/Anna Meier/kestrel.ipynb", "/opt/<name-1>/<name-2>.ipynb"),
    ],
)  # fmt: skip
def test_paths_keep_their_structure(path: str, shared: str) -> None:
    facts = Scrub(Facts(target=Target(attempt=ANSWERED, working_folder=path))).facts
    assert facts.target is not None
    assert facts.target.working_folder == shared


def test_the_same_value_becomes_the_same_everywhere() -> None:
    processes = (GpuProcess(pid=1, name="/home/kestrel/venv/bin/python", user="kestrel"),)
    facts = Facts(
        environment=Environment(variables={"VIRTUAL_ENV": "/home/kestrel/venv"}),
        nvml=Nvml(attempt=ANSWERED, gpus=(NvmlGpu(index=0, uuid="GPU-3f6f3a5e-1111-2222-3333-444455556666", processes=processes),)),
    )  # fmt: skip
    scrubbed = Scrub(facts)
    assert scrubbed.facts.environment == Environment(variables={"VIRTUAL_ENV": "/home/<user-1>/venv"})
    assert scrubbed.facts.nvml is not None
    assert scrubbed.facts.nvml.gpus[0].processes[0].user == "<user-1>"
    assert scrubbed.text("KESTREL ran on GPU-3f6f3a5e-1111-2222-3333-444455556666 and GPU-3f6f3a5e") == (
        "<user-1> ran on GPU-<uuid-1> and GPU-<uuid-1>"
    )


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("/scratch/4917264/lib", "/scratch/<job-1>/lib"),
        ("/tmp/slurm/77/lib", "/tmp/slurm/<job-1>/lib"),
        ("/scratch/lib/4917264/lib", "/scratch/lib/<id-1>/lib"),
        ("/srv/4917264/lib", "/srv/<id-1>/lib"),
        ("/srv/4917/lib", "/srv/4917/lib"),
        ("/opt/cuda/12/lib64", "/opt/cuda/12/lib64"),
    ],
)
def test_a_number_in_a_path_is_a_job_only_where_jobs_have_their_folders(text: str, shared: str) -> None:
    assert scrub(text) == shared


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("/usr/lib/python3/dist-packages/numpy/failed/kestrel.py", "/usr/lib/python3/dist-packages/numpy/failed/<name-1>.py"),
        ("/usr/lib/python3/dist-packages/failed/answer/lib", "/usr/lib/python3/dist-packages/<package-1>/<name-1>/lib"),
        ("/opt/lib/python3.12/site-packages/failed/failed.py", "/opt/lib/python3.12/site-packages/<package-1>/failed.py"),
        ("/opt/lib/python3.12/site-packages/kestrel/lib", "/opt/lib/python3.12/site-packages/<package-1>/lib"),
    ],
)  # fmt: skip
def test_a_package_that_is_not_public_goes_even_if_its_name_is_a_word(text: str, shared: str) -> None:
    assert scrub(text) == shared


def test_a_word_with_more_than_seven_digits_goes() -> None:
    assert scrub("memory-1234567 memory-12345678 loss_2024_1234") == "memory-1234567 <text-1> <text-2>"


def test_the_words_of_a_table_have_three_letters_unless_they_are_listed() -> None:
    text = "GSP abc of cuInitZq"
    assert set(_words(text, frozenset())) == {"gsp", "cuinitzq", "init"}
    assert set(_words(text, frozenset({"abc", "zq"}))) == {"gsp", "abc", "cuinitzq", "init", "zq"}


def test_names_of_this_machine_go_even_if_they_are_words() -> None:
    text = "anna@tower: memory of tower.example.org is full, asked by max (Max) in /data/max"
    assert scrub(text, users=("anna", "max"), hosts=("tower", "tower.example.org")) == (
        "<user-2>@<host-1>: memory of <host-2> is full, asked by <user-1> (<user-1>) in /data/<user-1>"
    )


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("kim@dgx04 and again dgx04", "<user-1>@<host-1> and again <host-1>"),
        ("running on this host gpu17: no driver", "running on this host <host-1>: no driver"),
        ("copied from gpu-node-17 to login2", "copied from <host-1> to <host-2>"),
        ("hostname=kestrel", "hostname=<host-1>"),
        ("host memory, host driver, host 0", "host memory, host driver, host 0"),
        ("GPU0 and cuda12 on hbm3", "GPU0 and cuda12 on hbm3"),
    ],
)
def test_hosts_with_numbers_go(text: str, shared: str) -> None:
    assert scrub(text) == shared


def test_an_address_is_the_same_with_the_length_of_its_network() -> None:
    assert scrub("10.1.2.3/24, then 10.1.2.3 and 10.1.2.4/24") == "<ip-1>, then <ip-1> and <ip-2>"


def test_a_user_named_like_a_library_costs_no_diagnosis() -> None:
    assert scrub("nvidia-smi found no NVIDIA driver", users=("nvidia", "driver")) == "nvidia-smi found no NVIDIA driver"


def test_a_machine_tells_its_names(tmp_path: pathlib.Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hostname").write_text("kestrel-07\n")
    (tmp_path / "etc/hosts").write_text("127.0.1.1 kestrel-07.lab.example.org kestrel-07\n::1 ip6-localhost\n")
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nanna:x:1000:1000::/srv/people/meier:/bin/sh\n")
    told = told_by_machine(Host(str(tmp_path), environment={"USER": "kim", "HOME": "/home/kim.lee"}))
    assert told.users == {"kim", "kim.lee", "anna", "meier"}
    assert told.hosts == {"kestrel-07", "kestrel-07.lab.example.org"}


def test_a_machine_tells_the_names_in_accounts_that_lack_a_shell(tmp_path: pathlib.Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("anna:x:1000:1000::/srv/people/meier\nmax:x:1001:1001:\nlee:x:1002\n")
    assert told_by_machine(Host(str(tmp_path), environment={})).users == {"anna", "meier"}


def test_a_list_of_advertisers_is_no_list_of_names(tmp_path: pathlib.Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hosts").write_text("".join(f"0.0.0.0 memory{n}.example.com\n" for n in range(5000)))
    assert told_by_machine(Host(str(tmp_path), environment={})).hosts == frozenset()


def test_variables_that_are_on_no_list_are_left_out() -> None:
    variables = {"CUDA_VISIBLE_DEVICES": "0", "ACME_DEPLOY": "x", "AWS_SECRET_ACCESS_KEY": "y"}
    scrubbed = Scrub(Facts(environment=Environment(variables=variables)))
    assert scrubbed.facts.environment == Environment(variables={"CUDA_VISIBLE_DEVICES": "0"})
    assert scrubbed.left_out == {"environment variables that are on no list": 2}


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("connect to 203.0.113.7:2222 failed", "connect to <ip-1>:2222 failed"),
        ("worker 172.16.254.1 and worker 10.1.2.3, then 172.16.254.1", "worker <ip-1> and worker <ip-2>, then <ip-1>"),
        ("bound to 0.0.0.0 and 127.0.0.1", "bound to 0.0.0.0 and 127.0.0.1"),
    ],
)
def test_addresses_of_machines_go(text: str, shared: str) -> None:
    assert scrub(text) == shared


def test_a_name_of_the_shortest_length_goes() -> None:
    assert scrub("logged in as ali", users=("ali",)) == "logged in as <user-1>"


@pytest.mark.parametrize(
    ("name", "shared"),
    [
        ("TF2_GPU_MEMORY", "TF2_GPU_MEMORY"),
        ("TF_GPU_MEMORY_LIMIT", "TF_GPU_MEMORY_LIMIT"),
        ("TF_XLA_KESTREL", "<variable-1>"),
        ("ANNA_GPU_MEMORY", "<variable-1>"),
    ],
)
def test_a_variable_of_tensorflow_stays_if_all_its_words_are_known(name: str, shared: str) -> None:
    assert Scrub(Facts())._scrubber.variable(name) == shared


def test_numbers_of_people_are_given_anew() -> None:
    node = DeviceNode(path="/dev/nvidia0", mode="0660", uid=0, gid=44)
    own = DeviceNode(path="/dev/nvidia1", mode="0660", uid=204711, gid=204712)
    facts = Facts(device_nodes=DeviceNodes(nodes=(node, own), uid=204711, groups=(44, 204712, 65534)))
    scrubbed = Scrub(facts).facts.device_nodes
    assert scrubbed is not None
    assert scrubbed.nodes[0] == node
    assert (scrubbed.nodes[1].uid, scrubbed.uid, scrubbed.groups) == (1000, 1000, (44, 1001, 65534))


def test_each_replacement_counts_once() -> None:
    """The facts are read once for their names, and once to replace them: the ticket tells of the second alone."""
    facts = Facts(target=Target(attempt=ANSWERED, working_folder="/home/anna/kestrel"))
    (user, *more) = [each for each in Scrub(facts).replaced if each.kind == "user"]
    assert (user.values, user.times, more) == (1, 1, [])


@pytest.mark.parametrize(
    ("url", "shared"),
    [
        ("postgres://kestrel.corp/db", "postgres://<url-1>"),
        ("kestrel://corp/db", "<url-1>"),  # a scheme of somebody's own is a name
    ],
)
def test_a_scheme_stays_if_it_is_a_common_one(url: str, shared: str) -> None:
    assert scrub(f"see {url}") == f"see {shared}"


def test_stand_ins_of_an_earlier_ticket_are_not_given_away_again() -> None:
    facts = Facts(target=Target(attempt=ANSWERED, working_folder="/home/<user-1>/kestrel"))
    scrubbed = Scrub(facts)
    assert scrubbed.facts.target is not None
    assert scrubbed.facts.target.working_folder == "/home/<user-1>/<name-1>"
    assert scrubbed.text("/home/anna") == "/home/<user-2>"


def test_of_a_long_output_both_ends_stay_and_what_is_left_out_is_counted() -> None:
    log = tuple(f"step {number}" for number in range(450))
    scrubbed = Scrub(Facts(runtime=runtime(log=log)))
    assert scrubbed.facts.runtime is not None
    assert scrubbed.facts.runtime.log == (*log[:200], *log[-200:])
    assert scrubbed.left_out == {"lines of long outputs": 50}
