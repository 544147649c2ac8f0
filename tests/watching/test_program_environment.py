"""What a program's variables say: its partners in a job; and files of /proc that cannot be read."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tfgpu_doctor.host import Host
from tfgpu_doctor.watching.program_environment import cluster_size, job_size, variables_of, visible_gpus

CLUSTER = '{"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}}'


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="there is no /proc")
def test_the_variables_of_a_process_are_read() -> None:
    code = "print(flush=True); input()"
    variables = {"PATH": "/bin", "SLURM_NTASKS": "4", "ODD": "a=b\n"}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        found = variables_of(Host().files, program.pid)
        program.kill()
    assert variables.items() <= found.items()


def test_of_a_process_that_is_gone_nothing_is_known(tmp_path: pathlib.Path) -> None:
    assert variables_of(Host(root=str(tmp_path)).files, 9) == {}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ("", 0)),
        ({"OMPI_COMM_WORLD_SIZE": "4"}, ("OMPI_COMM_WORLD_SIZE", 4)),
        ({"HOROVOD_SIZE": "2"}, ("HOROVOD_SIZE", 2)),
        ({"PMI_SIZE": "16"}, ("PMI_SIZE", 16)),
        ({"SLURM_NTASKS": "8"}, ("SLURM_NTASKS", 8)),
        ({"SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "1"}, ("", 0)),  # srun -n1 within a larger job
        ({"SLURM_NTASKS": "1"}, ("", 0)),
        ({"HOROVOD_SIZE": "many"}, ("", 0)),
    ],
)
def test_how_many_processes_a_job_has(variables: dict[str, str], expected: tuple[str, int]) -> None:
    assert job_size(variables) == expected


@pytest.mark.parametrize(("text", "count"), [(CLUSTER, 3), ("", 0), ("{", 0), ("[]", 0), ('{"cluster": 3}', 0)])
def test_how_many_workers_a_cluster_has(text: str, count: int) -> None:
    assert cluster_size({"TF_CONFIG": text}) == count


def test_of_unlike_gpus_a_number_names_none() -> None:
    """CUDA counts the fastest first, NVML by the place on the bus."""
    alike, unlike = {0: ("A", "GPU-a"), 1: ("A", "GPU-b")}, {0: ("A", "GPU-a"), 1: ("B", "GPU-b")}
    assert visible_gpus(["1"], alike) == {0: False, 1: True}
    assert visible_gpus(["1"], unlike) == {0: None, 1: None}
    assert visible_gpus(["GPU-b"], unlike) == {0: False, 1: True}
    assert visible_gpus(["-1"], unlike) == {0: False, 1: False}
