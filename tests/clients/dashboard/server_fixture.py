"""A dashboard process for tests, and a browser to open its pages."""

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from serl.doctor import chromium

SIZES_AND_THEMES = pytest.mark.parametrize(
    ("width", "height", "scheme"),
    [
        (390, 844, "dark"), (1440, 900, "light"),
        pytest.param(390, 844, "light", marks=pytest.mark.long), pytest.param(1440, 900, "dark", marks=pytest.mark.long),
    ],
)  # fmt: skip
"""A phone and a desktop; `make test-long` looks at both in both themes."""
LEVELS_JS = """side => [...document.querySelectorAll(`#ladder .${side}`)].filter(row => row.dataset.price)
    .map(row => [Number(row.dataset.price), Number(row.dataset.lots)])"""


@dataclass
class Dashboard:
    """A running dashboard."""

    address: str
    operator: str
    process: "subprocess.Popen[str]"

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        """Status and body of a page."""
        request = urllib.request.Request(self.address + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@contextmanager
def dashboard(endpoint: str, *options: str) -> Iterator[Dashboard]:
    """Runs `serl dashboard`."""
    arguments = [sys.executable, "-m", "serl", "dashboard", "--connect", endpoint, "--port", "0", *options]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline().split(), process.stdout.readline().split()]
        assert [line[0] for line in lines] == ["dashboard", "operator"], lines
        yield Dashboard(lines[0][1], lines[1][1], process)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        finally:
            process.kill()
            process.stdout.close()


@contextmanager
def browser() -> Iterator[Any]:
    """Headless Chromium; skips the test without it or playwright."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
    if (path := chromium()) is None:
        pytest.skip("no chromium on this machine (apt-get install chromium)")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield opened
        finally:
            opened.close()


class OpenPage:
    """An open page, its console messages and its requests."""

    def __init__(self, opened: Any, address: str, width: int = 1440, height: int = 900, scheme: str = "dark") -> None:
        self.context = opened.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.console: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.console.append(message.text))
        self.page.on("pageerror", lambda error: self.console.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)
        self.page.wait_for_selector("#state:not(:text('connecting')):not(:text('offline'))")  # until the first frame

    def __enter__(self) -> "OpenPage":
        return self

    def __exit__(self, *_error: object) -> None:
        self.context.close()

    def levels(self, side: str) -> list[list[int]]:
        levels: list[list[int]] = self.page.evaluate(LEVELS_JS, side)
        return sorted(levels, reverse=side == "bid")


def wait_until(condition: Any, description: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, description
        time.sleep(0.02)
