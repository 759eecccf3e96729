"""What all tests share. Screenshots go to the folder that SERL_SCREENSHOTS names."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.dashboard.server_fixture import browser

FIRST = (
    "tests/test_docs_sessions.py",
    "tests/exchange/",
    "tests/researcher/outer/test_whole.py",
    "tests/demo/",
)
"""The longest begin first, so that no worker is left alone with one of them at the end. And the first of all has nearly everything
compiled that is not the exchange's (which `make test` compiles before): beside it go tests that need none of it, or two would compile the same."""

# A shell ignores Ctrl-C in what it starts in the background, and so would every process that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those of FIRST first, and else as they were."""
    items.sort(
        key=lambda item: next((place for place, path in enumerate(FIRST) if item.nodeid.startswith(path)), len(FIRST))
    )


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    """A browser for all tests of a module."""
    with browser() as found:
        yield found


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    """Where they go."""
    folder = Path(os.environ.get("SERL_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def pytest_make_parametrize_id(val: object) -> str | None:
    """Bytes by their length: some are made anew in each of the tests' processes, with the time in them, and all must collect the same names."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None
