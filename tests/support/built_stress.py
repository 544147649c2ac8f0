"""Machines whose GPUs were put under load, as facts; tests/machines holds them as files."""

from __future__ import annotations

import msgspec
from healthy import ANSWERED, healthy
from stressed import (
    SPEEDS,
    exactness,
    left_alone,
    pattern,
    readings,
    soak_rounds,
    speed,
    stress,
    stress_round,
    stressed_gpu,
    transfers,
    under_stress,
)

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt

_BROKEN_OFF = "tensorflow.python.framework.errors_impl.InternalError: "


def built() -> dict[str, Facts]:
    """Name to machine."""
    flips = exactness(mismatches=37)
    flipped = pattern(
        "address", mismatches=2, example="chunk 3, word 71: wrote 0x0000000006000047, read 0x0000000006000046"
    )
    hot = readings(sm_mhz=1050.0, temperature_c=94.0, reasons={"sw_thermal_slowdown": 0.9, "hw_thermal_slowdown": 0.3})
    slow = tuple(speed(name, teraflops=value / 4) for name, value in SPEEDS.items())
    alone = exactness(digests=("feedfacefeedface", *exactness().digests[1:]))
    ecc = f"{_BROKEN_OFF}CUDA error: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered"
    between = tuple(
        msgspec.structs.replace(each, mismatches=33554432) if "host" not in (each.source, each.destination) else each
        for each in transfers(0, 1)
    )
    return {
        "loaded-healthy": under_stress(),
        "loaded-two-gpus-healthy": under_stress(stress(stressed_gpu(0), stressed_gpu(1))),
        "loaded-one-of-two-busy-healthy": under_stress(stress(stressed_gpu(0), left_alone(1))),
        "loaded-soak-healthy": under_stress(stress(stressed_gpu(rounds=soak_rounds(10)), level="soak", seconds=640.0)),
        "loaded-without-a-free-gpu-healthy": under_stress(stress(left_alone(0))),
        "loaded-gpu-disagrees-with-itself": under_stress(
            stress(stressed_gpu(rounds=(stress_round(exactness=(flips, exactness("convolution"))),)))
        ),
        "loaded-gpu-stands-alone": under_stress(
            stress(stressed_gpu(0), stressed_gpu(1), stressed_gpu(2, rounds=(stress_round(exactness=(alone,)),)))
        ),
        "loaded-memory-flips": under_stress(
            stress(stressed_gpu(rounds=(stress_round(memory=(pattern("0x55"), flipped, pattern("random"))),)))
        ),
        "loaded-gpu-dies": under_stress(
            stress(
                stressed_gpu(
                    attempt=Attempt(outcome="killed_by_signal", signal="SIGABRT", phase="products in float16, round 1")
                )
            )
        ),
        "loaded-ecc-error": under_stress(stress(stressed_gpu(error=ecc, attempt=ANSWERED))),
        "loaded-too-hot": under_stress(stress(stressed_gpu(rounds=(stress_round(readings=hot),)))),
        "soaked-too-hot": under_stress(
            stress(stressed_gpu(rounds=soak_rounds(10, readings=hot, speeds=slow)), level="soak", seconds=640.0)
        ),
        "loaded-copies-between-gpus-arrive-changed": under_stress(
            stress(stressed_gpu(0), stressed_gpu(1), transfers=between)
        ),
        "deep-without-a-load-healthy": msgspec.structs.replace(
            healthy(), level="deep", unknown={"stress": "TensorFlow took 110 s to start, which leaves too little"}
        ),
    }
