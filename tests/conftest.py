"""Fixtures of all tests, and their order. Screenshots are written to the folder SERL_SCREENSHOTS."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from serl.garbage import collect_rarely
from tests import forked
from tests.clients.dashboard.server_fixture import browser
from tests.workers import pytest_addoption, pytest_configure, pytest_runtestloop

__all__ = ["pytest_addoption", "pytest_configure", "pytest_runtestloop"]

FIRST = (
    "tests/test_docs_sessions.py",
    "tests/sim/",
    "tests/exchange/",
    "tests/researcher/outer/test_whole.py",
    "tests/demo/",
)
"""The longest tests run first, so that no worker finishes long after the others. The very first compiles nearly everything except the
exchange (which `make test` compiles before); the tests beside it need none of that, so that nothing is compiled twice."""

# A shell ignores SIGINT in background jobs, and every process that the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

collect_rarely()
gc.disable()  # until all tests are collected: they stay
forked.install()
settings.register_profile("busy", deadline=None)  # a machine that does much else is no failure
settings.load_profile("busy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Moves the tests in FIRST to the front, in its order."""
    items.sort(
        key=lambda item: next((rank for rank, path in enumerate(FIRST) if item.nodeid.startswith(path)), len(FIRST))
    )


def pytest_collection_finish() -> None:
    """From here on Python looks for garbage, but not among what has been imported and collected."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    """A browser, shared by the tests of a module."""
    with browser() as found:
        yield found


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    """The folder of screenshots."""
    folder = Path(os.environ.get("SERL_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def pytest_make_parametrize_id(val: object) -> str | None:
    """Names bytes by their length: some contain the time, and a test has the same name in every run."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None
