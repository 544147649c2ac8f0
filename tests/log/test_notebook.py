"""A saved notebook is read as what its cells printed."""

from __future__ import annotations

import io
import json
from typing import Any

from every import every
from read_logs import HEALTHY, HIDDEN, LOST, causes, report_on

from tfgpu_doctor.log.lines import _BLOCK_BYTES, blocks
from tfgpu_doctor.log.notebook import Notebook


def lines_of(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def code(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": 1,
        "metadata": {},
        "outputs": list(outputs),
        "source": lines_of(source),
    }


def printed(text: str) -> dict[str, Any]:
    return {"name": "stderr", "output_type": "stream", "text": lines_of(text)}


def markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": lines_of(text)}


def notebook(*cells: dict[str, Any], indent: int | None = 1) -> str:
    whole = {"cells": list(cells), "metadata": {"kernelspec": {"name": "python3"}}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=indent) + "\n"


def plain(text: str) -> list[str]:
    """The lines that are not empty."""
    whole = b"".join(blocks(io.BytesIO(text.encode()), Notebook().plain)).decode()
    assert whole.count("\n") == text.count("\n")
    return [line for line in whole.split("\n") if line.strip()]


@every("text", [LOST, HEALTHY, HIDDEN])
def test_the_causes_are_those_of_the_text_that_was_printed(text: str) -> None:
    for indent in (1, 2):
        whole = notebook(markdown("# Training"), code("model.fit(x, y)\n", printed(text)), indent=indent)
        assert causes(whole) == causes(text)
        assert [found.evidence for found in report_on(whole).causes] == [
            found.evidence for found in report_on(text).causes
        ]


def test_outputs_are_plain_and_code_stays_as_it_is() -> None:
    shown = {
        "data": {"text/plain": ["[PhysicalDevice('x')]"], "image/png": "iVBORw0KGgo" * 9},
        "output_type": "execute_result",
    }
    trace = {
        "ename": "E",
        "evalue": "v",
        "output_type": "error",
        "traceback": ['\x1b[0;31mInternalError\x1b[0m: "dnn" failed'],
    }
    whole = notebook(
        markdown("Could not load\n"), code('print("a\\\\b")\nfit()', printed("C:\\new\tx\n"), shown, trace)
    )
    assert plain(whole) == [
        "C:\\new\tx",
        "[PhysicalDevice('x')]",
        'InternalError: "dnn" failed',
        '    "print("a\\\\b")\\n",'.replace("\\\\\\\\", "\\\\"),
        '    "fit()"',
    ]


def test_what_a_notebook_explains_is_no_symptom() -> None:
    explained = "If TensorFlow does not use my GPU, I get `Could not load dynamic library 'libcudnn.so.8'`.\n"
    comment = "# TensorFlow does not use my GPU, and training is slow\nimport numpy as np\n"
    assert causes(notebook(markdown(explained), code(comment, printed("Epoch 1/3\n")))) == []
    assert causes(explained) != []


def test_a_setting_in_the_code_is_seen() -> None:
    setting = 'import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "-1"\n'
    found = report_on(notebook(code(setting, printed(HIDDEN)))).causes[0]
    assert (found.label, found.confidence) == ("cuda_visible_devices_hides_gpu", "high")


def test_a_picture_longer_than_a_block_hides_nothing() -> None:
    picture = {"data": {"image/png": "iVBORw0KGgoA" * (_BLOCK_BYTES // 4)}, "output_type": "display_data"}
    assert causes(notebook(code("plot()", picture), code("fit()", printed(LOST)))) == causes(LOST)


def test_a_notebook_on_one_line_is_read_too() -> None:
    assert causes(notebook(code("fit()", printed(LOST)), indent=None))[0][0] == causes(LOST)[0][0]


def test_other_json_is_no_notebook() -> None:
    text = json.dumps({"cells": [1], "log": "x"}, indent=1) + "\n"
    assert plain(text) == text.splitlines()


def test_a_traceback_of_several_lines_has_no_codes_of_a_terminal() -> None:
    trace = {
        "output_type": "error",
        "traceback": ['\x1b[0;31mInternalError\x1b[0m\nin "fit"\n\x1b[1;32m7\x1b[0m end\n'],
    }
    assert plain(notebook(code("fit()", trace)))[0] == '"InternalError\\nin "fit"\\n7 end"'
