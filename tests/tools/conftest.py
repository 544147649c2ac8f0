"""A package index on this machine, with made-up wheels of TensorFlow; each fault is a switch."""

from __future__ import annotations

import http.server
import pathlib
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from locations import ROOT
from made_up_releases import made_up_wheel

TOOLS = ROOT / "tools"
sys.path.insert(0, str(TOOLS))
LINUX = "manylinux_2_17_x86_64.manylinux2014_x86_64"


@dataclass
class Index:
    """The index: its files by name, and what goes wrong."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    metadata: dict[str, bytes] = field(default_factory=dict)
    yanked: set[str] = field(default_factory=set)
    as_json: bool = False
    ranges: bool = True
    fails_for: str = ""  # requests of files with that in their name are answered with 503
    failures_left: int = 10**6
    asked: list[tuple[str, str]] = field(default_factory=list)
    sent_bytes: int = 0

    def add(
        self, version: str, pythons: tuple[str, ...] = ("cp310", "cp39"), platform: str = LINUX, **wheel: object
    ) -> None:
        """A wheel for each Python."""
        content = made_up_wheel(version, **wheel)  # type: ignore[arg-type]
        for python in pythons:
            self.files[f"tensorflow-{version}-{python}-{python}-{platform}.whl"] = content

    def page(self) -> tuple[str, str]:
        """The project's page, as PEP 691 or PEP 503 say."""
        import html
        import json

        if self.as_json:
            files = [
                {
                    "filename": name,
                    "url": f"files/{name}",
                    "yanked": name in self.yanked,
                    "core-metadata": name in self.metadata,
                }
                for name in self.files
            ]
            return "application/vnd.pypi.simple.v1+json", json.dumps({"files": files})
        links = [
            f'<a href="files/{html.escape(name)}#sha256=0"{" data-yanked" * (name in self.yanked)}'
            f"{' data-core-metadata=true' * (name in self.metadata)}>{name}</a>"
            for name in self.files
        ]
        return "text/html", "<html><body>" + "".join(links) + "</body></html>"


@pytest.fixture
def index() -> Iterator[Index]:
    """An index with nothing in it, on a port of this machine."""
    served = Index()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append((self.path, self.headers.get("Range", "")))
            name = self.path.rpartition("/")[2]
            if served.fails_for and served.fails_for in name and served.failures_left > 0:
                served.failures_left -= 1
                return self.answer(503, b"later", {})
            if self.path.endswith("/simple/tensorflow/"):
                kind, page = served.page()
                return self.answer(200, page.encode(), {"Content-Type": kind})
            if name.endswith(".metadata") and name[:-9] in served.metadata:
                return self.answer(200, served.metadata[name[:-9]], {})
            if name in served.files:
                return self.piece(served.files[name])
            return self.answer(404, b"", {})

        def piece(self, content: bytes) -> None:
            wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
            if not served.ranges or not wanted:
                return self.answer(200, content, {})
            first, last = wanted.groups()
            start = int(first) if first else max(0, len(content) - int(last))
            end = min(int(last), len(content) - 1) if first else len(content) - 1
            return self.answer(206, content[start : end + 1], {"Content-Range": f"bytes {start}-{end}/{len(content)}"})

        def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            served.sent_bytes += len(body)
            try:
                self.wfile.write(body)
            except OSError:
                pass  # the reader has seen enough

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.address = f"http://127.0.0.1:{server.server_address[1]}/simple/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield served
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    from releases import fetching

    monkeypatch.setattr(fetching, "_FIRST_PAUSE_S", 0.001)


Reader = Callable[..., int]


@pytest.fixture
def read_releases(index: Index, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """tools/read_releases.py run on the index and on the table tmp_path/table.json."""
    import read_releases as script

    def run(*arguments: str) -> int:
        table = str(tmp_path / "table.json")
        monkeypatch.setattr(
            sys, "argv", ["read_releases.py", "--index-url", index.address, "--table", table, *arguments]
        )
        return script.main()

    return run


@pytest.fixture
def run_script() -> Callable[..., subprocess.CompletedProcess[str]]:
    """The script in a process of its own."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(TOOLS / "read_releases.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=variables, timeout=60)

    return run
