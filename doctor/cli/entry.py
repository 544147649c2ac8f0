"""The command `tfgpu-doctor`: signals wait while the rest is imported."""

from __future__ import annotations

from tfgpu_doctor.cli.interrupts import hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line, and exit with its code."""
    hold()
    from tfgpu_doctor.cli.main import main as run

    run()
