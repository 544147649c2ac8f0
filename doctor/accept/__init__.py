"""Acceptance: a profile states what a machine must have and do before it goes into service; a certificate states the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfgpu_doctor._exports import exported

if TYPE_CHECKING:
    from tfgpu_doctor.accept.certifying import certify as certify
    from tfgpu_doctor.accept.examine import Examiner as Examiner
    from tfgpu_doctor.accept.examine import profile_named as profile_named
    from tfgpu_doctor.accept.examine import settings_of as settings_of
    from tfgpu_doctor.accept.known_good import write_learnt as write_learnt
    from tfgpu_doctor.accept.learning import NotLearnt as NotLearnt
    from tfgpu_doctor.accept.learning_fleet import MEASUREMENTS as MEASUREMENTS
    from tfgpu_doctor.accept.learning_fleet import FleetNode as FleetNode
    from tfgpu_doctor.accept.learning_fleet import learn_from_nodes as learn_from_nodes
    from tfgpu_doctor.accept.quantities import speed_in as speed_in
    from tfgpu_doctor.accept.reading import file_of as file_of
    from tfgpu_doctor.accept.reading import shipped_profiles as shipped_profiles
    from tfgpu_doctor.accept.rules_stress import why_not_loaded as why_not_loaded
    from tfgpu_doctor.accept.rules_suites import not_measured as not_measured
    from tfgpu_doctor.accept.terms import Profile as Profile
    from tfgpu_doctor.accept.terms import bytes_of as bytes_of
    from tfgpu_doctor.accept.withheld import hidden_gpus as hidden_gpus

# The names that other features may use.
__getattr__ = exported(
    __name__,
    {
        "certify": "certifying",
        "Examiner": "examine",
        "profile_named": "examine",
        "settings_of": "examine",
        "write_learnt": "known_good",
        "NotLearnt": "learning",
        "MEASUREMENTS": "learning_fleet",
        "FleetNode": "learning_fleet",
        "learn_from_nodes": "learning_fleet",
        "file_of": "reading",
        "shipped_profiles": "reading",
        "speed_in": "quantities",
        "why_not_loaded": "rules_stress",
        "not_measured": "rules_suites",
        "Profile": "terms",
        "bytes_of": "terms",
        "hidden_gpus": "withheld",
    },
)
