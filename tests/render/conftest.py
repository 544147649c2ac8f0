"""One browser for all tests of this folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from browser import Browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with contextlib.closing(Browser(tmp_path_factory.mktemp("browser"))) as found:
        yield found
