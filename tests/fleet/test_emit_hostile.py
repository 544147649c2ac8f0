"""Whatever the user calls folders, commands and profiles: it reaches the doctor as it is, and nothing else runs."""

from __future__ import annotations

import json
import pathlib
import tempfile

import pytest
import yaml
from emitted_jobs import DOCTOR, SCONTROL, SRUN, commands, run_script
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tfgpu_doctor.fleet.emitting import Emission, NotEmittable, emission
from tfgpu_doctor.fleet.emitting_jobs import Cloud, kubernetes, slurm
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
        assert sorted(path.name for path in out.iterdir()) == ["expected.json", "n1.json"]
        assert {path.name for path in place.iterdir()} == {name, bin_.name}


def expanded(text: str) -> str:
    """As a kubelet hands an argument on: $$ is a dollar sign, and $(NAME) a variable's value."""
    found, rest = "", text
    while "$" in rest:
        before, _, rest = rest.partition("$")
        assert not rest.startswith("("), "a variable would be put in"
        found, rest = found + before + "$", rest.removeprefix("$")
    return found + rest


@pytest.mark.slow
@given(name=TEXTS, profile=TEXTS, command=TEXTS, kind=st.sampled_from(["job", "daemonset"]))
@example(name="$(HOME)", profile="a: b #", command="- x", kind="job")
@example(name="\\u0041\\n", profile="null", command="!!python/object:x", kind="daemonset")
def test_a_manifest(name: str, profile: str, command: str, kind: str) -> None:
    nodes = 2 if kind == "job" else None
    if ".." in name:
        return
    for claim in ("", "reports"):
        job = emission(
            NodeOrder(profile=profile), NodeOrder(), out=f"/r/{name}", command=command, nodes=nodes, gpus=None
        )
        text = kubernetes(job, kind, Cloud(image="a", claim=claim))[f"{kind}.yaml"]  # type: ignore[arg-type]
        pod = yaml.safe_load(text)["spec"]["template"]["spec"]
        doctor = (pod.get("initContainers") or pod["containers"])[0]
        argv = [*doctor["command"], *doctor.get("args", [])]
        argv = argv[argv.index("sh", 1) + 1 :] if kind == "daemonset" else argv
        options = argv[argv.index("--out") :]
        assert expanded(argv[0]) == command
        assert [expanded(each) for each in options] == [
            "--out", f"/reports/r/{name}".rstrip("/") if claim else "/reports", "--profile", profile,
        ]  # fmt: skip
        volume = next(each for each in pod["volumes"] if each["name"] == "reports")
        assert volume.get("hostPath", {}).get("path", f"/r/{name}") == f"/r/{name}"
        assert set(pod) == set(_plain(kind, claim))
        assert (
            json.dumps(pod, sort_keys=True).count('"securityContext"')
            == len(pod["containers"]) + len(pod.get("initContainers", [])) + 1
        )


def _plain(kind: str, claim: str) -> dict[str, object]:
    job = Emission(order=NodeOrder(), out="/r", limit_s=1, nodes=2 if kind == "job" else None)
    text = kubernetes(job, kind, Cloud(image="a", claim=claim))[f"{kind}.yaml"]  # type: ignore[arg-type]
    found: dict[str, object] = yaml.safe_load(text)["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("bad", ["a\nb", "a\0b", "a\u202eb", "a\u2028b", "a\x85b", "\ud800"])
def test_what_cannot_be_printed_is_refused(bad: str) -> None:
    for changed in ({"out": f"/{bad}"}, {"command": bad}):
        with pytest.raises(NotEmittable, match="nonprintable character"):
            emission(NodeOrder(), NodeOrder(), **{"out": "/r", "command": "d", "nodes": 1, "gpus": None, **changed})  # type: ignore[arg-type]
    with pytest.raises(NotEmittable, match="nonprintable character"):
        emission(NodeOrder(profile=bad), NodeOrder(), out="/r", command="d", nodes=1, gpus=None)
