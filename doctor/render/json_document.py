"""JSON documents and their schemas."""

from __future__ import annotations

import inspect
import re

import msgspec

from tfgpu_doctor.model.report import Report

_COMMAND = re.compile(r"##(?=[a-z]*\[)", re.IGNORECASE)  # CI services also recognize these in the middle of a line
_CONTROL = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")  # JSON has no need to escape these


def as_json(document: object) -> str:
    """Return one indented JSON document, escaped so that terminals and CI services find no command in it."""
    return safe_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()) + "\n"


def safe_json(text: str) -> str:
    """Return a JSON text in which more is escaped: its value is the same, and printed it commands nobody."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", _COMMAND.sub(r"#\\u0023", text))


def report_schema(kind: type[msgspec.Struct] = Report, title: str = "report") -> str:
    """Return the JSON Schema of this kind of document."""
    schema = msgspec.json.schema(kind)
    for definition in schema["$defs"].values():
        if "description" in definition:  # a docstring; before 3.13, Python keeps its indents
            definition["description"] = inspect.cleandoc(definition["description"])
        for value in definition.get("properties", {}).values():
            value.pop("propertyNames", None)  # only msgspec 0.23 and later tell which keys an object may have
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    number = next((each.default for each in msgspec.structs.fields(kind) if each.name == "schema"), 1)
    schema["title"] = f"tfgpu-doctor {title}, schema {number}"
    return as_json(schema)
