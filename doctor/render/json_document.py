"""Documents as JSON, and the schemas that are the contract of them."""

from __future__ import annotations

import inspect
import re

import msgspec

from tfgpu_doctor.model.report import Report

_COMMAND = re.compile(r"##(?=[a-z]*\[)", re.IGNORECASE)  # CI services look for them in the middle of a line, too


def as_json(document: object) -> str:
    """One JSON document, indented; the same to a reader of JSON, whatever a CI service reads in it."""
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    return _COMMAND.sub(r"#\\u0023", text) + "\n"


def report_schema(kind: type[msgspec.Struct] = Report, title: str = "report") -> str:
    """The JSON Schema of that document."""
    schema = msgspec.json.schema(kind)
    for definition in schema["$defs"].values():
        if "description" in definition:  # a docstring, whose indents Python keeps before 3.13
            definition["description"] = inspect.cleandoc(definition["description"])
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = f"tfgpu-doctor {title}, schema 1"
    return as_json(schema)
