"""A dashboard process for tests, and a browser to look at it with."""

import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@dataclass
class Shown:
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
def dashboard(endpoint: str, *options: str) -> Iterator[Shown]:
    """`serl dashboard` for the time of a `with`."""
    arguments = [sys.executable, "-m", "serl", "dashboard", "--connect", endpoint, "--port", "0", *options]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline().split(), process.stdout.readline().split()]
        assert [line[0] for line in lines] == ["dashboard", "operator"], lines
        yield Shown(lines[0][1], lines[1][1], process)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        finally:
            process.kill()
            process.stdout.close()


@contextmanager
def browser() -> Iterator[Any]:
    """Headless Chromium; the test is skipped where it or playwright is absent."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine (apt-get install chromium)")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield opened
        finally:
            opened.close()
