"""The output formats of a certificate."""

from __future__ import annotations

FORMATS = ("text", "json", "markdown", "html", "junit")
