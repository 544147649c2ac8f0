"""What every pytest of an environment with the doctor loads: the plugin, where this pytest is new enough for it.

Extra packages that the plugin needs are not required of an environment that only holds the doctor; its pytest works on.
"""

import pytest

if hasattr(pytest, "StashKey"):  # pytest 7
    pytest_plugins = ("tfgpu_doctor.perf_tests.plugin",)
