"""Read a package index according to PEP 503 (HTML) and PEP 691 (JSON): the wheels of a project and their URLs."""

from __future__ import annotations

import html.parser
import json
import os
import re
import subprocess
import sys
import urllib.parse
from dataclasses import dataclass

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from releases.fetching import Unreachable, fetch

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"

Platform = tuple[str, str]  # os and architecture


@dataclass(frozen=True)
class IndexedWheel:
    """One wheel of the index. `has_metadata` says that the index offers its METADATA as a separate file (PEP 658)."""

    name: str
    url: str
    version: Version
    tags: frozenset[Tag]
    requires_python: str = ""
    has_metadata: bool = False


def platform_of(wheel: IndexedWheel) -> Platform:
    """Return the system that a wheel is for: ("linux", "x86_64"), ("windows", "x86_64"), ("macos", "arm64")."""
    tag = next(iter(wheel.tags)).platform
    if found := re.fullmatch(r"(?:many)?linux(?:\d+|_\d+_\d+)?_(\w+)", tag):
        return "linux", found.group(1)
    if found := re.fullmatch(r"macosx_\d+_\d+_(\w+)", tag):
        return "macos", found.group(1)
    return "windows", {"win_amd64": "x86_64", "win32": "x86", "win_arm64": "arm64"}.get(tag, tag)


def index_address(given: str | None) -> str:
    """Return the given URL, or else the one that pip is configured with. Raises Unreachable."""
    address = given or os.environ.get("PIP_INDEX_URL") or _ask_pip()
    if not address:
        raise Unreachable("no package index is known: pass --index-url, or set pip's global.index-url")
    return address.rstrip("/") + "/"


def _ask_pip() -> str:
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def list_wheels(index: str, project: str) -> list[IndexedWheel]:
    """Return every wheel of a project that was not yanked. Raises Unreachable."""
    address = urllib.parse.urljoin(index, f"{project}/")
    content, kind = fetch(address, {"Accept": _ACCEPT})
    files = _from_json(content) if "json" in kind else _from_html(content)
    return [wheel for each in files if (wheel := _wheel(address, each))]


def _from_json(content: bytes) -> list[dict[str, str]]:
    files = json.loads(content)["files"]
    return [
        {
            "name": file["filename"],
            "href": file["url"],
            "requires-python": file.get("requires-python") or "",
            "metadata": "yes" if file.get("core-metadata") or file.get("dist-info-metadata") else "",
        }
        for file in files
        if not file.get("yanked")
    ]


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.files: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "yes" for name, value in attrs}
        if tag == "a" and "href" in found and "data-yanked" not in found:
            metadata = found.get("data-core-metadata") or found.get("data-dist-info-metadata") or ""
            self.files.append(
                {
                    "href": found["href"],
                    "requires-python": found.get("data-requires-python", ""),
                    "metadata": "" if metadata == "false" else metadata,
                }
            )


def _from_html(content: bytes) -> list[dict[str, str]]:
    links = _Links()
    links.feed(content.decode("utf-8", "replace"))
    return links.files


def _wheel(address: str, file: dict[str, str]) -> IndexedWheel | None:
    url = urllib.parse.urldefrag(urllib.parse.urljoin(address, file["href"])).url
    name = file.get("name") or urllib.parse.unquote(url.rpartition("/")[2])
    # Old wheels have both tags of PEP 600 in one name, joined by dots; parse_wheel_filename splits them.
    if not re.fullmatch(r"[^/]+\.whl", name):
        return None
    try:
        _, version, _, tags = parse_wheel_filename(name)
    except InvalidWheelFilename:
        return None
    return IndexedWheel(name, url, version, tags, file["requires-python"], bool(file["metadata"]))
