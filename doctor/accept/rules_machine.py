"""Requirements of the machine itself: its goal, its GPUs, their memory, and the versions of driver and TensorFlow."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from tfgpu_doctor.accept.requirement import Asked, Case, Requirement
from tfgpu_doctor.accept.terms import Profile, bytes_of, gpu_range
from tfgpu_doctor.accept.withheld import others_of
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.tags import Goal

_GIB = 1 << 30


def machine_requirements(case: Case) -> Iterator[Requirement]:
    """Yield first the requirements of every profile: the goal, and the number of GPUs."""
    yield _goal(case)
    yield _gpus(case)
    profile = case.profile
    if profile.models:
        yield _models(case)
    if profile.gpu_memory:
        yield _memory(case)
    if profile.driver:
        asked = case.ask("driver", "driver version", profile.driver)
        yield _version(asked, driver_of(case.facts), "no driver responds", case)
    if profile.tensorflow:
        asked = case.ask("tensorflow", "TensorFlow version", profile.tensorflow)
        why = case.why_unknown("runtime", "TensorFlow was not imported")
        yield _version(asked, tensorflow_of(case.facts), why, case)


def goal_of(profile: Profile, facts: Facts) -> Goal:
    """Return what the examination must show."""
    if profile.without_gpu:
        return "imports"
    return "driver" if facts.quick else "computes"


_GOALS: dict[Goal, str] = {
    "computes": "TensorFlow computes on a GPU", "driver": "the driver provides a GPU", "imports": "TensorFlow imports",
}  # fmt: skip


def _goal(case: Case) -> Requirement:
    title = _GOALS[goal_of(case.profile, case.facts)]
    asked = case.ask(f"goal.{case.goal}", title, f"{case.goal} passes")
    if case.facts.simulated:
        return asked.unmeasured(
            "the GPUs and their driver are simulated", "run the acceptance on a machine with real GPUs"
        )
    result = case.report.find(case.goal)
    if result and result.blocked_by:
        return asked.unmeasured(f"blocked by {', '.join(result.blocked_by)}", how_to_unblock(result.blocked_by))
    if result is None or result.outcome in ("skip", "crash"):
        why = (result.reason if result else "") or "it could not be judged"
        return asked.unmeasured(why, case.anew)
    told = "; ".join([finding.message for finding in result.findings] or result.evidence) or result.outcome
    return asked.judged(result.outcome in ("pass", "warn"), told)


def how_to_unblock(ids: Iterable[str]) -> str:
    """Return what to do about checks whose errors block others, although they do not count themselves."""
    found = f"mend what {', '.join(ids)} finds"
    return f"{found}, or allow it in the profile under `[[allowed]]`, with a reason and a last day"


def listed_gpus(facts: Facts) -> list[str]:
    """Return the names of the GPUs that TensorFlow lists, or at level quick those that CUDA lists."""
    cuda = facts.cuda_driver.gpus if facts.cuda_driver and facts.cuda_driver.works else ()
    if facts.quick:
        return [gpu.name for gpu in cuda]
    listed = facts.runtime.gpus if facts.runtime else ()
    by_cuda = [gpu.name for gpu in cuda] if len(cuda) == len(listed) else [""] * len(listed)
    return [gpu.description or name or gpu.name for gpu, name in zip(listed, by_cuda, strict=True)]


def _no_gpu(case: Case) -> str:
    if case.facts.quick:
        return case.why_unknown("cuda_driver", "CUDA lists no GPU")
    return case.why_unknown("runtime", "TensorFlow lists no GPU")


def _gpus(case: Case) -> Requirement:
    wanted = gpu_range(case.profile.gpus)
    asked = case.ask("gpus", "number of GPUs", wanted.removeprefix("=="))
    names = listed_gpus(case.facts)
    if not names and case.profile.without_gpu and case.facts.runtime and case.facts.runtime.gpus_listed:
        return asked.met("none")
    if not names:
        return asked.unmeasured(_no_gpu(case), case.anew)
    told = names[0] if len(set(names)) == 1 else counted(names)
    others = others_of(case.facts, len(names))
    beside = f"; {others} {'other' if others == 1 else 'others'} of this machine not examined" if others else ""
    return asked.judged(SpecifierSet(wanted).contains(str(len(names))), f"{len(names)}: {told}{beside}")


def counted(names: Sequence[str]) -> str:
    """Return `8 x NVIDIA H100 80GB HBM3`; without the number if there is only one."""
    return ", ".join(
        f"{names.count(each)} x {each}" if names.count(each) > 1 else each for each in dict.fromkeys(names)
    )


def _models(case: Case) -> Requirement:
    asked = case.ask("models", "models of the GPUs", " or ".join(case.profile.models))
    names = listed_gpus(case.facts)
    if not names:
        return asked.unmeasured(_no_gpu(case), case.anew)
    strange = [name for name in names if not any(_fits(name, pattern) for pattern in case.profile.models)]
    return asked.judged(not strange, counted(names))


def _fits(name: str, pattern: str) -> bool:
    name, pattern = (text.lower().removeprefix("nvidia ") for text in (name, pattern))
    return name == pattern or fnmatch.fnmatchcase(name, pattern)


def gpu_memory_of(facts: Facts) -> list[int]:
    """Return the bytes of each listed GPU; fewer values if not all are known. For a MIG slice, the memory of the slice."""
    count = len(listed_gpus(facts))
    nvml = facts.nvml.gpus if facts.nvml and facts.nvml.works else ()
    whole = [gpu.memory_total_bytes for gpu in nvml if gpu.memory_total_bytes and not gpu.mig]
    if len(whole) == count == len(nvml):
        return whole
    cuda = facts.cuda_driver.gpus if facts.cuda_driver and facts.cuda_driver.works else ()
    return [gpu.memory_bytes for gpu in cuda if gpu.memory_bytes]


def _memory(case: Case) -> Requirement:
    asked = case.ask("gpu-memory", "memory of each GPU", f"at least {case.profile.gpu_memory}")
    count, found = len(listed_gpus(case.facts)), gpu_memory_of(case.facts)
    if not count:
        return asked.unmeasured(_no_gpu(case), case.anew)
    if len(found) != count:
        return asked.unmeasured(
            f"the memory of {len(found)} of {amount(count, 'GPU')} is known", "remove the requirement from the profile"
        )
    least = min(found)
    told = f"{least / _GIB:.1f} GiB" + (" on the smallest" if least < max(found) else "")
    return asked.judged(least >= (bytes_of(case.profile.gpu_memory) or 0), told)


def driver_of(facts: Facts) -> str:
    """Return the version of the driver; empty if it is unknown."""
    answers = facts.nvml.driver_version if facts.nvml and facts.nvml.works else ""
    return answers or (facts.driver.version if facts.driver else "")


def tensorflow_of(facts: Facts) -> str:
    """Return the version that was imported; at level quick, the installed one."""
    if facts.quick:
        return facts.tensorflow.version if facts.tensorflow else ""
    return facts.runtime.version if facts.runtime else ""


def _version(asked: Asked, found: str, why: str, case: Case) -> Requirement:
    if not found:
        return asked.unmeasured(why, case.anew)
    try:
        version = Version(found)
    except InvalidVersion:
        return asked.unmeasured(f"the version {found!r} cannot be compared", "remove the requirement from the profile")
    return asked.judged(SpecifierSet(asked.required).contains(version, prereleases=True), found)
