"""The output formats of the comparison of a fleet."""

from __future__ import annotations

FLEET_FORMATS = ("text", "json", "markdown", "html", "prometheus")
