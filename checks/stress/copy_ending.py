"""LOD: how the copy test ends: routes over which no copy arrived, and the reason."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfgpu_doctor.checks.stress.ending import CRASHES, OF_AN_OPERATION, hangs, how_long
from tfgpu_doctor.checks.stress.routes import (
    Route,
    devices_on,
    in_words,
    is_between_gpus,
    route_of,
    routes_of,
    some_in_words,
)
from tfgpu_doctor.checks.tensorflow.computation import explain_error
from tfgpu_doctor.model import UNDETERMINED, Finding, Fix
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.facts.stress import StressTest, Transfer

BETWEEN_GPUS = (
    "For writes between GPUs, disable the IOMMU on bare metal and ACS on the bridges between the GPUs; until then, "
    "`export NCCL_P2P_DISABLE=1`."
)
_LOOK = "Check `sudo dmesg | grep -i -e NVRM -e Xid`: a failing GPU leaves a line there."
_COPYING = re.compile(r"copying from (\S+) to (\S+)")
_HARMLESS = ("InvalidArgumentError", "NotFoundError", "UnimplementedError", "ResourceExhaustedError", "out of memory")


def copy_failures(stress: StressTest, runtime: Runtime) -> list[Finding]:
    """Return the finding of the first route that failed, hung or crashed: what follows on the same GPUs is no news."""
    failed = [each for each in stress.transfers if _is_fault(each.error)]
    if failed:
        return [_failure(failed, stress)]
    attempt, route = stress.transfers_attempt, _under_way(stress)
    if stress.interrupted or attempt is None or route is None:
        return []
    hung = hangs(attempt, stress.transfers_phase_s, runtime)
    if hung or (attempt.outcome == "killed_by_signal" and not attempt.ended_from_outside):
        return [_no_ending(route, stress, hung=hung)]
    return []


def routes_without_copies(stress: StressTest, copied: Sequence[Transfer]) -> str:
    """Return the routes over which nothing was copied, and why; empty if there are none, or only those out of time."""
    errors = {route_of(each): each.error for each in stress.transfers if each.error}
    done, late = {route_of(each) for each in copied}, routes_out_of_time(stress, copied)
    lacking: dict[str, list[Route]] = {}
    for route in routes_of(stress):
        if route not in done and (route in errors or route not in late):
            lacking.setdefault(errors.get(route) or _why_none(stress), []).append(route)
    return "; ".join(f"no copy from {some_in_words(routes)} was measured: {why}" for why, routes in lacking.items())


def routes_out_of_time(stress: StressTest, copied: Sequence[Transfer]) -> list[Route]:
    """Return the routes between GPUs for which no time was left: the more GPUs, the fewer of them are copied over."""
    attempt, done = stress.transfers_attempt, set(map(route_of, stress.transfers))
    completed = attempt is not None and attempt.answered and not stress.transfers_error and not stress.interrupted
    if not completed or not any(is_between_gpus(route_of(each)) for each in copied):
        return []
    return [route for route in routes_of(stress) if is_between_gpus(route) and route not in done]


def _why_none(stress: StressTest) -> str:
    if stress.interrupted:
        return "the stress test was interrupted before this measurement"
    attempt = stress.transfers_attempt
    if attempt and not attempt.answered:
        return f"the copy test {attempt.ending}"
    if stress.transfers_error:
        return f"the copy test failed: {stress.transfers_error}"
    return "no time was left"


def _is_fault(error: str) -> bool:
    """Return whether an error is one of a copy, and none of what TensorFlow offers or of the free memory."""
    return OF_AN_OPERATION in error and not any(word in error for word in _HARMLESS)


def _under_way(stress: StressTest) -> Route | None:
    """Return the route of the copy that did not end; None if the process had not begun to copy."""
    found = _COPYING.fullmatch(stress.transfers_attempt.phase) if stress.transfers_attempt else None
    return (found[1], found[2]) if found else None


def _failure(failed: Sequence[Transfer], stress: StressTest) -> Finding:
    route, others = route_of(failed[0]), list(map(route_of, failed[1:]))
    cause, fix = _explain(failed[0].error, route)
    return Finding(
        f"the copy from {in_words(route)} fails: {failed[0].error[:200]}",
        cause=cause,
        confidence="low" if cause == UNDETERMINED else "medium",
        evidence=(failed[0].error, *([f"copies fail also from {some_in_words(others)}"] if others else [])),
        fix=fix,
        devices=devices_on(route, stress),
    )


def _no_ending(route: Route, stress: StressTest, *, hung: bool) -> Finding:
    attempt = stress.transfers_attempt
    ending, lines = (attempt.ending, attempt.stderr) if attempt else ("", ())
    cause, fix = _explain(" ".join(lines), route)
    if hung and cause == UNDETERMINED:
        between = is_between_gpus(route)
        cause, fix = ("multi_gpu_p2p_iommu_acs", Fix(BETWEEN_GPUS)) if between else ("gpu_hang", Fix(_LOOK))
    return Finding(
        f"the copy from {in_words(route)} {'hangs' if hung else 'crashes'}: the copy test {ending}",
        cause=cause,
        confidence="low" if cause == UNDETERMINED else "medium",
        evidence=(f"the copy test {ending}", *how_long(stress.transfers_phase_s), *filter(None, lines[-4:])),
        fix=fix,
        devices=devices_on(route, stress),
    )


def _explain(log: str, route: Route) -> tuple[str, Fix]:
    """Return cause and fix by the text of an error."""
    cause, fix = explain_error(log)
    if cause == "hardware_ecc_error":
        return cause, Fix(fix)
    if any(word in log for word in CRASHES) and not is_between_gpus(route):
        return "hardware_faulty_gpu", Fix(_LOOK)
    return UNDETERMINED, Fix(f"{_LOOK} {BETWEEN_GPUS}" if is_between_gpus(route) else _LOOK)
