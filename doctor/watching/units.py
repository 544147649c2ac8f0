"""Times, sizes and shares as the pages of a watched training write them, and texts of others made safe and short."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len, set_cell_size

from tfgpu_doctor.model import plain_text


def percent(share: float) -> str:
    """`89 %`."""
    return f"{100 * share:.0f} %"


def size(count: int) -> str:
    """Bytes in GiB, or in MiB below one."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def of(used: int, total: int | None) -> str:
    """`12.3/40.0 GiB`."""
    return size(used) if total is None else f"{used / 2**30:.1f}/{total / 2**30:.1f} GiB"


def megahertz(now: float | None, most: float | None) -> str:
    """`1200/1410 MHz`."""
    if now is None:
        return ""
    return f"{now:.0f} MHz" if most is None else f"{now:.0f}/{most:.0f} MHz"


def duration(seconds: float) -> str:
    """`0.4 s`, `42 s`, `3 min 12 s`, `1 h 05 min`."""
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s".replace(" 00 s", "")
    return f"{whole // 3600} h {whole % 3600 // 60:02} min".replace(" 00 min", "")


def clock(seconds: float) -> str:
    """`00:42`, `1:02:03`."""
    whole = max(0, int(seconds))
    hours = f"{whole // 3600}:" if whole >= 3600 else ""
    return f"{hours}{whole % 3600 // 60:02}:{whole % 60:02}"


def one_line(text: str) -> str:
    """A text from a profile, a process or a driver: it controls no terminal, and forges no line."""
    return " ".join(plain_text.one_line(text).split())


def clean_texts(value: Any, key: str = "") -> Any:
    """Return a document with all its texts on one line and cleaned; those under the key `code` keep their lines."""
    if isinstance(value, str):
        return "\n".join(map(_printable, value.split("\n"))) if key == "code" else one_line(value)
    if isinstance(value, dict):
        return {one_line(name): clean_texts(each, name) for name, each in value.items()}
    return [clean_texts(each) for each in value] if isinstance(value, list | tuple) else value


def _printable(line: str) -> str:
    return plain_text.clean(line.encode("utf-8", "replace").decode())


def cut(text: str, width: int) -> str:
    """Return the text in at most `width` columns of a terminal."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 1 else ""
