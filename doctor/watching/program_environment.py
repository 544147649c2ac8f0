"""The variables with which the program's processes were started, from /proc, and what they say of its GPUs and partners.

What a program sets for itself later is not seen. Sources: proc_pid_environ(5), and for CUDA_VISIBLE_DEVICES
https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars (read 2026-11-24).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfgpu_doctor.host import Files
from tfgpu_doctor.host.json_text import read_json
from tfgpu_doctor.watching.thread_states import read_now

_MOST_BYTES = 2 << 20
# How many processes a job has. SLURM counts for the whole job where the step does not; that alone is a hint.
# https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html, https://slurm.schedmd.com/srun.html,
# https://horovod.readthedocs.io/en/stable/ (HOROVOD_SIZE is set by horovodrun's Gloo); read 2026-11-24
_SIZES = ("OMPI_COMM_WORLD_SIZE", "HOROVOD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")


def variables_of(files: Files, pid: int) -> dict[str, str]:
    """The environment of a process at its start; empty if it is gone or unreadable."""
    rows = (row.partition(b"=") for row in read_now(files, f"/proc/{pid}/environ", _MOST_BYTES).split(b"\0"))
    return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, sign, value in rows if sign}


def visible_gpus(values: Sequence[str | None], names: Mapping[int, tuple[str, str]]) -> dict[int, bool | None]:
    """For each GPU whether the program sees it; `values` has the variable of each process (None: not set), `names` each
    GPU's name and UUID.

    A launcher may lack the variable that its child has, and a worker that only reads data may hide all GPUs.
    """
    unknown: dict[int, bool | None] = dict.fromkeys(names)
    shown = [_listed(value, names) for value in values if value is not None]
    known = [each for each in shown if each is not None]
    if len(known) < len(shown) or not known:
        return unknown
    seen = set().union(*known)
    if not seen and None in values:
        return unknown
    return {index: index in seen for index in names}


def _listed(value: str, names: Mapping[int, tuple[str, str]]) -> set[int] | None:
    """The GPUs that the variable lists, up to the first that is none; None if it names parts of GPUs."""
    found: set[int] = set()
    for word in (each.strip() for each in value.split(",")):
        if word.startswith("MIG-"):
            return None
        if word.isdecimal():
            matches = [index for index in names if index == int(word)]
        else:
            matches = [index for index, (_, uuid) in names.items() if word and uuid.startswith(word)]
        if len(matches) != 1:
            break
        found.update(matches)
    # CUDA counts the fastest first unless CUDA_DEVICE_ORDER says otherwise: of unlike GPUs a number names none for sure.
    numbers = any(word.strip().isdecimal() for word in value.split(","))
    unlike = len({name for name, _ in names.values()}) > 1
    return None if numbers and unlike and found else found


def job_size(variables: Mapping[str, str]) -> tuple[str, int]:
    """The variable that names several processes of the job, and how many; ("", 0) if none does."""
    for name in _SIZES:
        if variables.get(name, "").isdecimal():
            count = int(variables[name])
            return (name, count) if count > 1 else ("", 0)
    return "", 0


def cluster_size(variables: Mapping[str, str]) -> int:
    """How many workers TF_CONFIG names: https://www.tensorflow.org/guide/distributed_training#TF_CONFIG."""
    try:
        cluster = read_json(variables.get("TF_CONFIG") or "{}").get("cluster", {})
        return sum(len(cluster.get(role, ())) for role in ("chief", "worker"))
    except (AttributeError, TypeError, ValueError):
        return 0
