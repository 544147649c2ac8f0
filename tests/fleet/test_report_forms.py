"""The comparison of a fleet in every format: valid, short, safe against names from elsewhere, and seen in a browser."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
from collections.abc import Iterator

import jsonschema
import pytest
from browser import Browser
from doctor_command import run_doctor
from document_shapes import SHAPES
from locations import ROOT
from made_up_fleet import MODELS, MadeUpFleet

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("numpy", reason="the extra fleet is not installed")

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.fleet.compared import expected_names
from tfgpu_doctor.fleet.fleet import STATUSES, Fleet
from tfgpu_doctor.fleet.formats import FLEET_FORMATS
from tfgpu_doctor.fleet.merge import merge
from tfgpu_doctor.fleet.node import Cause, Unmet, file_name
from tfgpu_doctor.fleet.page import render_fleet
from tfgpu_doctor.fleet.settings import settings_of
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model import Figure
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.limits import Limits

SCHEMA = json.loads((ROOT / "doctor/fleet/fleet.schema.json").read_text("utf-8"))
HOSTILE = (
    "\n✗ forged\r::error::forged\x1b[31mred\x1b]0;title\x07<script>alert(1)</script></title></svg>&amp;]]>-->`code`| a | b |\n"
    '[link](http://x)![i](x)*a*_b_~~s~~# @all =HYPERLINK(1)\u202eturned\u2066"} 1\ntfgpu_doctor_fleet_nodes{status="good"} 7\n'
    "{{ x }}${x}\\\\\" onload=alert(1) '\x00\u2028\n- forged\n</details>\n```\n## forged"
)


def troubled(text: str) -> MadeUpFleet:
    """A fleet with something to say in every section, and `text` in every place that a node can fill."""
    fleet = MadeUpFleet(40, models=2)
    cause = Cause(
        label=text, id=text, title=text, severity="error", devices=(text,), figures=(Figure(text, 3, text, text),)
    )
    fleet.slow("n00003", 16, by=0.3)
    fleet.slow("n00004", 16, by=0.3)
    for name in ("n00005", "n00006"):
        fleet.nodes[name].update(
            causes=(cause,),
            unmet=(Unmet(key=text, title=text, required=text, measured=text),),
            exit_code=1,
            checks={**fleet.nodes[name]["checks"], text: "fail"},
        )
    fleet.set("n00007", {text: text, "kernel": text, "$X": text})
    fleet.nodes["n00008"].update(outcome="hung", reason=text, exit_code=None, settings={}, measurements=(), checks={})
    fleet.nodes["n00009"].update(exit_code=3, unjudged=text)
    for place, node in enumerate(fleet.nodes.values()):
        node["settings"] = (
            {**node["settings"], "groups": f"{text}{place % 2}", "own": f"{text}{place}"} if node["settings"] else {}
        )
        node["measurements"] = [
            each if place else type(each)(**{**{name: getattr(each, name) for name in each.__struct_fields__}, "name": text, "unit": text, "device": text})
            for each in node["measurements"][14:18]
        ]  # fmt: skip
    renamed = {f"{text}{name}": {**node, "node": f"{text}{name}"} for name, node in fleet.nodes.items()}
    fleet.nodes = renamed
    return fleet


def compared(text: str, folder: pathlib.Path) -> Fleet:
    fleet = troubled(text)
    fleet.write(folder, whole=False)
    again = MadeUpFleet(40, models=2, seed=2)
    again.slow("n00003", 16, by=0.3)
    again.nodes = {
        f"{text}{name}": {**node, "node": f"{text}{name}"}
        for name, node in again.nodes.items()
        if name in ("n00003", "n00004")
    }
    again.write(folder / "second", whole=False)
    (folder / "bad.json").write_text("{")
    return merge(str(folder), expected=[*fleet.nodes, f"{text}missing"])


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return compared("\x01x", tmp_path_factory.mktemp("harmless"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return compared(HOSTILE, tmp_path_factory.mktemp("hostile"))


@pytest.mark.parametrize("format_", ["text", "json", "markdown", "html"])
def test_hostile_names_stay_in_their_cells(format_: str, found: Fleet, hostile: Fleet) -> None:
    assert {each: len(nodes) for each, nodes in found.statuses.items()} == {
        each: len(nodes) for each, nodes in hostile.statuses.items()
    }
    if format_ == "json":  # keys of dictionaries are names of checks
        jsonschema.validate(json.loads(render_fleet(hostile, "json")), SCHEMA)
        assert not re.search(r"[\x00-\x09\x0b-\x1f]", render_fleet(hostile, "json"))
        return
    harmless, document = (render_fleet(each, format_) for each in (found, hostile))
    assert SHAPES[format_](document) == SHAPES[format_](harmless)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", document)
    assert format_ == "text" or "<script>alert(1)" not in document
    assert not any(line.lstrip().startswith(("::", "##[")) for line in document.splitlines())


@pytest.mark.parametrize("which", ["found", "hostile"])
def test_prometheus_reads_what_was_written(which: str, request: pytest.FixtureRequest) -> None:
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is not installed")
    fleet: Fleet = request.getfixturevalue(which)
    document = render_fleet(fleet, "prometheus")
    families = {family.name: family for family in parser.text_string_to_metric_families(document)}
    samples = {sample.labels["status"]: sample.value for sample in families["tfgpu_doctor_fleet_nodes"].samples}
    assert samples == {each: len(fleet.statuses[each]) for each in STATUSES}
    odd = families["tfgpu_doctor_fleet_node_status"].samples
    assert len(odd) == sum(len(nodes) for each, nodes in fleet.statuses.items() if each != "good")
    assert all(family.type == "gauge" for family in families.values())
    assert all(name.startswith("tfgpu_doctor_fleet_") for name in families), "a node's own document has other names"
    assert len(families["tfgpu_doctor_fleet_node_cause"].samples) == len(
        {(node, each.id, each.label, each.severity) for each in fleet.causes for node in each.nodes}
    )
    assert sum(len(family.samples) for family in families.values()) == sum(
        not line.startswith("#") for line in document.splitlines()
    )
    seconds = [sample for family in families.values() for sample in family.samples]
    assert len({(each.name, tuple(sorted(each.labels.items()))) for each in seconds}) == len(seconds)


def test_the_document_is_as_its_schema_says(found: Fleet) -> None:
    document = json.loads(render_fleet(found, "json"))
    jsonschema.validate(document, SCHEMA)
    assert document["schema"] == 2
    assert list(document["statuses"]) == list(STATUSES)


HEALTHY = "Every node is healthy according to its own report."


def test_only_what_was_compared_is_called_alike_and_as_fast(tmp_path: pathlib.Path) -> None:
    def told(fleet: MadeUpFleet, name: str) -> str:
        fleet.write(tmp_path / name, whole=False)
        found = merge(str(tmp_path / name))
        assert found.exit_code == 0
        return " ".join(render_fleet(found, "text").partition(HEALTHY)[2].split())

    assert told(MadeUpFleet(8), "eight") == "No node differs. No node is slower than noise explains."
    few = MadeUpFleet(4)
    few.slow("n00000", 16, by=0.9)
    assert told(few, "few") == "No node differs. Not every speed was compared."
    assert told(MadeUpFleet(1), "one") == "Not every speed was compared."
    two_drivers = MadeUpFleet(8)
    for name in list(two_drivers.nodes)[:4]:
        two_drivers.set(name, {"kernel module": "570.1"})
    assert told(two_drivers, "two drivers") == "No node is slower than noise explains."
    unmeasured = MadeUpFleet(8)
    for node in unmeasured.nodes.values():
        node["measurements"] = ()
    assert told(unmeasured, "unmeasured") == "No node differs. No speed was measured."


def test_limits_that_the_kernel_takes_from_the_memory_are_no_settings() -> None:
    """Of ten equal nodes, some have a few processes more than others."""
    facts = Facts(limits=Limits(resources={"nproc": 515_506, "nofile": 1024}))
    settings = settings_of(facts, diagnose(facts))
    assert settings["limit nofile"] == "1024"
    assert "limit nproc" not in settings


def test_the_text_is_short_and_begins_with_causes(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(500)
    for node in list(fleet.nodes)[:12]:
        fleet.nodes[node].update(
            causes=(Cause(label="driver_too_old", id="DRV002", title="the driver is too old", severity="error"),),
            exit_code=1,
        )
    for node in list(fleet.nodes)[20:40]:
        fleet.set(node, {"kernel": "old"})
    fleet.write(tmp_path, whole=False)
    text = render_fleet(merge(str(tmp_path)), "text")
    assert (
        text.splitlines()[0] == "500 nodes: 12 with findings in their own report, 20 configured differently, 468 good."
    )
    assert "  • 12 nodes: n[00000-00011]: the driver is too old (DRV002, driver_too_old, error)" in text
    assert "  • 20 nodes: n[00020-00039]: kernel old (others 6.8.0-48-generic)" in text
    assert text.index("Causes") < text.index("Configured differently")
    assert len(text.splitlines()) < 10


# As a user runs it


def test_formats_have_one_exit_code(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(12)
    fleet.write(tmp_path / "reports")
    for format_ in FLEET_FORMATS:
        done = run_doctor(
            "fleet", "report", str(tmp_path / "reports"), "--format", format_, "-o", str(tmp_path / format_)
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert (tmp_path / format_).stat().st_size > 50
    fleet.set("n00003", {"kernel": "old"})
    fleet.write(tmp_path / "reports")
    for format_ in FLEET_FORMATS:
        assert run_doctor("fleet", "report", str(tmp_path / "reports"), "--format", format_).returncode == 1


def test_who_was_expected_is_taken_from_file_names_or_the_folder(tmp_path: pathlib.Path) -> None:
    MadeUpFleet(3).write(tmp_path)
    names = ["n00000", "n00001", "n00002", "n00003"]
    lists = tmp_path / "lists"
    lists.mkdir()
    (lists / "nodes.txt").write_text("\n".join(names) + "\n")
    (lists / "nodes.json").write_text(json.dumps(names))
    for expect in (str(lists / "nodes.txt"), str(lists / "nodes.json"), ",".join(names)):
        done = run_doctor("fleet", "report", str(tmp_path), "--expect", expect)
        assert done.returncode == 1
        assert "1 node: n00003: not heard of" in done.stdout
    assert "not heard of" not in run_doctor("fleet", "report", str(tmp_path)).stdout
    (tmp_path / "expected.json").write_text(json.dumps(names))
    assert "1 node: n00003: not heard of" in run_doctor("fleet", "report", str(tmp_path)).stdout


@pytest.mark.parametrize("form", ["node/{}\n", "  {}  \n\n", "node/{},"])
def test_a_file_of_expected_nodes_may_be_written_by_kubectl(tmp_path: pathlib.Path, form: str) -> None:
    MadeUpFleet(3).write(tmp_path / "reports")
    names = ["n00000", "n00001", "n00002", "n00003"]
    (tmp_path / "nodes.txt").write_text("".join(map(form.format, names)))
    assert expected_names(str(tmp_path), str(tmp_path / "nodes.txt")) == names
    assert expected_names(str(tmp_path), ",".join(f"node/{name}" for name in names)) == names


def test_a_line_of_expected_nodes_may_be_a_set(tmp_path: pathlib.Path) -> None:
    (tmp_path / "nodes.txt").write_text("n[001-003]\nlogin\n")
    assert expected_names(str(tmp_path), str(tmp_path / "nodes.txt")) == ["n001", "n002", "n003", "login"]


@pytest.mark.parametrize("content", ["", "\n \n", "[]"])
def test_a_file_that_expects_nobody_is_refused(tmp_path: pathlib.Path, content: str) -> None:
    MadeUpFleet(3).write(tmp_path / "reports")
    (tmp_path / "nodes.txt").write_text(content)
    for command in (
        ["report", str(tmp_path / "reports")],
        ["ingest", str(tmp_path / "reports"), "--store", str(tmp_path / "s")],
    ):
        done = run_doctor("fleet", *command, "--expect", str(tmp_path / "nodes.txt"))
        assert (done.returncode, done.stdout) == (2, "")
        assert "nodes.txt names no node" in done.stderr


def test_golden_may_be_a_node_or_a_file(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(6)
    fleet.set("n00002", {"kernel": "new"})
    fleet.write(tmp_path / "reports")
    for golden in ("n00002", str(tmp_path / "reports" / file_name("n00002"))):
        done = run_doctor("fleet", "report", str(tmp_path / "reports"), "--golden", golden)
        assert "5 nodes: n[00000-00001,00003-00005]: kernel 6.8.0-48-generic (others new)" in done.stdout


def test_wrong_usage_is_one_line(tmp_path: pathlib.Path) -> None:
    MadeUpFleet(3).write(tmp_path)
    (tmp_path / "no.txt").write_text("[1")
    for arguments in (
        [str(tmp_path / "nowhere")], [str(tmp_path), "--golden", "nobody"], [str(tmp_path), "--golden", str(tmp_path / "no.txt")],
        [str(tmp_path), "--history", str(tmp_path / "nowhere")], [str(tmp_path), "--expect", str(tmp_path / "no.txt")],
    ):  # fmt: skip
        done = run_doctor("fleet", "report", *arguments)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr


def test_an_empty_folder_is_not_judged(tmp_path: pathlib.Path) -> None:
    done = run_doctor("fleet", "report", str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "Not judged: no node reported.\n")


# The page


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with contextlib.closing(Browser(tmp_path_factory.mktemp("browser"))) as opened:
        yield opened


@pytest.mark.parametrize("which", ["found", "hostile"])
def test_the_page_fits_and_can_be_read(which: str, browser: Browser, request: pytest.FixtureRequest) -> None:
    page = render_fleet(request.getfixturevalue(which), "html")
    for scheme in ("light", "dark"):
        browser.show(page, scheme=scheme)
        browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
        assert browser.pale == []
    for width in (320, 768, 1440):
        browser.look(width=width)
        assert browser.overflowing == [], width
    assert browser.said == []
    assert browser.requested == []


@pytest.mark.slow
def test_ten_thousand_nodes_are_a_page_that_can_be_used(browser: Browser, tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(10_000, models=4)
    for place, node in enumerate(fleet.nodes):
        if place % 3 == 0:  # worst case: thousands of nodes that each differ in their own way
            fleet.set(node, {"kernel": f"k{place}"})
            fleet.nodes[node]["checks"] = {**fleet.nodes[node]["checks"], f"X{place % 500}": "fail"}
    fleet.write(tmp_path, whole=False)
    page = render_fleet(merge(str(tmp_path)), "html")
    assert len(page) < 5 << 20
    assert all(model in page for model in MODELS)
    browser.show(page)
    assert browser.run("return document.querySelectorAll('*').length") < 30_000
    assert browser.said == []


def test_a_node_is_found_and_its_report_is_linked(browser: Browser, tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(40)
    cause = Cause(label="driver_too_old", id="DRV002", title="driver 470 is too old", severity="error")
    for name in ("n00003", "n00017"):
        fleet.nodes[name].update(causes=(cause,), exit_code=1)
    fleet.set("n00008", {"kernel": "5.4.0-1"})
    fleet.write(tmp_path / "night one")
    done = run_doctor(
        "fleet", "report", str(tmp_path / "night one"), "--format", "html", "-o", str(tmp_path / "fleet.html")
    )
    assert done.returncode == 1
    page = (tmp_path / "fleet.html").read_text()
    links = re.findall(r'<a href="([^"#]*)">(n\d+)</a>', page)
    assert links == [
        ("night%20one/n00003.json", "n00003"),
        ("night%20one/n00017.json", "n00017"),
        ("night%20one/n00008.json", "n00008"),
    ]
    browser.show(page)
    visible = "return [...document.querySelectorAll('#node-rows tr')].filter((row) => row.offsetHeight).map((row) => row.cells[0].textContent)"
    assert browser.run(visible) == ["n00003", "n00017", "n00008"]
    find = "const field = document.querySelector('[type=search]'); field.value = arguments[0]; field.dispatchEvent(new Event('input'))"
    for words, names in (
        ("N00017", ["n00017"]),
        ("too old", ["n00003", "n00017"]),
        ("kernel", ["n00008"]),
        ("nobody", []),
        ("", ["n00003", "n00017", "n00008"]),
    ):
        browser.run(find.replace("arguments[0]", json.dumps(words)))
        assert browser.run(visible) == names, words
    fix = read_knowledge().causes["driver_too_old"].fix
    assert fix.split("`")[0].split("'")[0] in page.partition("What to do")[2]
