"""The part of SARIF 2.1.0 that the doctor writes, as JSON Schema, from the text of the specification; strict.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html; the numbers are its sections. Where the official
schema is at hand, $TFGPU_SARIF_SCHEMA names the file and the documents are validated against that as well.
"""

from __future__ import annotations

from typing import Any

_Schema = dict[str, Any]


def _object(required: tuple[str, ...], **properties: _Schema) -> _Schema:
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": properties}


def _list(items: _Schema, **limits: Any) -> _Schema:
    return {"type": "array", "items": items, **limits}


TEXT: _Schema = {"type": "string"}
FILLED: _Schema = {"type": "string", "minLength": 1}
BAG: _Schema = {"type": "object"}  # 3.8
MESSAGE = _object(("text",), text=FILLED)  # 3.11
PLAIN = _object(("text",), text=FILLED, markdown=TEXT)  # 3.12
LEVEL: _Schema = {"enum": ["none", "note", "warning", "error"]}  # 3.27.10
URI: _Schema = {"type": "string", "pattern": "^https?://\\S+$"}
RULE = _object(  # 3.49
    ("id",),
    id=FILLED,
    name=TEXT,
    shortDescription=PLAIN,
    fullDescription=PLAIN,
    help=PLAIN,
    helpUri=URI,
    properties=BAG,
)
DRIVER = _object(
    ("name",), name=FILLED, version=FILLED, informationUri=URI, rules=_list(RULE, uniqueItems=True)
)  # 3.19
NOTIFICATION = _object(  # 3.58
    ("message",),
    level=LEVEL,
    message=MESSAGE,
    descriptor=_object((), id=FILLED, index={"type": "integer", "minimum": 0}),
)
INVOCATION = _object(  # 3.20
    ("executionSuccessful",),
    executionSuccessful={"type": "boolean"},
    exitCode={"type": "integer"},
    exitCodeDescription=FILLED,
    toolExecutionNotifications=_list(NOTIFICATION),
    endTimeUtc={"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"},
)
PHYSICAL = _object(  # 3.29; GitHub wants all of it
    ("artifactLocation", "region"),
    artifactLocation=_object(("uri",), uri={"type": "string", "pattern": r"^[\w-]+$"}),  # 3.4
    region=_object(("startLine",), startLine={"type": "integer", "minimum": 1}),  # 3.30
)
LOGICAL = _object((), name=TEXT, fullyQualifiedName=TEXT, kind=TEXT)  # 3.33
RESULT = _object(  # 3.27
    ("message", "ruleId", "ruleIndex", "level", "locations", "partialFingerprints"),
    ruleId=FILLED,
    ruleIndex={"type": "integer", "minimum": 0},
    level=LEVEL,
    message=MESSAGE,
    locations=_list(
        _object(("physicalLocation",), physicalLocation=PHYSICAL, logicalLocations=_list(LOGICAL, minItems=1)),
        minItems=1,
        maxItems=1,
    ),  # 3.28
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string", "pattern": "^[0-9a-f]{64}$"}},
    properties=BAG,
)
RUN = _object(  # 3.14
    ("tool", "results"),
    tool=_object(("driver",), driver=DRIVER),
    automationDetails=_object((), id=FILLED),
    invocations=_list(INVOCATION, minItems=1),
    results=_list(RESULT),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    properties=BAG,
)
SARIF = _object(
    ("version", "runs"), version={"const": "2.1.0"}, runs=_list(RUN, minItems=1, maxItems=1), **{"$schema": URI}
)  # 3.13
