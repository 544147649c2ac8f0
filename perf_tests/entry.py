"""What every pytest of an environment with the doctor loads: the plugin, where this pytest is new enough for it.

The doctor alone requires no pytest: an older one beside it must work on.
"""

import pytest

if hasattr(pytest, "StashKey"):  # pytest 7
    pytest_plugins = ("tfgpu_doctor.perf_tests.plugin",)
