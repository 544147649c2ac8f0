"""A report in a notebook: the page in a frame of its own, and the difference between kernel and shell named in it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from browser import Browser
from healthy import broken, cuda_gpu, healthy
from locations import RECORDS

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts import decode_facts
from tfgpu_doctor.render.html_page import render_in_notebook

NOTEBOOK = "<!DOCTYPE html><html lang='en'><head><title>A notebook</title></head><body><h1>Mine</h1>%s</body></html>"
HOSTILE = "\"'></iframe><script>document.title = 'forged'</script>"


def test_the_frame_shows_the_page_and_reaches_nothing_around_it(browser: Browser) -> None:
    report = diagnose(decode_facts(RECORDS["tensorflow-2.21.0-misses-cusolver"].read_bytes()))
    browser.show(NOTEBOOK % render_in_notebook(report))
    font = browser.run("return getComputedStyle(document.querySelector('h1')).fontSize")
    assert font == "32px"  # the browser's own: the page's style stays in its frame
    assert browser.run("return document.querySelector('iframe').sandbox.value") == "allow-scripts"
    browser.enter("iframe")
    try:
        assert browser.run("return document.querySelector('h1').textContent") == report.causes[0].title
        assert browser.run("return document.querySelectorAll('.copied button').length") == sum(
            len(cause.fix.commands) for cause in report.causes
        )
        assert (
            browser.run("try { return parent.document.title } catch (error) { return error.name }") == "SecurityError"
        )
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        browser.click("nav a[href='#checks']")
        browser.wait("return document.getElementById('checks').getBoundingClientRect().top < innerHeight / 2")
    finally:
        browser.leave()
    assert browser.said == []
    assert browser.requested == []


def test_a_hostile_name_does_not_leave_the_frame(browser: Browser) -> None:
    report = diagnose(broken(cuda_driver={"gpus": (cuda_gpu(name=HOSTILE, compute_capability="5.2"),)}))
    browser.show(NOTEBOOK % render_in_notebook(report))
    assert browser.run("return document.title") == "A notebook"
    assert browser.run("return document.querySelectorAll('body > *').length") == 2


def test_a_healthy_machine_is_shown_too(browser: Browser) -> None:
    browser.show(NOTEBOOK % render_in_notebook(diagnose(healthy())))
    browser.enter("iframe")
    try:
        assert "TensorFlow computes on the GPU" in browser.run("return document.querySelector('h1').textContent")
    finally:
        browser.leave()


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Any]]]:
    """What a real kernel answers to a cell, where its shell finds another environment."""
    manager = pytest.importorskip("jupyter_client", reason="jupyter_client is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    folder = tmp_path_factory.mktemp("notebook")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "other")], check=True)
    environment = {
        **os.environ, "PATH": f"{folder}/other/bin:{os.environ['PATH']}", "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"), "XDG_CACHE_HOME": str(folder / "cache"),
        "TMPDIR": str(folder),  # the kernel is killed, and what it leaves there goes with the folder
    }  # fmt: skip
    kernel = manager.KernelManager()
    kernel.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    kernel.start_kernel(env=environment, cwd=str(folder))
    client = kernel.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=300)
        found: list[dict[str, Any]] = []
        client.execute_interactive(
            "import tfgpu_doctor\ntfgpu_doctor.check(quick=True)", timeout=300, output_hook=found.append
        )
        yield found
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Jupyter's own packages
def test_in_a_real_kernel_the_shell_that_differs_is_named(
    outputs: list[dict[str, Any]], browser: Browser, tmp_path: pathlib.Path
) -> None:
    [answer] = [row["content"]["data"] for row in outputs if row["msg_type"] == "execute_result"]
    browser.show(NOTEBOOK % answer["text/html"])
    browser.enter("iframe")
    try:
        words = browser.run("return document.getElementById('NBK005').textContent")
    finally:
        browser.leave()
    assert f"the notebook's kernel runs {sys.executable}, but its shell finds " in " ".join(words.split())
    assert "/other/bin/python" in words
