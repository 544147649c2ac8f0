"""Commands to paste: from which release on pip brings the CUDA libraries."""

from __future__ import annotations

import msgspec
import pytest
from healthy import broken

from tfgpu_doctor.checks.commands import bring_cuda_libraries
from tfgpu_doctor.knowledge import read_knowledge


@pytest.mark.parametrize(
    ("release", "command"),
    [("2.15.0", ""), ("2.15.1", "tensorflow[and-cuda]==2.15.1"), ("2.21.0", "tensorflow[and-cuda]==2.21.0")],
)
def test_the_extra_works_from_one_release_on(release: str, command: str) -> None:
    facts = broken()
    assert facts.tensorflow
    assert facts.target
    tensorflow = msgspec.structs.replace(facts.tensorflow, version=release, distribution="tensorflow")
    fix = bring_cuda_libraries(facts.target, tensorflow, read_knowledge(), "They are missing.")
    assert " ".join(fix.commands).rpartition(" ")[2].strip("'") == command
    assert fix.text.startswith("They are missing.")
    assert ("pip cannot install them for this release" in fix.text) is (not command)
