"""LOD: under load, does a GPU keep its clocks, reach the speed of its model, and maintain that speed?"""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor.checks.devices import device_of, figures_of
from tfgpu_doctor.checks.stress.readings import drift, speeds, under_load
from tfgpu_doctor.checks.stress.results import called, not_measured, under_stress, why_not_measured
from tfgpu_doctor.checks.unseen import tell_missing
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.knowledge.references import MATMUL, sustained_speed
from tfgpu_doctor.knowledge.schema import GpuModel
from tfgpu_doctor.model import UNDETERMINED, Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.clock_limits import HEAT, SLOWING
from tfgpu_doctor.model.facts.stress import Readings, StressedGpu, StressRound, StressTest
from tfgpu_doctor.model.tags import STRESS, requirement

_REASONS = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html"
_PEAKS = {"float32": "fp32", "tf32": "tf32", "float16": "fp16", "bfloat16": "fp16"}
_LEAST_USE = 50  # percent: below this, the samples fell between the products and do not show the load
_IN_MINUTES = 2  # a shorter time is told in seconds


@check(
    "LOD006",
    "each GPU keeps its clocks under load",
    family="Stress test",
    tags=(
        STRESS,
        requirement("peak-fractions"),
    ),
    stage=Stage.SPEED,
    after=("GPU004", "GPU005"),
    causes=("gpu_thermal_or_power_throttling",),
    sources=(_REASONS,),
)
def clocks_hold(stress: StressTest, knowledge: Knowledge) -> Yielded:
    """Every idle GPU is cool. Under load, heat or a power brake lowers the clocks, and everything takes longer. It is normal
    that the power limit keeps a GPU slightly below its highest clock.

    Fix: check fans, dust and air flow; power cables and supply; a lowered power limit.
    """
    slowed, lacking = False, []
    for gpu in under_stress(stress):
        known = [each for each in gpu.readings if each.sm_mhz and _at_work(each)]
        if not known or not gpu.max_sm_mhz:
            lacking.append(gpu)
            continue
        fraction = _mean([each.sm_mhz or 0.0 for each in known]) / gpu.max_sm_mhz
        reasons = _slowing(known, knowledge)
        worst = _boundary(knowledge, "throttled_clock_fraction" if reasons else "loaded_clock_fraction")
        if fraction >= worst and not any(word.startswith("hw_") for word in reasons):
            yield Evidence(f"GPU {gpu.index}: {'; '.join(_figures(gpu, known, fraction))}")
            continue
        slowed = True
        cold = reasons and not any(word in HEAT for word in reasons)
        held = _shares(reasons)
        yield Finding(
            f"{called(gpu)} keeps {fraction:.0%} of its highest clock under load"
            + (f": {held} of the samples" if held else ""),
            cause="gpu_thermal_or_power_throttling",
            severity="warning",
            confidence="high" if reasons else "medium",
            evidence=tuple(_figures(gpu, known, fraction)),
            fix=Fix(
                "Check the power supply, its cables to the GPU, and whether the machine has a power cap."
                if cold
                else "Check fans, dust, air flow and room temperature; then power and clock limits.",
                ("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK",),
            ),
            devices=(device_of(gpu),),
            figures=figures_of(
                device_of(gpu), [("share of the highest SM clock", fraction, ""), *under_load(gpu, known)]
            ),
        )
    cut = _cut_short(stress)
    blind = [called(gpu) for gpu in stress.tested if gpu not in lacking and len(gpu.readings) < _loaded_rounds(gpu)]
    ended = f"{cut}: the clocks of later rounds on {', '.join(blind)} are unknown" if cut and blind else ""
    yield from tell_missing("; ".join(filter(None, (_unknown_clocks(lacking, stress), ended))), found=slowed)
    if cut:
        yield Evidence(f"{cut}; later samples are missing")


def _loaded_rounds(gpu: StressedGpu) -> int:
    return sum(bool(each.speeds) for each in gpu.rounds)


def _unknown_clocks(gpus: Sequence[StressedGpu], stress: StressTest) -> str:
    """Return the GPUs whose clocks under load are unknown, and why: nothing was multiplied on them, or NVML gave no clocks."""
    idle = [gpu for gpu in gpus if not _fastest(gpu)]
    unread = ", ".join(called(gpu) for gpu in gpus if gpu not in idle)
    why = stress.sampling_error or _cut_short(stress) or "NVML does not report them"
    told = (not_measured(idle, stress), f"the clocks under load are unknown for {unread}: {why}" if unread else "")
    return "; ".join(filter(None, told))


def _cut_short(stress: StressTest) -> str:
    """Return how the sampling of NVML ended early; empty if it did not, or if the user interrupted the test."""
    ended = stress.sampling
    return f"the NVML query {ended.ending}" if ended and not (ended.answered or stress.interrupted) else ""


def _at_work(each: Readings) -> bool:
    return each.utilization_percent is None or each.utilization_percent >= _LEAST_USE


def _slowing(known: list[Readings], knowledge: Knowledge) -> dict[str, float]:
    """Return the heat and power reasons that limited the clocks for more than a moment, with their share of the samples."""
    least = _boundary(knowledge, "load_throttled_share")
    return {
        word: most
        for word in SLOWING
        if (most := max((each.reasons.get(word, 0.0) for each in known), default=0.0)) >= least
    }


def _shares(reasons: dict[str, float]) -> str:
    return ", ".join(f"{word} in {share:.0%}" for word, share in reasons.items())


def _figures(gpu: StressedGpu, known: list[Readings], fraction: float) -> list[str]:
    """Return clocks, temperature and power under load."""
    clock = _mean([each.sm_mhz or 0.0 for each in known])
    lowest = [each.lowest_sm_mhz for each in known if each.lowest_sm_mhz is not None]
    found = [
        f"SM clock {clock:.0f} of {gpu.max_sm_mhz:.0f} MHz ({fraction:.0%}) in {amount(sum(e.samples for e in known), 'sample')}"
        + (f", lowest {min(lowest):.0f} MHz" if lowest else "")
    ]
    heat = [each.temperature_c for each in known if each.temperature_c is not None]
    if heat:
        found.append(
            f"at most {max(heat):.0f} °C" + (f" (slowdown at {gpu.slowdown_c:.0f} °C)" if gpu.slowdown_c else "")
        )
    power = [each.power_w for each in known if each.power_w is not None]
    if power:
        found.append(f"{_mean(power):.0f} W" + (f" of {gpu.power_limit_w:.0f} W" if gpu.power_limit_w else ""))
    words = sorted({word for each in known for word in each.reasons})
    limits = _shares({word: max(each.reasons.get(word, 0.0) for each in known) for word in words})
    return [*found, *([f"clocks limited by {limits} of the samples"] if limits else [])]


@check(
    "LOD007",
    "each GPU multiplies at the speed expected of its model",
    family="Stress test",
    tags=(
        STRESS,
        requirement("peak-fractions"),
    ),
    stage=Stage.SPEED,
    after=("LOD001", "LOD005"),
    causes=("gpu_thermal_or_power_throttling",),
    sources=("https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html",),
)
def as_fast_as_its_model(stress: StressTest, knowledge: Knowledge) -> Yielded:
    """Products of large matrices come close to the data sheet's peak in every precision. If a GPU stays far below, something
    slows it down, although nothing fails.

    Fix: check the clocks first, then whether the GPU is shared or partitioned, then compare with a card of the same model.
    """
    slow, lacking, unknown = False, [], []
    for gpu in under_stress(stress):
        best = _fastest(gpu)
        if not best:
            lacking.append(gpu)
            continue
        if missing := _without_speed(gpu, best, stress):
            unknown.append(missing)
        model = _model(gpu, knowledge)
        peaks = _peaks(gpu, model)
        doubtful = [name for name, speed in best.items() if not _as_others(gpu, name, speed, knowledge)]
        shares = {name: best[name] / peaks[name] for name in doubtful if name in peaks}
        if shares and min(shares.values()) < _boundary(knowledge, "reached_peak_fraction"):
            found = _slow(gpu, best, {name: peaks[name] for name in shares}, knowledge)
            slow = slow or found.severity != "info"
            yield found
            continue
        told = ", ".join(_speed(name, speed, peaks.get(name)) for name, speed in best.items())
        failed = {each.precision: each.error for each in gpu.speeds if each.error and each.precision not in best}
        errors = "".join(f"; {precision} failed: {error}" for precision, error in failed.items())
        if not any(name in peaks or name not in doubtful for name in best):
            unknown.append(
                f"{called(gpu)}: {told} TFLOP/s{_of_matrices(gpu)}; the peak values of this model are unknown"
            )
        else:
            yield Evidence(f"GPU {gpu.index}: {told} TFLOP/s{_of_matrices(gpu)}{errors}")
    yield from tell_missing("; ".join(filter(None, (not_measured(lacking, stress), *unknown))), found=slow)


def _without_speed(gpu: StressedGpu, best: dict[str, float], stress: StressTest) -> str:
    """Return the precisions that lack a speed for no error of TensorFlow's; empty if none does."""
    tried = [each.precision for each in gpu.speeds]
    tried += [each.precision for other in stress.tested if other.name == gpu.name for each in other.speeds]
    failed = {each.precision for each in gpu.speeds if each.error}
    lacking = [name for name in dict.fromkeys(tried) if name not in best and name not in failed]
    why = why_not_measured(gpu, stress)
    return f"{called(gpu)} has no speed in {', '.join(lacking)}: {why}" if lacking else ""


def _as_others(gpu: StressedGpu, precision: str, teraflops: float, knowledge: Knowledge) -> bool:
    """Return whether a GPU is as fast as others of its model were measured, which says more than its data sheet."""
    row = sustained_speed(knowledge, gpu.name, MATMUL, precision)
    return row is not None and teraflops >= _boundary(knowledge, "bench_least_share_of_usual") * row.value


def _fastest(gpu: StressedGpu) -> dict[str, float]:
    """Return the highest speed of all rounds in each precision."""
    found: dict[str, float] = {}
    for each in gpu.speeds:
        if each.teraflops and each.iterations and each.finite and not each.error:
            found[each.precision] = max(each.teraflops, found.get(each.precision, 0.0))
    return found


def _of_matrices(gpu: StressedGpu) -> str:
    """Return the size of the matrices: in little free memory they are small, and small ones are multiplied more slowly."""
    sides = sorted({each.side for each in gpu.speeds if each.side and each.teraflops})
    return f", matrices of {' and '.join(f'{side} x {side}' for side in sides)}" if sides else ""


def _model(gpu: StressedGpu, knowledge: Knowledge) -> GpuModel | None:
    name = gpu.name.partition(" MIG ")[0]
    return next((row for row in knowledge.gpus if name == row.name or name in row.aliases), None)


def _peaks(gpu: StressedGpu, model: GpuModel | None) -> dict[str, float]:
    """Return the data sheet's peaks; for a part of a GPU, scaled by its share of the multiprocessors."""
    if model is None:
        return {}
    part = min(1.0, gpu.multiprocessors / model.multiprocessors) if gpu.multiprocessors else 1.0
    return {name: model.peak_teraflops[row] * part for name, row in _PEAKS.items() if row in model.peak_teraflops}


def _speed(name: str, speed: float, peak: float | None) -> str:
    return f"{name} {speed:.3g}" + (f" of {peak:.3g} ({speed / peak:.0%})" if peak else "")


def _slow(gpu: StressedGpu, best: dict[str, float], peaks: dict[str, float], knowledge: Knowledge) -> Finding:
    known = [each for each in gpu.readings if each.sm_mhz]
    at_work = [each for each in known if _at_work(each)]
    reasons = _slowing(known, knowledge)
    worst = min((name for name in best if name in peaks), key=lambda name: best[name] / peaks[name])
    shared = gpu.busy or (("it is part of a GPU that is partitioned by MIG",) if gpu.mig else ())
    fraction = _mean([each.sm_mhz or 0.0 for each in known]) / gpu.max_sm_mhz if known and gpu.max_sm_mhz else None
    clocks = _figures(gpu, known, fraction) if fraction is not None else ["the clocks under load are unknown"]
    return Finding(
        f"{called(gpu)} multiplies at {best[worst] / peaks[worst]:.0%} of its peak in {worst}",
        cause="gpu_thermal_or_power_throttling" if reasons else UNDETERMINED,
        severity="info" if shared else "warning",
        confidence="medium" if reasons else "low",
        evidence=(
            ", ".join(_speed(name, speed, peaks.get(name)) for name, speed in best.items())
            + f" TFLOP/s{_of_matrices(gpu)}",
            *shared, *clocks,
        ),
        fix=Fix(
            "Other processes use the GPU too: measure it when it is idle."
            if shared
            else "Check clocks and limits under load (`nvidia-smi -q -d PERFORMANCE,POWER,CLOCK`); if they are correct, "
            "compare with another card of the same model."
        ),
        devices=(device_of(gpu),),
        figures=figures_of(device_of(gpu), [*speeds(best, peaks), *under_load(gpu, at_work)]),
    )  # fmt: skip


@check(
    "LOD009",
    "each GPU maintains its initial speed",
    family="Stress test",
    tags=(STRESS,),
    stage=Stage.SPEED,
    after=("LOD006",),
    causes=("gpu_thermal_or_power_throttling",),
    sources=("https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/dcgm-diagnostics.html",),
)
def speed_lasts(stress: StressTest, knowledge: Knowledge) -> Yielded:
    """A machine takes minutes to warm up; insufficient cooling or power supply shows only then. The first round of a soak is
    compared with the last.

    Fix: check the cooling and the power supply; soak one GPU alone to distinguish a GPU problem from a machine problem.
    """
    if stress.level != "soak":
        raise Skip("only --level soak runs long enough for this check")
    slower, lacking = False, []
    for gpu in under_stress(stress):
        tried = {each.precision for each in gpu.speeds}  # those that failed in a round, too
        whole = [each for each in gpu.rounds if each.memory and {row.precision for row in each.speeds} == tried]
        found = _drift(gpu, whole, knowledge) if len(whole) > 1 else None
        slower = slower or isinstance(found, Finding)
        if found:
            yield found
        else:
            lacking.append(called(gpu))
    why = "the soak ended before a second round, or its rounds lack speeds of the same precision"
    missing = f"{', '.join(lacking)}: {why}; run it again" if lacking else ""
    yield from tell_missing(missing, found=slower)


def _drift(gpu: StressedGpu, rounds: list[StressRound], knowledge: Knowledge) -> Finding | Evidence | None:
    """Compare the first round with the last; return None if no precision was measured in both."""
    first, last = ({s.precision: s.teraflops for s in each.speeds if s.teraflops} for each in (rounds[0], rounds[-1]))
    drops = {name: 1 - last[name] / first[name] for name in first if name in last}
    if not drops:
        return None
    worst = max(drops, key=lambda name: drops[name])
    told = [f"{name} {first[name]:.3g} → {last[name]:.3g} TFLOP/s" for name in drops]
    ends = [each.readings for each in (rounds[0], rounds[-1]) if each.readings]
    if len(ends) == 2:
        told += [f"{name} {_word(getattr(ends[0], name))} → {_word(getattr(ends[1], name))}" for name in _DRIFTING]
    minutes = (rounds[-1].began_s + rounds[-1].seconds - rounds[0].began_s) / 60
    passed = amount(round(minutes), "minute") if minutes >= _IN_MINUTES else amount(round(60 * minutes), "second")
    if drops[worst] < _boundary(knowledge, "soak_speed_drop"):
        return Evidence(f"GPU {gpu.index}, {len(rounds)} rounds in {passed}: {', '.join(told)}")
    reasons = _slowing(ends[1:], knowledge)
    return Finding(
        f"{called(gpu)} is {drops[worst]:.0%} slower in {worst} after {passed} than at the start",
        cause="gpu_thermal_or_power_throttling" if reasons else UNDETERMINED,
        severity="warning",
        confidence="high" if reasons else "low",
        evidence=(*told, *([f"{_shares(reasons)} of the samples"] if reasons else [])),
        fix=Fix(
            "Check the cooling and the power supply; soak one GPU alone to distinguish a GPU problem from a machine problem."
        ),
        devices=(device_of(gpu),),
        figures=figures_of(device_of(gpu), [("time under load", minutes, "min"), *drift(first, last, ends)]),
    )


_DRIFTING = ("sm_mhz", "temperature_c", "power_w")


def _word(figure: float | None) -> str:
    return "?" if figure is None else f"{figure:.0f}"


def _mean(figures: list[float]) -> float:
    return sum(figures) / len(figures)


def _boundary(knowledge: Knowledge, name: str) -> float:
    return float(knowledge.boundaries[name].value)
