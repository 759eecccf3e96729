"""A browser for all tests of a module. Screenshots go to the folder that SERL_SCREENSHOTS names."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.dashboard.served import browser


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("SERL_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
