"""Write checks/data/tensorflow_releases.json from the wheels themselves; only a few parts of each are transferred.

    python tools/read_releases.py                    add the releases that the table does not have yet
    python tools/read_releases.py --again 2.21.0     read that release again
    python tools/read_releases.py --show 2.22.0rc0   read a candidate for a release, print its row, write nothing
    python tools/read_releases.py --compare          read every wheel of the table, print the differences, write nothing

With --again and --compare, a release that the index lacks is named, and the exit code is 1.

The index is the one that pip is configured with (PIP_INDEX_URL, pip's global.index-url), or --index-url. The table is
written completely at the end: if anything cannot be read, the old table stays unchanged.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import pathlib
import sys
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from packaging.version import Version
from releases.fetching import Unreachable
from releases.package_index import IndexedWheel, index_address, list_wheels, platform_of
from releases.table import Row, make_row, read_table, write_table
from releases.wheel_contents import read_contents, read_kernel_targets, read_runpath_folders

TABLE = pathlib.Path(__file__).resolve().parent.parent / "checks/data/tensorflow_releases.json"
FIRST = Version("2.4")
REQUESTS_AT_ONCE = 4

Releases = dict[Version, list[IndexedWheel]]


def find_releases(index: str, candidate: Version | None = None) -> Releases:
    """Return the final releases from the first on, and a candidate, oldest first, with their wheels in a fixed order."""
    found: Releases = {}
    for wheel in sorted(list_wheels(index, "tensorflow"), key=lambda wheel: (wheel.version, wheel.name)):
        if wheel.version == candidate or (wheel.version >= FIRST and not wheel.version.is_prerelease):
            found.setdefault(wheel.version, []).append(wheel)
    return found


def read_release(version: Version, wheels: list[IndexedWheel], day: str, pool: ThreadPoolExecutor) -> Row:
    """Return a row of the table. Raises Unreachable."""
    linux = [each for each in wheels if platform_of(each) == ("linux", "x86_64")]
    runpaths = pool.map(read_runpath_folders, linux[-1:])
    contents = list(pool.map(read_contents, wheels))
    silent = [
        each.cuda and not each.compute_capabilities and wheel in linux
        for wheel, each in zip(wheels, contents, strict=True)
    ]
    if any(silent):
        compiled_for = read_kernel_targets(linux[-1])
        contents = [
            replace(each, compute_capabilities=compiled_for) if is_silent else each
            for each, is_silent in zip(contents, silent, strict=True)
        ]
    return make_row(version, list(zip(wheels, contents, strict=True)), next(runpaths, ()), day)


def read_all(releases: Releases, wanted: Collection[Version], day: str) -> list[Row]:
    """Read the rows of these releases one by one, with a line on standard error for each. Raises Unreachable."""
    rows = []
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        for version in (each for each in releases if each in wanted):
            rows.append(read_release(version, releases[version], day, pool))
            print(f"read {version}: {len(releases[version])} wheels", file=sys.stderr, flush=True)
    return rows


def compare(table: list[Row], fresh: list[Row]) -> list[str]:
    """Return a line for each field of a row that differs from the wheels."""
    old = {row["version"]: row for row in table}
    return [
        f"{row['version']}: {name} is {old[row['version']].get(name)}, but the wheels say {value}"
        for row in fresh
        for name, value in row.items()
        if name != "checked" and old[row["version"]].get(name) != value
    ]


def lacking(releases: Releases, wanted: Collection[Version]) -> list[str]:
    """Return a line for each wanted release that the index does not have."""
    absent = sorted(each for each in wanted if each not in releases)
    return [f"the index has no final release {each} of TensorFlow (from {FIRST} on)" for each in absent]


def main() -> int:
    """Add releases, or with --compare only compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index-url", help="the package index to use instead of pip's")
    parser.add_argument("--table", type=pathlib.Path, default=TABLE)
    parser.add_argument("--again", nargs="+", type=Version, default=[], metavar="VERSION")
    parser.add_argument("--show", type=Version, metavar="VERSION")
    parser.add_argument("--compare", action="store_true")
    options = parser.parse_args()
    table = read_table(options.table)
    known = {Version(row["version"]) for row in table}
    day = dt.datetime.now(dt.timezone.utc).date().isoformat()
    try:
        releases = find_releases(index_address(options.index_url), options.show)
        wanted = known if options.compare else (releases.keys() - known) | set(options.again)
        if options.show:
            wanted = {options.show} & releases.keys()
        absent = lacking(releases, wanted)
        if absent and not options.compare:
            raise Unreachable("\n".join(absent))
        rows = read_all(releases, wanted, day)
    except Unreachable as error:
        print(f"{error}\nThe table is unchanged.", file=sys.stderr)
        return 1
    if options.show:
        print(json.dumps(rows, indent=1) if rows else f"the index has no TensorFlow {options.show}")
        return 0 if rows else 1
    if options.compare:
        differences = [*absent, *compare(table, rows)]
        print("\n".join(differences or [f"{len(rows)} releases match their wheels"]))
        return 1 if differences else 0
    if rows:
        fresh = {row["version"] for row in rows}
        write_table(options.table, [*(row for row in table if row["version"] not in fresh), *rows])
    print(f"{len(rows)} releases read, {len(known)} were already known")
    return 0


if __name__ == "__main__":
    sys.exit(main())
