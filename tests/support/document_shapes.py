"""What of a document is structure: it must stay the same whatever text the machine puts into its cells."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

from markdown_it import MarkdownIt

GITHUB_LINE = re.compile(r"::(error|warning|notice) title=[^:,\r\n\x85\u2028\u2029]*::[^\r\n]*")


def _of_value(value: Any) -> object:
    if isinstance(value, dict):
        return {key: _of_value(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_of_value(each) for each in value]
    return type(value).__name__


def _of_element(element: ET.Element) -> object:
    return element.tag, sorted(element.attrib), [_of_element(each) for each in element]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[object] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, sorted(name for name, _ in attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(f"/{tag}")

    def handle_comment(self, data: str) -> None:
        self.found.append("comment")


def _of_html(document: str) -> object:
    tags = _Tags()
    tags.feed(document)
    tags.close()
    return tags.found


def _of_markdown(document: str) -> object:
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(document)
    return [(token.type, token.tag, [(each.type, each.tag) for each in token.children or ()]) for token in tokens]


def _of_text(document: str) -> object:
    """The lines at the edge: all that a name may fill is indented; the head is one paragraph of names."""
    _, _, rest = document.partition("\n\n")
    return [line[:1] for line in rest.splitlines() if line.strip() and not line.startswith(" ")]


def _of_github(document: str) -> object:
    found = [GITHUB_LINE.fullmatch(line) for line in document.split("\n")[:-1]]
    return [match[1] if match else "no annotation" for match in found]


def _of_metrics(document: str) -> object:
    """Each sample's name and the names of its labels; two samples whose labels are the same are one."""
    lines = re.findall(r'^(\w+)(?:\{((?:\w+="(?:[^"\\\n]|\\.)*",?)*)\})? [\d.e+-]+$', document, re.MULTILINE)
    assert len(lines) == sum(not line.startswith("#") for line in document.split("\n")[:-1])
    return [(name, re.findall(r'(\w+)="(?:[^"\\]|\\.)*"', labels)) for name, labels in lines]


SHAPES: dict[str, Callable[[str], object]] = {
    "text": _of_text,
    "json": lambda document: _of_value(json.loads(document)),
    "sarif": lambda document: _of_value(json.loads(document)),
    "markdown": _of_markdown,
    "junit": lambda document: _of_element(ET.fromstring(document)),
    "github": _of_github,
    "html": _of_html,
    "prometheus": _of_metrics,
}
