"""The plan: which commands of a fix the doctor may run itself, and where links must lie for libraries to be found."""

from __future__ import annotations

import os
import pathlib
import sys
from contextlib import nullcontext
from typing import Any

import msgspec
import pytest
from healthy import ANSWERED, healthy
from made_up_repairs import make_cause, make_plan

from tfgpu_doctor.fix.bounds import Bounds, NotPossible, check_bounds
from tfgpu_doctor.fix.installer import pip_variables
from tfgpu_doctor.fix.links import NO_COMPILER, NOT_FOUND, LinkStep
from tfgpu_doctor.fix.plan import PipStep, plan_repair
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.python import Distribution, Target
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

SITE = "/venv/lib/python3.12/site-packages"


def make_target(*libraries: str, **fields: Any) -> Target:
    """A target with pip's libraries, named as "cublas/libcublas.so.12"."""
    paths = tuple(f"{SITE}/nvidia/{each.replace('/', '/lib/')}" for each in libraries)
    known = {"executable": "/venv/bin/python", "prefix": "/venv", "base_prefix": "/usr", "nvidia_libraries": paths}
    return Target(attempt=ANSWERED, **{**known, **fields})


def missing(soname: str, *elsewhere: str, chain: tuple[str, ...] = ()) -> ResolvedLibrary:
    return ResolvedLibrary(
        soname=soname, found=False, needed_by_tensorflow=True, missing_chain=chain or (soname,), elsewhere=elsewhere
    )


def make_facts(target: Target, folders: list[str], *libraries: ResolvedLibrary) -> Facts:
    resolution = Resolution(
        opener=f"{SITE}/tensorflow/libtensorflow_framework.so.2",
        search_folders=tuple(f"{SITE}/tensorflow/../nvidia/{each}/lib" for each in folders),
        libraries=libraries,
    )
    return msgspec.structs.replace(healthy(), target=target, resolution=resolution)


def links_for(facts: Facts, label: str = NOT_FOUND) -> list[tuple[str, str]]:
    plan = plan_repair(make_cause("export LD_LIBRARY_PATH=/x", label=label), facts)
    return [(step.path.removeprefix(SITE + "/"), step.target) for step in plan.steps if isinstance(step, LinkStep)]


CUSOLVER = "cusolver/libcusolver.so.11"
COPY = f"{SITE}/nvidia/cusolver/lib/libcusolver.so.11"


def test_one_library_in_a_folder_that_is_not_searched() -> None:
    """TensorFlow 2.21.0."""
    target = make_target("cublas/libcublas.so.12", CUSOLVER)
    facts = make_facts(target, ["nvshmem", "cublas"], missing("libcusolver.so.11", COPY), missing("libcuda.so.1"))
    assert links_for(facts) == [("nvidia/cublas/lib/libcusolver.so.11", "../../cusolver/lib/libcusolver.so.11")]


def test_all_libraries_in_folders_that_are_not_searched() -> None:
    """TensorFlow 2.16.1: only the folder of cudart is searched."""
    names = ["cublas/libcublas.so.12", "cublas/libcublasLt.so.12", "cudnn/libcudnn.so.8", "cudnn/libcudnn_ops.so.8"]
    target = make_target("cuda_runtime/libcudart.so.12", *names)
    lost = [missing(each.split("/")[1], f"{SITE}/nvidia/{each.replace('/', '/lib/')}") for each in names]
    found = links_for(make_facts(target, ["cuda_runtime"], *lost))
    assert found[0] == ("nvidia/cuda_runtime/lib/libcublas.so.12", "../../cublas/lib/libcublas.so.12")
    assert [path.split("/")[1] for path, _ in found] == ["cuda_runtime"] * 4


def test_the_compiler_is_linked_beside_cudnn_with_what_it_opens() -> None:
    """cuDNN before 9.11: libnvrtc compiles nothing where its link has no libnvrtc-builtins beside it."""
    graph = ResolvedLibrary(
        soname="libcudnn_graph.so.9",
        found=True,
        needed_by_tensorflow=True,
        path=f"{SITE}/nvidia/cudnn/lib/libcudnn_graph.so.9",
    )
    names = ["cuda_nvrtc/libnvrtc-builtins.so.12.5", "cuda_nvrtc/libnvrtc.so.12"]
    copy = f"{SITE}/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"
    compiler = ResolvedLibrary(
        soname="libnvrtc.so.12", found=False, needed_by_tensorflow=False, asked_by=graph.soname, elsewhere=(copy,)
    )
    target = make_target("cudnn/libcudnn_graph.so.9", *names)
    assert links_for(make_facts(target, [], graph, compiler), NO_COMPILER) == [
        (f"nvidia/cudnn/lib/{name.split('/')[1]}", f"../../cuda_nvrtc/lib/{name.split('/')[1]}") for name in names
    ]
    system = msgspec.structs.replace(graph, path="/usr/lib/x86_64-linux-gnu/libcudnn_graph.so.9")
    assert links_for(make_facts(target, [], system, compiler), NO_COMPILER) == []


def test_library_that_another_needs_is_linked_beside_that_one() -> None:
    target = make_target("cufft/libcufft.so.11", "nvjitlink/libnvJitLink.so.12", "cublas/libcublas.so.12")
    needed = missing(
        "libcufft.so.11",
        f"{SITE}/nvidia/nvjitlink/lib/libnvJitLink.so.12",
        chain=("libcufft.so.11", "libnvJitLink.so.12"),
    )
    found = links_for(make_facts(target, ["cublas", "cufft"], needed))
    assert found == [("nvidia/cufft/lib/libnvJitLink.so.12", "../../nvjitlink/lib/libnvJitLink.so.12")]


def test_what_a_linked_library_needs_is_linked_beside_that_link() -> None:
    copies = [f"{SITE}/nvidia/{each}" for each in ("cufft/lib/libcufft.so.11", "nvjitlink/lib/libnvJitLink.so.12")]
    target = make_target("cublas/libcublas.so.12", "cufft/libcufft.so.11", "nvjitlink/libnvJitLink.so.12")
    chain = ("libcufftw.so.11", "libcufft.so.11", "libnvJitLink.so.12")
    lost = (missing("libcufft.so.11", copies[0]), missing(chain[0], copies[1], chain=chain))
    assert links_for(make_facts(target, ["cublas"], *lost)) == [
        ("nvidia/cublas/lib/libcufft.so.11", "../../cufft/lib/libcufft.so.11"),
        ("nvidia/cublas/lib/libnvJitLink.so.12", "../../nvjitlink/lib/libnvJitLink.so.12"),
    ]


@pytest.mark.parametrize(
    ("folders", "copy"),
    [
        (["nvshmem"], COPY),  # which is not installed
        (["cusolver"], COPY),  # the copy's own: then it is something else that keeps it from being found
        (["cublas"], "/home/user/.local/lib/python3.12/site-packages/nvidia/cusolver/lib/libcusolver.so.11"),
        (["cublas"], "/venv-of-another/lib/python3.12/site-packages/nvidia/cusolver/lib/libcusolver.so.11"),
        (["cublas"], "/venv/lib/python3.11/site-packages/nvidia/cusolver/lib/libcusolver.so.11"),
        (["cublas"], f"{SITE}/cupy/libcusolver.so.11"),  # not as deep: it would not find what it needs itself
    ],
)
def test_no_link_that_would_not_help(folders: list[str], copy: str) -> None:
    facts = make_facts(make_target("cublas/libcublas.so.12", CUSOLVER), folders, missing("libcusolver.so.11", copy))
    plan = plan_repair(make_cause("export LD_LIBRARY_PATH=/x", label=NOT_FOUND), facts)
    assert plan.steps == ()
    assert [each.text for each in plan.by_hand] == ["export LD_LIBRARY_PATH=/x"]


def test_links_are_for_that_cause_alone() -> None:
    facts = make_facts(make_target("cublas/libcublas.so.12", CUSOLVER), ["cublas"], missing("libcusolver.so.11", COPY))
    assert plan_repair(make_cause(label="driver_too_old"), facts).steps == ()


@pytest.mark.parametrize(
    ("command", "is_step"),
    [
        ("/venv/bin/python -m pip install 'numpy<2'", True),
        ("/venv/bin/python -m pip install --force-reinstall --no-deps numpy==2.1.0", True),
        ("/venv/bin/python -m pip uninstall -y tensorflow-cpu", True),
        ("/usr/bin/python3 -m pip install 'numpy<2'", False),
        ("/venv/bin/python -m pip download numpy", False),
        ("/venv/bin/python -m pip install --target=/tmp numpy", False),
        ("/venv/bin/python -m pip install --user numpy", False),
        ("/venv/bin/python -m pip", False),
        ("pip install numpy", False),
        ("sudo /venv/bin/python -m pip install numpy", False),
        ("export LD_LIBRARY_PATH=/x", False),
        ("/venv/bin/python -m pip install 'numpy", False),
    ],
)
def test_only_the_targets_own_pip_is_run(command: str, is_step: bool) -> None:
    plan = plan_repair(make_cause(command), make_facts(make_target(), []))
    assert bool(plan.steps) == is_step
    assert [each.text for each in plan.by_hand] == ([] if is_step else [command])


def test_tensorflow_is_not_brought_into_an_environment_that_has_none() -> None:
    command = "/venv/bin/python -m pip install 'tensorflow[and-cuda]'"
    plan = plan_repair(make_cause(command, label="wrong_python_environment"), make_facts(make_target(), []))
    assert plan.steps == ()
    assert [each.text for each in plan.by_hand] == [command]


def test_target_that_does_not_answer_leaves_all_to_the_user() -> None:
    facts = msgspec.structs.replace(healthy(), target=None)
    plan = plan_repair(make_cause("/venv/bin/python -m pip install x"), facts)
    assert plan.steps == ()
    assert len(plan.by_hand) == 1


PIP = PipStep(("/venv/bin/python", "-m", "pip", "install", "x"))


def test_managed_python_is_left_alone(tmp_path: pathlib.Path) -> None:
    bounds = Bounds(str(tmp_path), "base", (str(tmp_path),))
    with pytest.raises(NotPossible, match="managed by the system"):
        check_bounds(bounds, make_plan(PIP), make_target(externally_managed=True))


def test_environment_without_pip(tmp_path: pathlib.Path) -> None:
    with pytest.raises(NotPossible, match="has no pip"):
        check_bounds(Bounds(str(tmp_path), "virtual", (str(tmp_path),)), make_plan(PIP), make_target())


@pytest.mark.parametrize(("kind", "words"), [("virtual", "read-only"), ("base", "is not a virtual environment")])
def test_folder_that_cannot_be_written(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Any, words: str
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    monkeypatch.setattr("os.access", lambda path, mode: path != str(closed))
    with pytest.raises(NotPossible, match=words):
        check_bounds(Bounds(str(tmp_path), kind, (str(tmp_path), str(closed))), make_plan(), make_target())


def pip_in(folder: str) -> Distribution:
    return Distribution(name="pip", version="25.0", folder=folder)


def test_environment_of_another_user_is_not_changed_by_root(tmp_path: pathlib.Path) -> None:
    if sys.platform == "win32" or os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    bounds = Bounds(str(tmp_path), "virtual", (str(tmp_path),))
    check_bounds(bounds, make_plan(), make_target())  # root's own, as in a container
    for uid, name in ((65534, "nobody"), (64999, r"'#64999'")):
        os.chown(tmp_path, uid, -1)
        with pytest.raises(NotPossible, match=rf"{tmp_path} belongs to the user {name}, .* with `sudo -u {name}`"):
            check_bounds(bounds, make_plan(), make_target())


USER_SITE = "/home/u/.local/lib/python3.12/site-packages"


@pytest.mark.parametrize(
    ("kind", "words", "is_refused"),
    [
        ("conda", ("install", "Proto_Buf>=5.28"), True),
        ("base", ("uninstall", "-y", "proto-buf"), True),
        ("conda", ("install", "numpy<2"), False),
        ("virtual", ("install", "proto-buf"), False),  # its own packages come before those of the user site
    ],
)
def test_what_is_in_the_user_site_is_left_to_the_user(
    tmp_path: pathlib.Path, kind: Any, words: tuple[str, ...], is_refused: bool
) -> None:
    found = Distribution(name="proto-buf", version="3.20", folder=USER_SITE)
    target = make_target(user_site=USER_SITE, distributions=(found, pip_in(str(tmp_path))))
    plan = make_plan(PipStep(("/venv/bin/python", "-m", "pip", *words)))
    with pytest.raises(NotPossible, match=f"proto-buf is in {USER_SITE}") if is_refused else nullcontext():
        check_bounds(Bounds(str(tmp_path), kind, (str(tmp_path),)), plan, target)


def test_a_pip_of_the_user_site_is_none(tmp_path: pathlib.Path) -> None:
    target = make_target(user_site=USER_SITE, distributions=(pip_in(USER_SITE),))
    with pytest.raises(NotPossible, match="has no pip"):
        check_bounds(Bounds(str(tmp_path), "base", (str(tmp_path),)), make_plan(PIP), target)


def test_pip_sees_neither_the_user_site_nor_pythonpath() -> None:
    kept = pip_variables({"PYTHONPATH": "/lib", "PIP_TARGET": "/x", "PIP_INDEX_URL": "https://a", "HOME": "/home/u"})
    assert kept["PYTHONNOUSERSITE"] == "1"
    assert kept["PIP_INDEX_URL"] == "https://a"
    assert not kept.keys() & {"PYTHONPATH", "PIP_TARGET"}
