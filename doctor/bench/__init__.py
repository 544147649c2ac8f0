"""Comparisons of a candidate with a baseline: measure, judge, save, and compare with earlier runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfgpu_doctor._exports import exported

if TYPE_CHECKING:
    from tfgpu_doctor.bench.measurement import Measured as Measured
    from tfgpu_doctor.bench.measurement import Plan as Plan
    from tfgpu_doctor.bench.measurement import measure as measure
    from tfgpu_doctor.bench.names import is_own as is_own
    from tfgpu_doctor.bench.names import suite_names as suite_names
    from tfgpu_doctor.bench.names import suite_of as suite_of
    from tfgpu_doctor.bench.names import why_unusable as why_unusable
    from tfgpu_doctor.bench.others import used_by_others as used_by_others
    from tfgpu_doctor.bench.page import render_bench as render_bench
    from tfgpu_doctor.bench.pytest_document import extra_info as extra_info
    from tfgpu_doctor.bench.pytest_document import machine_part as machine_part
    from tfgpu_doctor.bench.reasons import IN_USE as IN_USE
    from tfgpu_doctor.bench.reasons import TIME_ENDED as TIME_ENDED
    from tfgpu_doctor.bench.references import place_of as place_of
    from tfgpu_doctor.bench.result import make_result as make_result
    from tfgpu_doctor.bench.run import SUITE_VERSION as SUITE_VERSION
    from tfgpu_doctor.bench.suites import compiles as compiles
    from tfgpu_doctor.bench.suites import lacking_packages as lacking_packages
    from tfgpu_doctor.bench.suites import measure_suites as measure_suites
    from tfgpu_doctor.bench.verdict import NOISE_LIMIT as NOISE_LIMIT
    from tfgpu_doctor.bench.verdict import judge as judge

# What other features may use.
__getattr__ = exported(
    __name__,
    {
        "Measured": "measurement",
        "Plan": "measurement",
        "measure": "measurement",
        "compiles": "suites",
        "used_by_others": "others",
        "lacking_packages": "suites",
        "measure_suites": "suites",
        "render_bench": "page",
        "extra_info": "pytest_document",
        "machine_part": "pytest_document",
        "IN_USE": "reasons",
        "TIME_ENDED": "reasons",
        "place_of": "references",
        "make_result": "result",
        "SUITE_VERSION": "run",
        "is_own": "names",
        "suite_names": "names",
        "suite_of": "names",
        "why_unusable": "names",
        "NOISE_LIMIT": "verdict",
        "judge": "verdict",
    },
)
