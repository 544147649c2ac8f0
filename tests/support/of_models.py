"""The machine under stress with GPUs of any model, as fast as the test says."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from judged import bench, comparison
from stressed import readings, speed, stress, stress_round, stressed_gpu, under_stress

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Metric

KNOWLEDGE = read_knowledge()
WON = (comparison(), comparison(name="gpu[convolution]"), comparison("training", "step[cnn]"))


def machine_of(
    model: str,
    speeds: Mapping[str, float],
    count: int = 1,
    *,
    metrics: tuple[Metric, ...] = (),
    power_limit_w: float = 350.0,
) -> Facts:
    """A machine with that many GPUs of the model, which multiply at those speeds (TFLOP/s by precision)."""
    row = KNOWLEDGE.gpu_called(model)
    timed = tuple(speed(precision, teraflops=teraflops) for precision, teraflops in speeds.items())
    round_ = stress_round(speeds=timed, readings=readings(power_w=0.99 * power_limit_w))
    gpus = tuple(
        stressed_gpu(
            index, name=model, multiprocessors=row.multiprocessors if row else 0,
            compute_capability=row.compute_capability if row else "", rounds=(round_,),
            power_limit_w=power_limit_w, default_power_limit_w=power_limit_w,
        )
        for index in range(count)
    )  # fmt: skip
    return msgspec.structs.replace(under_stress(stress(*gpus)), bench=bench(*WON, metrics=metrics))
