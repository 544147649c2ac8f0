"""The fixture `judge`: what one check says of a machine made of facts."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from healthy import broken
from said_numbers import names_a_gpu, without_figure

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model import SEVERITIES, UNDETERMINED, Check, Evidence, Finding, Skip
from tfgpu_doctor.model.facts import Facts

Yielded = list[Finding | Evidence]
_MEASURE_GPUS = ("BUS", "HLT", "LNK", "LOD", "MEM001", "SHR", "XID")  # their messages hold no numbers but measured ones


class Judge:
    """Calls a check with the facts of a machine: the healthy one, or the one given, with sections changed.

    A section that is None is a fact that could not be had: the check is called without it.
    """

    def __call__(self, check: Check, machine: Facts | None = None, /, **sections: Any) -> Yielded:
        facts = broken(machine, **sections)
        given = {name: getattr(facts, name) for name in Facts.__struct_fields__}
        given["knowledge"] = read_knowledge()
        names = (*check.needs, *check.optional)
        return check(**{name: given[name] for name in names if given[name] is not None})

    def findings(self, check: Check, machine: Facts | None = None, /, **sections: Any) -> list[Finding]:
        """All findings, each of them fit to be shown."""
        found = [each for each in self(check, machine, **sections) if isinstance(each, Finding)]
        for each in found:
            assert_is_fit_to_be_shown(each, check)
        return found

    def finding(self, check: Check, machine: Facts | None = None, /, **sections: Any) -> Finding:
        """The one finding."""
        [found] = self.findings(check, machine, **sections)
        return found

    def passes(self, check: Check, machine: Facts | None = None, /, **sections: Any) -> str:
        """The evidence, one piece a line, of a check that finds nothing, not even something to mention."""
        yielded = self(check, machine, **sections)
        assert [each for each in yielded if isinstance(each, Finding)] == []
        assert yielded, "a pass needs evidence"
        return "\n".join(each.text for each in yielded if isinstance(each, Evidence))

    def skips(self, check: Check, machine: Facts | None = None, /, **sections: Any) -> str:
        """The reason of a check that does not apply or cannot tell."""
        with pytest.raises(Skip) as reason:
            self(check, machine, **sections)
        return str(reason.value)

    def does_not_object(self, check: Check, machine: Facts | None = None, /, **sections: Any) -> bool:
        """Whether a check passes or skips, or mentions at most something that is no fault."""
        try:
            yielded = self(check, machine, **sections)
        except Skip:
            return True
        return all(each.severity == "info" for each in yielded if isinstance(each, Finding))


def assert_is_fit_to_be_shown(finding: Finding, check: Check) -> None:
    assert finding.message
    assert finding.severity in SEVERITIES
    assert finding.cause in read_knowledge().causes
    assert finding.cause in (*check.causes, UNDETERMINED), f"{check.id} does not declare {finding.cause}"
    assert finding.evidence, f"no evidence for: {finding.message}"
    assert all(finding.evidence)
    assert_names_its_gpus_and_numbers(finding, check)
    assert finding.fix, f"no next step for: {finding.message}"
    assert finding.fix.text
    for command in finding.fix.commands:
        assert shlex.split(command)[0] not in ("sudo", "rm", "mv")
        assert "\n" not in command


def assert_names_its_gpus_and_numbers(finding: Finding, check: Check) -> None:
    assert any(finding.devices) or not names_a_gpu(finding.message), finding.message
    assert all(not figure.device or figure.device in finding.devices for figure in finding.figures), finding.message
    told = [(figure.name, figure.device) for figure in finding.figures]
    assert len(told) == len(set(told)), told
    if check.id.startswith(_MEASURE_GPUS):
        assert without_figure(finding) == [], finding.message


@pytest.fixture
def judge() -> Judge:
    return Judge()
