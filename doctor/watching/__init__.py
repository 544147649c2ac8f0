"""A training while it runs: why its GPU idles, and that it hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfgpu_doctor._exports import exported

if TYPE_CHECKING:
    from tfgpu_doctor.watching.notebook import WatchCallback as WatchCallback
    from tfgpu_doctor.watching.notebook import watch as watch
    from tfgpu_doctor.watching.result import WatchReport as WatchReport

# What other features may use.
__getattr__ = exported(__name__, {"WatchCallback": "notebook", "WatchReport": "result", "watch": "notebook"})
