"""Texts that speak to whoever prints them, and every place where a command reads a text that somebody else wrote."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
from doctor_command import run_doctor
from healthy import broken, cuda_gpu, distribution, nvml_gpu, runtime
from locations import RECORDS
from made_trace import save, training
from made_up_fleet import MadeUpFleet

from tfgpu_doctor.fleet.node import Cause, Unmet, file_name
from tfgpu_doctor.model import Figure
from tfgpu_doctor.model.facts import Facts, encode_facts
from tfgpu_doctor.model.facts.nvidia import GpuProcess

HOSTILE = (
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07 of the window",
    "\x1b]8;;http://forged.example\x1b\\link\x1b]8;;\x1b\\",
    "\x9b31mred",
    "\x9d0;title\x9c",
    "wrong\x08\x08\x08\x08\x08right",
    "a bell\x07",
    "\rHealthy: TensorFlow computes on the GPU. forged",
    "\u202eturned",
    "\u2066isolated\u2069 \u200fmark",
    "\n✗ forged verdict",
    "\nHealthy: TensorFlow computes on the GPU. forged",
    "\n# forged heading",
    "\n\nforged heading\n==============\n",
    "\n- forged item\n\n    forged code",
    "::error file=a,line=1::forged",
    "  ::warning::forged",
    "\n::set-output name=a::forged",
    "\r\n\t::add-mask::forged",
    "##[group]forged",
    "##[error]forged",
    "##vso[task.setvariable variable=a]forged",
    "\t##vso[task.complete result=Succeeded;]forged",
    "##teamcity[buildStatus text='forged']",
    "section_start:1700000000:forged\r\x1b[0Kforged",
    "@forged see #4242, GH-4242 and !4242",
    "[forged](http://forged.example) ![forged](http://forged.example/i.png)",
    "<img src=x onerror=alert(1)><script>alert(1)</script></details>",
    "| forged | cell |\n|---|---|\n| forged | cell |",
    "```\n# forged heading\n```",
    "a\x0bb\x0cc\x85d\u2028e\u2029f\x7fg",
)
PLAIN = (r"C:\Users\Zoë\tf", "tensorflow::ops::Const", "naïve 中文 🙂", "50% of 1-2 (3)")

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_ANYWHERE = re.compile(r"##\[|##[a-z]+\[", re.IGNORECASE)  # where an Azure agent and TeamCity look
_AT_BEGIN = re.compile(r"\s*::[a-z-]+(?: [^\n]*?)?::", re.IGNORECASE)  # where a GitHub runner looks
_OWN_ANNOTATION = re.compile(r"::(?:error|warning|notice) title=")
_FORGED_LINE = re.compile(r"(?:[✗✓!] |Healthy: |#+ |::)?(?:TensorFlow computes on the GPU\. )?forged|={6,}$")
# In Markdown, what is not escaped and not code.
_FORGED_MARKUP = re.compile(
    r"(?<!\\)\]\(http://forged|(?<!\\)<(?:img|script|/details>forged)|(?<!\w)@forged|(?<!&)#4242|GH-4242|!4242|"
    r"^\s{0,3}(?:#+|\d+\.|`{3,}) ?forged|(?<!\\)\| cell \|",
    re.MULTILINE,
)
_CODE = re.compile(r"^(`{3,})\w*\n.*?^\1$", re.MULTILINE | re.DOTALL)


def spoken(document: str, format_: str) -> list[str]:
    """What a printed document says to a terminal, a CI service or a tracker that the doctor does not say; empty if nothing."""
    found = [f"control character {one[0]!r}: {_near(document, one)}" for one in _first(_CONTROL, document)]
    found += [f"command: {_near(document, one)}" for one in _first(_ANYWHERE, document)]
    for line in document.split("\n"):
        if _AT_BEGIN.match(line) and not (format_ == "github" and _OWN_ANNOTATION.match(line)):
            found.append(f"command: {line[:100]!r}")
        if format_ in ("text", "markdown") and _FORGED_LINE.match(line):
            found.append(f"forged line: {line[:100]!r}")
    if format_ == "markdown":
        found += [f"markup: {_near(document, one)}" for one in _first(_FORGED_MARKUP, _CODE.sub("", document))]
    return found


def _first(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    if found := pattern.search(text):
        yield found


def _near(text: str, found: re.Match[str]) -> str:
    return repr(text[max(0, found.start() - 50) : found.end() + 50])


Make = Callable[[pathlib.Path, str], Mapping[str, str] | None]


@dataclass(frozen=True)
class Entrance:
    """A text that a command reads; `{text}` in the command is that text. `make` puts it into the working folder, or into
    the environment variables that it returns.
    """

    command: tuple[str, ...]
    make: Make = lambda folder, text: None
    formats: tuple[str, ...] = ("text",)

    def runs(self, text: str) -> Iterator[tuple[str, list[str]]]:
        """Each format with the arguments of the command."""
        texts = {"{text}": text.replace("\0", ""), "{name}": as_name(text)}
        words = [_filled(word, texts) for word in self.command]
        for format_ in self.formats:
            yield format_, [*words, *(["--format", format_] if self.formats != ("text",) else [])]


def _filled(template: str, texts: Mapping[str, str]) -> str:
    return re.sub(r"\{(?:text|json|name)\}", lambda found: texts[found[0]], template)


def as_name(text: str) -> str:
    """The text as the name of a file."""
    return text.replace("/", "∕").replace("\0", "")[:80]


def _file(name: str, template: str) -> Make:
    """A file that holds the text, as it is or as a string of JSON (which TOML reads too)."""

    def make(folder: pathlib.Path, text: str) -> None:
        (folder / name).write_text(_filled(template, {"{json}": json.dumps(text), "{text}": text}), "utf-8")

    return make


def _variables(**templates: str) -> Make:
    def make(folder: pathlib.Path, text: str) -> Mapping[str, str]:
        del folder
        texts = {"{json}": json.dumps(text), "{text}": text.replace("\0", "")}
        return {name: _filled(template, texts) for name, template in templates.items()}

    return make


def _log(folder: pathlib.Path, text: str) -> None:
    lines = (
        f"{text} failed call to cuInit: UNKNOWN ERROR (34)", f"failed call to cuInit: UNKNOWN ERROR (34) {text}",
        f"Could not load dynamic library 'libcudnn.so.8'; dlerror: {text}: cannot open shared object file",
        f"{text} TF-TRT Warning: Could not find TensorRT {text}", f"ImportError: {text}",
        f"Created device /device:GPU:0 -> device: 0, name: {text}, pci bus id: 0000:01:00.0, compute capability: 8.6",
        f"OS: {text}", f"GPU: {text}", f"* **TensorFlow version**: {text}", f"NVRM: Xid (PCI:0000:01:00): 79, {text}",
    )  # fmt: skip
    (folder / "x.log").write_text("\n".join(lines) + "\n", "utf-8", errors="replace")


def machine(text: str) -> Facts:
    """A machine on which every name is the text."""
    process = GpuProcess(pid=7, name=text, memory_bytes=23 << 30, user=text)
    return msgspec.structs.replace(
        broken(
            nvml={"gpus": (nvml_gpu(name=text, processes=(process,), memory_free_bytes=1 << 20),)},
            cuda_driver={"gpus": (cuda_gpu(name=text, compute_capability="5.2"),)},
            system={"distribution": text, "release": text, "cpu_model": text, "glibc": text},
            target={"distributions": (distribution(text, text),), "prefix": text, "local_modules": (text,), "working_folder": text},
            runtime=runtime(gpus=(), computations=(), log=(text,), import_error=text),
            container={"kind": text}, environment={"variables": {"CUDA_VISIBLE_DEVICES": text, "XLA_FLAGS": text}},
        ),
        doctor=text, recorded=text,
    )  # fmt: skip


def _record(folder: pathlib.Path, text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    (folder / "x.json").write_bytes(encode_facts(machine(text)))


def _reports(folder: pathlib.Path, text: str) -> None:
    """The folder of a fleet whose nodes report the text wherever they can."""
    (folder / "reports").mkdir()
    fleet = MadeUpFleet(10)
    cause = Cause(
        label=text, id=text, title=text, severity="error", devices=(text,), figures=(Figure(text, 3, text, text),)
    )
    for name in ("n00001", "n00002"):
        unmet = (Unmet(key=text, title=text, required=text, measured=text),)
        fleet.nodes[name].update(causes=(cause,), unmet=unmet, exit_code=1, doctor=text, profile=text)
    lost = Cause(label="no_nvidia_driver", id=text, title=text, severity="error")
    fleet.nodes["n00006"].update(causes=(lost,), exit_code=1)
    fleet.set("n00003", {text: text, "kernel": text})
    fleet.nodes["n00004"].update(outcome="hung", reason=text, exit_code=None, settings={}, measurements=(), checks={})
    fleet.slow("n00005", 16, by=0.4)
    for node in fleet.nodes.values():
        node["measurements"] = [
            msgspec.structs.replace(each, name=f"{text}{each.name}", unit=text, device=text, model=text)
            for each in node["measurements"]
        ]  # fmt: skip
    fleet.nodes = {(name if name < "n00007" else f"{text}{name}"): node for name, node in fleet.nodes.items()}
    for name, node in fleet.nodes.items():
        node["node"] = name
    fleet.write(folder / "reports", whole=False)
    (folder / "reports" / as_name(f"{text}.txt")).write_text("x")
    (folder / "reports" / as_name(f"{text}.json")).write_text(json.dumps({"kind": text, "schema": text}))
    (folder / "reports" / file_name("n00000")).write_text(json.dumps({"kind": text}))
    (folder / "expected.json").write_text(json.dumps([*fleet.nodes, f"{text}missing"]))


def _certificate(folder: pathlib.Path, text: str) -> None:
    """A certificate that somebody changed."""
    document = json.loads(run_doctor("accept", "run", "--facts", _RECORD, "--profile", "ci", "--format", "json").stdout)
    (folder / "x.json").write_text(json.dumps({**document, "subject": text, "doctor": text, "made": text}))


def _store(folder: pathlib.Path, text: str) -> None:
    """A store with two days: a healthy one, and one of that fleet."""
    _reports(folder, text)
    before = MadeUpFleet(10)
    for node in before.nodes.values():
        node["began"] = "2026-11-20T12:00:00Z"
    before.write(folder / "before", whole=False)
    for reports in ("before", "reports"):
        assert run_doctor("fleet", "ingest", reports, "--store", "store", cwd=folder).returncode == 0


def _known(folder: pathlib.Path, text: str) -> None:
    _reports(folder, text)
    entry = '[[known]]\nnodes = ["*"]\ncause = "hung"\nowner = {json}\nwhy = {json}\nuntil = 2999-01-01\n'
    _file("known.toml", entry)(folder, text)


def _trace(folder: pathlib.Path, text: str) -> None:
    save(
        folder / as_name(text),
        training(function=text, stage=f"Iterator::Root::{text}", operation=f"{text}:MatMul", input_ms=8.0),
    )


_ALL = ("text", "json", "markdown", "junit", "github", "sarif", "html", "prometheus")
_PAGES = ("text", "json", "markdown", "html", "prometheus")
_CHECK = ("check", "--quick")
_RECORD = str(RECORDS["hgx-8-gpus-at-work"])
_SLURM = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_NUM_NODES": "2"}
_WORKER = '{"cluster": {"worker": ["a:1"], {json}: ["a:1", {json}]}, "task": {"type": {json}, "index": 0}}'
ENTRANCES: Mapping[str, Entrance] = {
    "log": Entrance(("log", "x.log"), _log, ("text", "json")),
    "log --given": Entrance(
        ("log", "x.log", *(word for key in ("gpu", "os", "tensorflow", "driver", "python") for word in ("--given", f"{key}={{text}}"))),
        _file("x.log", "failed call to cuInit: UNKNOWN ERROR (34)\nCUDA driver version is insufficient for CUDA runtime version\n"),
        ("text", "json"),
    ),
    "log --given of no key": Entrance(("log", "x.log", "--given", "{text}=1")),
    "log, no such file": Entrance(("log", "{text}")),
    "check --facts": Entrance(("check", "-v", "--facts", "x.json"), _record, _ALL),
    "check --facts, no such file": Entrance(("check", "--facts", "{text}")),
    "check --select": Entrance(("check", "--quick", "--select", "{text}")),
    "check --python": Entrance(("check", "--quick", "--python", "{text}"), formats=("text", "markdown", "github")),
    "check --root": Entrance((*_CHECK, "--root", "{text}")),
    "check -o": Entrance((*_CHECK, "-o", "nowhere/{text}")),
    "the job's summary": Entrance(_CHECK, _variables(GITHUB_STEP_SUMMARY="nowhere/{text}"), ("github",)),
    "an unknown command": Entrance(("{text}",)),
    "an unknown option": Entrance(("check", "--{text}")),
    "an unknown format": Entrance(("check", "--format", "{text}")),
    "settings, the selection": Entrance(("check", "--quick"), _file("tfgpu-doctor.toml", "select = [{json}]\n")),
    "settings, the Python": Entrance(("check", "--quick"), _file("tfgpu-doctor.toml", "python = {json}\n")),
    "settings, a value": Entrance(("check", "--quick"), _file("tfgpu-doctor.toml", "fail-level = {json}\n")),
    "settings, a key": Entrance(("check", "--quick"), _file("tfgpu-doctor.toml", "{json} = 1\n")),
    "settings, no TOML": Entrance(("check", "--quick"), _file("tfgpu-doctor.toml", "{text}\n")),
    "settings in pyproject.toml": Entrance(("check", "--quick"), _file("pyproject.toml", "[tool.tfgpu-doctor]\n{json} = 1\n")),
    "explain": Entrance(("explain", "{text}")),
    "advise --gpu": Entrance(("advise", "--gpu", "{text}")),
    "matrix --driver": Entrance(("matrix", "--driver", "{text}")),
    "rehearse --machine": Entrance(("rehearse", "--machine", "x.json"), _file("x.json", '{"gpus": [{"name": "H100", {json}: 1}]}')),
    "rehearse --gpu": Entrance(("rehearse", "--gpu", "{text}")),
    "accept, the profile": Entrance(("accept", "run", "--facts", _RECORD, "--profile", "{text}")),
    "accept, in the profile": Entrance(
        ("accept", "run", "--facts", _RECORD, "--profile", "x.toml"),
        _file("x.toml", 'about = {json}\ngpus = ">=9"\nmodels = [{json}]\n'),
        ("text", "json", "junit", "html"),
    ),
    "accept --facts": Entrance(("accept", "run", "--facts", "x.json", "--profile", "server"), _record, ("text", "json", "junit", "html")),
    "accept, a key of the profile": Entrance(("accept", "run", "--facts", _RECORD, "--profile", "x.toml"), _file("x.toml", "{json} = 1\n")),
    "accept verify": Entrance(("accept", "verify", "x.json"), _certificate),
    "ticket --facts": Entrance(("ticket", "--facts", "x.json"), _record),
    "ticket --log": Entrance(("ticket", "--facts", _RECORD, "--log", "x.log", "--dry-run", "-v"), _log),
    "bench, the suite": Entrance(("bench", "{text}")),
    "bench --budget": Entrance(("bench", "--budget", "{text}")),
    "trace, no such file": Entrance(("trace", "{text}")),
    "trace, the folder": Entrance(("trace", "{name}"), _trace, ("text", "json", "markdown", "html")),
    "watch, the command": Entrance(("watch", "--", "nowhere/{text}")),
    "fleet tfconfig, the cluster": Entrance(("fleet", "tfconfig", "--no-look"), _variables(TF_CONFIG=_WORKER)),
    "fleet tfconfig, the index": Entrance(("fleet", "tfconfig"), _variables(TF_CONFIG='{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": {json}}}')),
    "fleet tfconfig, no list": Entrance(("fleet", "tfconfig"), _variables(TF_CONFIG='{"cluster": {{json}: {json}}, "task": {"type": "worker", "index": 0}}')),
    "fleet tfconfig, of Slurm": Entrance(("fleet", "tfconfig", "--no-look"), _variables(**_SLURM, SLURM_JOB_NODELIST="{text}", SLURM_STEP_NODELIST="{text}")),
    "fleet report": Entrance(("fleet", "report", "reports", "--expect", "expected.json"), _reports, _PAGES),
    "fleet report, no such folder": Entrance(("fleet", "report", "{text}")),
    "fleet report --golden": Entrance(("fleet", "report", "reports", "--golden", "{text}"), _reports),
    "fleet report --known": Entrance(
        ("fleet", "report", "reports", "--known", "known.toml"),
        _known,
    ),
    "fleet act": Entrance(("fleet", "act", "reports", "--on", "slurm", "--dry-run"), _reports),
    "fleet drains": Entrance(("fleet", "drains", "--out", "reports", "--name", "n00006"), _reports),
    "fleet drains, no such report": Entrance(("fleet", "drains", "--out", ".", "--name", "{text}")),
    "fleet ingest": Entrance(("fleet", "ingest", "reports", "--store", "store", "--day", "{text}"), _reports),
    "fleet history": Entrance(("fleet", "history", "--store", "store"), _store, _PAGES),
    "fleet history --node": Entrance(("fleet", "history", "--store", "store", "--node", "{text}"), _store),
    "fleet rma": Entrance(("fleet", "rma", "reports", "{text}", "-o", "x.zip"), _reports),
    "fleet emit": Entrance(("fleet", "emit", "slurm", "--out", "{text}", "--profile", "{text}", "--partition", "{text}")),
    "fleet node, no such folder": Entrance(("fleet", "node", "--out", "{text}")),
}  # fmt: skip
