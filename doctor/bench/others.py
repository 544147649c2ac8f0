"""GPUs that other processes use: the suites would slow these down, and measure them along."""

from __future__ import annotations

from tfgpu_doctor.collect.probes.stress_gpus import candidates, who_uses
from tfgpu_doctor.collect.probes.stress_plan import IDLE_EVERY_S, IDLE_S
from tfgpu_doctor.collect.probes.stress_samples import sample
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts import Facts


def used_by_others(host: Host, facts: Facts) -> dict[str, str]:
    """Return the signs that others use a GPU, by TensorFlow's name of it ("GPU:0"), from two seconds of samples.

    Unlike the stress test, the suites run where NVML cannot tell: they load a GPU for moments.
    """
    runtime, nvml, cuda = facts.runtime, facts.nvml, facts.cuda_driver
    if not (runtime and runtime.gpus and nvml and nvml.works and cuda):
        return {}
    sampling = sample(host, seconds=IDLE_S, every_s=IDLE_EVERY_S, with_tenants=True)
    found = {}
    for each in candidates(runtime, cuda, nvml, sampling, host.environment):
        if each.number is not None and sampling.samples and (signs := who_uses(each, sampling)):
            found[f"GPU:{each.index}"] = "; ".join(signs)
    return found
