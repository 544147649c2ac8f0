"""What is made from the code is up to date."""

from __future__ import annotations

import subprocess
import sys

from locations import ROOT

TOOL = ROOT / "tools/write_generated.py"


def test_nothing_generated_is_stale() -> None:
    done = subprocess.run([sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False)
    assert done.stdout == "", "run `python tools/write_generated.py`"
    assert done.returncode == 0, done.stderr
