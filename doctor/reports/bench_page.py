"""The report on a run of the perf suites."""

from __future__ import annotations

import html

import msgspec
from tabulate import tabulate

from tfgpu_doctor.bench.compare import Comparison
from tfgpu_doctor.bench.result import BenchReport
from tfgpu_doctor.facts.bench import Duel, Figure
from tfgpu_doctor.reports.text import clean

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_ALWAYS = {
    "suite": "",
    "name": "",
    "verdict": "",
    "ratio": None,
    "interval": None,
    "rounds": 0,
    "reason": "",
    "device": "",
}
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1em;color:#1b1b1b;background:#fff}"
    "table{border-collapse:collapse;margin:1em 0}th,td{text-align:left;padding:.25em .9em;border-bottom:1px solid #ddd}"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}th,td{border-color:#444}}"
)


def render_bench(result: BenchReport, format_: str) -> str:
    """The document in one of the formats."""
    if format_ == "json":
        document = msgspec.to_builtins(result)
        document["duels"] = [{**_ALWAYS, **duel} for duel in document["duels"]]
        return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
    if format_ == "html":
        return _html(result)
    return clean_lines("\n\n".join(_parts(result, "pipe" if format_ == "markdown" else "simple")))


def clean_lines(text: str) -> str:
    """Every line without characters that steer a terminal."""
    return "\n".join(clean(line).rstrip() for line in text.splitlines()) + "\n"


def _parts(result: BenchReport, style: str) -> list[str]:
    """The parts of the page, tables in a style of tabulate's."""
    parts = [_head(result), _causes(result), _duels(result.duels, style), _figures(result.figures, style)]
    if result.reference:
        parts.append(_comparisons(result.comparisons, style))
    return [part for part in (*parts, _not_measured(result), _closing(result)) if part]


def _html(result: BenchReport) -> str:
    """A page that needs no other file, and runs no script."""
    parts = [
        part if part.startswith("<table>") else f"<p>{html.escape(clean(part)).replace(chr(10), '<br>')}</p>"
        for part in _parts(result, "html")
    ]
    title = "tfgpu-doctor bench"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head>\n'
        f"<body><h1>{title}</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _head(result: BenchReport) -> str:
    machine = result.machine
    return " · ".join(
        word
        for word in (
            f"TensorFlow {result.target.tensorflow}" if result.target.tensorflow else "",
            ", ".join(machine.gpus) or "no GPU",
            f"driver {machine.driver}" if machine.driver else "",
            machine.system,
        )
        if word
    )


def _causes(result: BenchReport) -> str:
    rows = []
    for cause in result.causes:
        rows += [f"{'✗' if cause.severity == 'error' else '!'} {cause.title}", f"  {cause.label} ({cause.id})"]
        rows += [f"  Fix: {cause.fix.text}"] if cause.fix.text else []
    return "\n".join(rows)


def _duels(duels: tuple[Duel, ...], style: str) -> str:
    rows = [
        (
            duel.suite,
            duel.name,
            duel.verdict,
            _ratio(duel),
            duel.rounds or "",
            _time(duel.challenger.median_s) if duel.challenger else "",
            _time(duel.baseline.median_s) if duel.baseline else "",
        )
        for duel in duels
    ]
    heads = ("suite", "duel", "verdict", "times as fast (95 %)", "rounds", "with it", "without it")
    return tabulate(rows, headers=heads, tablefmt=style, disable_numparse=True) if rows else ""


def _ratio(duel: Duel) -> str:
    if duel.ratio is None or duel.interval is None:
        return ""
    return f"{duel.ratio:.2f} ({duel.interval[0]:.2f} to {duel.interval[1]:.2f})"


def _time(seconds: float) -> str:
    """Three significant digits, in the unit that suits: 1.23 ms."""
    size, unit = next((row for row in _UNITS if seconds >= row[0]), _UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


def _figures(figures: tuple[Figure, ...], style: str) -> str:
    rows = [
        (
            each.suite,
            each.name,
            f"{each.value:,.4g} {each.unit}",
            _shares(each),
            each.device,
        )
        for each in figures
    ]
    heads = ("suite", "figure", "measured", "of what is possible", "device")
    return tabulate(rows, headers=heads, tablefmt=style, disable_numparse=True) if rows else ""


def _shares(figure: Figure) -> str:
    """What it comes to of what the data sheet says, and of what was reached here at most."""
    said = [f"{figure.value / figure.limit:.0%} of {figure.limit:,.4g} {figure.unit}"] if figure.limit else []
    if figure.measured_limit:
        said.append(f"{figure.value / figure.measured_limit:.0%} of {figure.bounded_by}")
    return ", ".join(said)


def _comparisons(comparisons: tuple[Comparison, ...], style: str) -> str:
    rows = [
        (
            each.suite,
            each.name,
            each.standing,
            f"{each.change - 1:+.1%}" if each.change else "",
            each.runs or "",
            each.reason,
        )
        for each in comparisons
    ]
    heads = ("suite", "duel", "against the reference", "change", "earlier runs", "")
    return tabulate(rows, headers=heads, tablefmt=style, disable_numparse=True) if rows else ""


def _not_measured(result: BenchReport) -> str:
    """Each reason once, with the tests that it kept from measuring."""
    in_table = {duel.name for duel in result.duels}
    tests: dict[str, list[str]] = {}
    for test, why in result.skipped.items():
        name = test.rpartition("::")[2].removeprefix("test_")
        if name not in in_table:
            tests.setdefault(why, []).append(name)
    rows = [f"not measured: {', '.join(names)}: {why}" for why, names in tests.items()]
    rows += [f"{duel.suite}, {duel.name}: {duel.reason}" for duel in result.duels if duel.verdict == "not run"]
    wrong = [*result.problems, *(f"{test}: {why}" for test, why in result.failed.items())]
    return "\n".join([*rows, *(f"✗ {each}" for each in wrong)])


def _closing(result: BenchReport) -> str:
    verdicts = [duel.verdict for duel in result.duels]
    counts = ", ".join(f"{verdicts.count(each)} {each}" for each in dict.fromkeys(verdicts)) or "no duel was measured"
    return f"{counts}   {result.seconds:.1f} s"
