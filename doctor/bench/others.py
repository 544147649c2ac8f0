"""GPUs that other processes use: the suites would slow these down, and measure them along."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from tfgpu_doctor.collect.probes.stress_gpus import Candidate, candidates, who_uses
from tfgpu_doctor.collect.probes.stress_plan import IDLE_EVERY_S, IDLE_S
from tfgpu_doctor.collect.probes.stress_samples import Look, Sampling, sample
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts import Facts


def used_by_others(host: Host, facts: Facts, own: Collection[int] = ()) -> dict[str, str] | None:
    """Return the signs that others use a GPU, by TensorFlow's name of it ("GPU:0"), from two seconds of samples.

    `own`: processes that are no others. None: NVML cannot tell of every GPU, and shows no sign on those of which it can.
    Unlike the stress test, the suites run then, because they load a GPU for moments; only what takes all memory does not.
    """
    runtime, nvml, cuda = facts.runtime, facts.nvml, facts.cuda_driver
    if not (runtime and runtime.gpus):
        return {}
    if not (nvml and nvml.works and cuda):
        return None
    seen = sample(host, seconds=IDLE_S, every_s=IDLE_EVERY_S, with_tenants=True)
    sampling = msgspec.structs.replace(
        seen,
        samples={at: {gpu: _without(look, own) for gpu, look in looks.items()} for at, looks in seen.samples.items()},
    )
    gpus = candidates(runtime, cuda, nvml, sampling, host.environment)
    known = [each for each in gpus if _is_told(each, sampling)]
    signs = {f"GPU:{each.index}": "; ".join(who_uses(each, sampling)) for each in known}
    found = {name: told for name, told in signs.items() if told}
    return found if found or len(known) == len(gpus) else None


def _without(look: Look, own: Collection[int]) -> Look:
    ours = [each for each in look.tenants if each.pid in own]
    if not ours:
        return look
    used = None if look.used_bytes is None else look.used_bytes - sum(each.memory_bytes or 0 for each in ours)
    return msgspec.structs.replace(
        look, tenants=tuple(each for each in look.tenants if each not in ours), used_bytes=used
    )


def _is_told(gpu: Candidate, sampling: Sampling) -> bool:
    """Whether NVML tells who computes on the GPU, or how much of its memory is in use: in a container only the latter."""
    looks = [each[gpu.number] for each in sampling.samples.values() if gpu.number in each]
    return any(gpu.mig or look.used_bytes is not None for look in looks)
