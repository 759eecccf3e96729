"""Folders of users with and without a home."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from serl.exchange.errors import ConfigError
from serl.exchange.user_folders import user_cache, user_folder

NO_HOME = """
import os, pwd, sys
del os.environ["HOME"]
def getpwuid(uid):
    raise KeyError(f"getpwuid(): uid not found: {uid}")
pwd.getpwuid = getpwuid  # as for a number that no name belongs to
from serl.cli import main
main()
"""


def command(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    known = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    return subprocess.run(
        [sys.executable, "-c", NO_HOME, *words], capture_output=True, text=True, env={**known, **environment}
    )


def test_folders_are_those_of_the_environment_or_in_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/users/ann")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert user_cache() == Path("/users/ann/.cache/serl")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert user_cache() == Path("/caches/serl")


def test_a_user_without_a_home_gets_an_error_that_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", "~")  # what Python returns if it knows none
    with pytest.raises(ConfigError, match="set HOME or XDG_STATE_HOME"):
        user_folder("XDG_STATE_HOME", ".local/state")


def test_commands_of_a_user_without_a_home(tmp_path: Path) -> None:
    listed = command("llm", "list", SERL_MODELS="")
    assert listed.returncode == 2 and listed.stderr.startswith("error: expected a home folder of user")
    assert listed.stderr.count("\n") == 1
    checked = command("doctor", SERL_MODELS="", NUMBA_CACHE_DIR=str(tmp_path))
    assert "-- models: expected a home folder" in checked.stdout and f"({tmp_path}/serl-" in checked.stdout
