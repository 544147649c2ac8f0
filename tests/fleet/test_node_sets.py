"""Lists of nodes in Slurm's form: short, and the same nodes when they are read again."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from doctor_command import clean_environment
from hypothesis import given
from hypothesis import strategies as st

from tfgpu_doctor.fleet.launched import expand
from tfgpu_doctor.fleet.node_sets import folded, is_node_name

NAMES = st.from_regex(r"[a-z]{0,3}[0-9]{0,4}(-[a-z]{1,2}[0-9]{0,3})?", fullmatch=True).filter(is_node_name)


@given(st.sets(NAMES, min_size=1, max_size=60))
def test_the_same_nodes_come_back(names: set[str]) -> None:
    assert sorted(expand(folded(names))) == sorted(names)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n001", "n002", "n003", "n004"], "n[001-004]"),
        (["n099", "n100", "n101"], "n[099-101]"),
        (["n9", "n10", "n12"], "n[9-10,12]"),
        (["login", "n1", "m7"], "login,m7,n1"),
        (["gpu1-a", "gpu2-a", "gpu1-b"], "gpu[1-2]-a,gpu1-b"),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
        ([], ""),
    ],
)
def test_the_form(names: list[str], text: str) -> None:
    assert folded(names) == text


def test_slurm_reads_the_same(tmp_path: pathlib.Path) -> None:
    """`scontrol show hostnames` needs no cluster, but its configuration."""
    configuration = tmp_path / "slurm.conf"
    configuration.write_text(
        "ClusterName=none\nSlurmctldHost=localhost\nNodeName=localhost\nPartitionName=a Nodes=localhost\n"
    )
    names = [f"n{number:03d}" for number in (*range(1, 120), 140, 200)] + ["m7", "gpu1-eth0", "gpu2-eth0"]
    try:
        done = subprocess.run(
            ["scontrol", "show", "hostnames", folded(names)],
            capture_output=True, text=True, check=False, env=clean_environment(SLURM_CONF=str(configuration)),
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("Slurm is not installed")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == sorted(names)


@pytest.mark.parametrize("name", ["", "-n1", "n1;reboot", "n1 n2", "n[1-3]", "a,b", "$(x)", "n1\n", "x" * 300, "é"])
def test_names_that_reach_no_command(name: str) -> None:
    assert not is_node_name(name)
