"""Whatever the user calls folders, commands and profiles: it reaches the doctor as it is, and nothing else runs."""

from __future__ import annotations

import json
import pathlib
import tempfile
from typing import Any

import pytest
import yaml
from emitted_jobs import DOCTOR, SCONTROL, SRUN, commands, run_script
from emitted_pods import pod_of
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tfgpu_doctor.fleet.emitting import Emission, NotEmittable, emission
from tfgpu_doctor.fleet.emitting_jobs import slurm
from tfgpu_doctor.fleet.emitting_kubernetes import Cloud, CloudKind, kubernetes
from tfgpu_doctor.fleet.order import NodeOrder

STEERING = "$`'\"\\;&|<>(){}[]*?!#~%:-, =@"
TEXTS = st.text(st.one_of(st.sampled_from(STEERING), st.characters(min_codepoint=32, exclude_characters="/", codec="utf-8")),
                min_size=1, max_size=30).filter(str.isprintable)  # fmt: skip


@pytest.mark.slow
@given(name=TEXTS.filter(lambda name: name not in (".", "..") and len(name.encode()) < 200), profile=TEXTS)
@example(name="$(touch owned)", profile="'; touch owned; '")
@example(name="{{ 7 * 7 }}{% raw %}", profile="`touch owned`")
@example(name="-n", profile="--out=/etc")
@settings(max_examples=40)
def test_a_shell_script(name: str, profile: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        out = place / name
        out.mkdir()
        bin_ = commands(
            place / "the bin" if name != "the bin" else place / "bin", doctor=DOCTOR, srun=SRUN, scontrol=SCONTROL
        )
        order = NodeOrder(profile=profile)
        job = emission(order, NodeOrder(), out=str(out), command=str(bin_ / "doctor"), nodes=1, gpus=None)
        done = run_script(slurm(job, "job"), commands=bin_, nodes=["n1"], SLURM_JOB_NODELIST="n1")
        assert done.returncode == 0, done.stderr
        assert (bin_ / "argv-n1").read_text() == "\n".join(
            ["fleet", "node", "--name", "n1", "--out", str(out), "--profile", profile, ""]
        )
        assert sorted(path.name for path in out.iterdir()) == [".expected", "expected.json", "n1.json"]
        assert {path.name for path in place.iterdir()} == {name, bin_.name}


def expanded(text: str) -> str:
    """As a kubelet hands an argument on: $$ is a dollar sign, and $(NAME) a variable's value."""
    found, rest = "", text
    while "$" in rest:
        before, _, rest = rest.partition("$")
        assert not rest.startswith("("), "a variable would be put in"
        found, rest = found + before + "$", rest.removeprefix("$")
    return found + rest


FILES = {"job": "job", "cronjob": "job", "daemonset": "daemonset"}


def manifest(file: str, job: Emission, claim: str) -> dict[str, Any]:
    """The pod that examines a node, and with a schedule, the collector as its first container."""
    cloud = Cloud(image="a", claim=claim, schedule="@daily" if file == "cronjob" else "")
    kind: CloudKind = "daemonset" if file == "daemonset" else "job"
    documents = list(yaml.safe_load_all(kubernetes(job, kind, cloud)[f"{file}.yaml"]))
    pod: dict[str, Any] = pod_of(documents[0])
    return {**pod, "collector": pod_of(documents[1])["containers"][0]} if file == "cronjob" else pod


@pytest.mark.slow
@given(name=TEXTS, profile=TEXTS, command=TEXTS, file=st.sampled_from(["job", "cronjob", "daemonset"]))
@example(name="$(HOME)", profile="a: b #", command="- x", file="job")
@example(name="\\u0041\\n", profile="null", command="!!python/object:x", file="daemonset")
@example(name="$round", profile="$(JOB_NAME)", command="'; id; '", file="cronjob")
def test_a_manifest(name: str, profile: str, command: str, file: str) -> None:
    if ".." in name:
        return
    nodes = None if file == "daemonset" else 2
    for claim in ("", "reports"):
        job = emission(
            NodeOrder(profile=profile), NodeOrder(), out=f"/r/{name}", command=command, nodes=nodes, gpus=None
        )
        pod = manifest(file, job, claim)
        doctor = (pod.get("initContainers") or pod["containers"])[0]
        argv = [*doctor["command"], *doctor.get("args", [])]
        if file != "job":
            assert argv[:2] == ["sh", "-c"]
            argv = argv[argv.index("sh", 1) + 1 :]
        assert expanded(argv[0]) == command
        assert [expanded(each) for each in argv[argv.index("--profile") :][:2]] == ["--profile", profile]
        (mount,) = [each for each in doctor["volumeMounts"] if each["name"] == "reports"]
        assert mount.get("subPath", "") == (f"r/{name}" if claim else "")
        volume = next(each for each in pod["volumes"] if each["name"] == "reports")
        assert volume.get("hostPath", {}).get("path", f"/r/{name}") == f"/r/{name}"
        plain = manifest(file, Emission(order=NodeOrder(), out="/r", limit_s=1, nodes=nodes), claim)
        assert set(pod) == set(plain)
        if file == "cronjob":
            assert expanded(pod["collector"]["command"][4]) == command
        rights = [json.dumps(each, sort_keys=True).count('"securityContext"') for each in (pod, plain)]
        assert rights[0] == rights[1]


@pytest.mark.parametrize("bad", ["a\nb", "a\0b", "a\u202eb", "a\u2028b", "a\x85b", "\ud800"])
def test_what_cannot_be_printed_is_refused(bad: str) -> None:
    for changed in ({"out": f"/{bad}"}, {"command": bad}):
        with pytest.raises(NotEmittable, match="nonprintable character"):
            emission(NodeOrder(), NodeOrder(), **{"out": "/r", "command": "d", "nodes": 1, "gpus": None, **changed})  # type: ignore[arg-type]
    with pytest.raises(NotEmittable, match="nonprintable character"):
        emission(NodeOrder(profile=bad), NodeOrder(), out="/r", command="d", nodes=1, gpus=None)
