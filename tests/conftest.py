"""What all tests share. Screenshots go to the folder that SERL_SCREENSHOTS names."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.dashboard.served import browser

LONGEST = (
    "tests/exchange/test_first_answers.py",
    "tests/test_docs_sessions.py",
    "tests/researcher/outer/test_whole.py",
    "tests/demo/",
)
"""Begun first, so that no worker is left alone with one of them at the end."""

# A shell ignores Ctrl-C in what it starts in the background, and so would every process that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, and else as they were."""
    items.sort(
        key=lambda item: next(
            (place for place, path in enumerate(LONGEST) if item.nodeid.startswith(path)), len(LONGEST)
        )
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
