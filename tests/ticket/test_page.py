"""The page of a ticket: short enough for a comment, and whatever a machine says stays in its place."""

from __future__ import annotations

import re

import pytest
from every import sampled
from markdown_it import MarkdownIt
from ticket.places import facts_with

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.bench import Bench, Comparison
from tfgpu_doctor.model.facts.nvidia import CudaDriver, CudaGpu, Nvml, NvmlGpu
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.ticket.contents import Source, make_ticket
from tfgpu_doctor.ticket.identity import Identity

HOSTILE = (
    "</details><script>alert(1)</script>", "```\n```` ~~~ | a | b |", "[x](javascript:alert(1)) ![y](http://e.x/z)",
    "::set-output name=a::b", "=cmd|' /C calc'!A0", "\x1b[2J\x07 \u202eevil\u2066", "| a | b |\n|---|---|", "x" * 1_000_000,
)  # fmt: skip
FOLDED = re.compile(r"<details><summary>[\w\s',.·&;]+</summary>|</details>")


def page_of(facts: Facts, bench: Bench | None = None) -> str:
    return make_ticket(Source(facts, Identity(), bench=bench)).page


def html_in(page: str) -> list[str]:
    """What a reader of Markdown takes for HTML."""
    tokens = MarkdownIt("commonmark").enable("table").parse(page)
    inline = [child for token in tokens for child in token.children or ()]
    return [token.content.strip() for token in (*tokens, *inline) if token.type in ("html_block", "html_inline")]


@pytest.mark.parametrize("text", sampled(HOSTILE, 3), ids=range(len(HOSTILE)))
def test_whatever_a_machine_says_stays_in_its_place(text: str) -> None:
    page = page_of(facts_with(lambda place: text))
    assert len(page) <= 65_536
    assert [html for html in html_in(page) if not FOLDED.fullmatch(html)] == []
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", page)
    assert "\nTo reproduce this diagnosis from the bundle" in page
    assert "tfgpu-doctor --facts ticket.zip" in page


@pytest.mark.parametrize(
    ("line", "fence"), [("x", "```"), ("``", "```"), ("```", "````"), ("a ```` b", "`````"), ("` ```` ``", "`````")]
)
def test_the_fence_of_a_log_is_one_mark_longer_than_any_in_it(line: str, fence: str) -> None:
    page = page_of(Facts(runtime=Runtime(attempt=Attempt(outcome="answered"), log=(line,))))
    (log,) = re.findall(r"<summary>TensorFlow's log</summary>\n\n(.*?)\n\n</details>", page, re.DOTALL)
    assert log == f"{fence}text\n{line}\n{fence}"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
            r"- `\w+`, confidence \w+: .+",
        ),
        ("Epoch 1/10", r"The log shows no known cause\."),
    ],
)
def test_the_section_of_a_log_begins_with_its_causes_or_says_that_there_are_none(line: str, told: str) -> None:
    page = make_ticket(Source(Facts(), Identity(), log=f"{line}\n".encode())).page
    (log,) = re.findall(r"<summary>The log</summary>\n\n(.*?)\n\n</details>", page, re.DOTALL)
    first, _ = log.split("\n\n", 1)
    assert all(re.fullmatch(told, each) for each in first.split("\n")), first


def test_a_page_with_much_to_say_fits_a_comment() -> None:
    log = tuple(f"E cuda_executor.cc:{number}] failed call to cuInit: error {number}" for number in range(3000))
    runtime = Runtime(attempt=Attempt(outcome="answered"), log=log)
    comparisons = tuple(
        Comparison(suite="pipeline", name=f"map_{number}", verdict="faster", ratio=2.0) for number in range(800)
    )
    page = page_of(Facts(runtime=runtime), Bench(comparisons=comparisons))
    assert len(page) <= 65_536
    assert "The last benchmark: too long for a comment; it is in the bundle." in page
    assert "more lines" in page


def test_the_last_benchmark_is_shown_and_packed() -> None:
    bench = Bench(
        suite_version="1", comparisons=(Comparison(suite="pipeline", name="prefetch", verdict="faster", ratio=1.59),)
    )
    ticket = make_ticket(Source(Facts(), Identity(), bench=bench))
    assert "| pipeline" in ticket.page
    assert b'"prefetch"' in ticket.files["bench.json"]


@pytest.mark.parametrize(
    ("free", "shown"), [(None, "59.9 GiB"), (0, "0.0 of 59.9 GiB free"), (3 << 30, "3.0 of 59.9 GiB free")]
)
def test_free_memory_that_is_not_known_is_not_shown(free: int | None, shown: str) -> None:
    total = int(59.9 * (1 << 30))
    cuda = CudaDriver(Attempt(outcome="answered"), gpus=(CudaGpu(0, "Orin", "8.7", memory_bytes=total),))
    nvml = Nvml(
        Attempt(outcome="answered"), gpus=(NvmlGpu(0, "Orin", memory_total_bytes=total, memory_free_bytes=free),)
    )
    page = page_of(Facts(cuda_driver=cuda) if free is None else Facts(nvml=nvml))
    (row,) = re.findall(r"^\| 0 +\|.*$", page, re.MULTILINE)
    assert [cell.strip() for cell in row.split("|")][1:4] == ["0", "Orin", shown]
