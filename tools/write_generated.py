"""Write the files generated from the code: docs/checks.md, the report's JSON Schema, and the built machines of the tests.

python tools/write_generated.py            write them
python tools/write_generated.py --check    list the stale files, and exit with 1
"""

from __future__ import annotations

import importlib
import pathlib
import sys

from tfgpu_doctor.model.facts import Facts

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))


def built() -> dict[str, Facts]:
    """Return the name and facts of every hand-built machine, as defined in tests/support/built_*.py."""
    modules = [importlib.import_module(path.stem) for path in sorted((ROOT / "tests/support").glob("built_*.py"))]
    return {name: facts for module in modules if hasattr(module, "built") for name, facts in module.built().items()}


def generated() -> dict[pathlib.Path, str]:
    """Return the path and content of every generated file."""
    import collected_comparisons
    from verdicts_page import verdicts_page

    from tfgpu_doctor.accept.certificate import Certificate
    from tfgpu_doctor.advise.matrix_table import matrix_page
    from tfgpu_doctor.bench.result import BenchReport
    from tfgpu_doctor.checks import ALL_CHECKS
    from tfgpu_doctor.diagnose.explanation import checks_page
    from tfgpu_doctor.fleet.fleet import Fleet
    from tfgpu_doctor.fleet.history import History
    from tfgpu_doctor.knowledge import read_knowledge
    from tfgpu_doctor.model.facts import encode_facts
    from tfgpu_doctor.model.report import RehearsalReport
    from tfgpu_doctor.render.json_document import report_schema
    from tfgpu_doctor.tracing import TraceReport
    from tfgpu_doctor.watching import WatchReport

    machines = {
        ROOT / "tests/machines/synthetic" / name / "facts.json": encode_facts(facts).decode()
        for name, facts in built().items()
    }
    return {
        ROOT / "docs/checks.md": checks_page(ALL_CHECKS, read_knowledge()),
        ROOT / "docs/matrix.md": matrix_page(read_knowledge()),
        ROOT / "docs/verdicts.md": verdicts_page(read_knowledge()),
        ROOT / "doctor/render/report.schema.json": report_schema(),
        ROOT / "doctor/rehearse/rehearsal.schema.json": report_schema(RehearsalReport, "rehearsal"),
        ROOT / "doctor/bench/bench.schema.json": report_schema(BenchReport, "bench"),
        ROOT / "doctor/accept/certificate.schema.json": report_schema(Certificate, "certificate"),
        ROOT / "doctor/fleet/fleet.schema.json": report_schema(Fleet, "fleet"),
        ROOT / "doctor/fleet/history.schema.json": report_schema(History, "fleet history"),
        ROOT / "doctor/tracing/trace.schema.json": report_schema(TraceReport, "trace"),
        ROOT / "doctor/watching/watch.schema.json": report_schema(WatchReport, "watch"),
        collected_comparisons.TABLE: collected_comparisons.table(),
        ROOT / "docs/profiles.md": profiles_page(),
        **machines,
    }


def profiles_page() -> str:
    """Return docs/profiles.md with its tables regenerated."""
    from tfgpu_doctor.accept.describing import filled_page
    from tfgpu_doctor.accept.reading import read_profile, shipped_profiles
    from tfgpu_doctor.accept.vocabulary import Vocabulary
    from tfgpu_doctor.checks import ALL_CHECKS

    vocabulary = Vocabulary([check.id for check in ALL_CHECKS])
    profiles = {name: read_profile(name, vocabulary) for name in shipped_profiles()}
    return filled_page((ROOT / "docs/profiles.md").read_text("utf-8"), profiles)


def written(files: dict[pathlib.Path, str], *, only_check: bool) -> list[pathlib.Path]:
    """Write those of the files whose content differs, or with `only_check` only find them; return their paths."""
    stale = [path for path, content in files.items() if not path.exists() or path.read_text("utf-8") != content]
    for path in () if only_check else stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], "utf-8")
    return stale


def main() -> int:
    """Write the files, or with --check only compare them."""
    import collected_comparisons

    only_check = "--check" in sys.argv
    # The table comes first: docs/profiles.md is made from the table as it is on the disk.
    table = written({collected_comparisons.TABLE: collected_comparisons.table()}, only_check=only_check)
    paths = dict.fromkeys([*table, *written(generated(), only_check=only_check)])
    for path in paths:
        print(path.relative_to(ROOT))
    return 1 if paths and only_check else 0


if __name__ == "__main__":
    sys.exit(main())
