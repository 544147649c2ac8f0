"""A training while it runs: why its GPU idles, and that it hangs."""

from __future__ import annotations
