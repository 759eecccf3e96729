"""A fresh clone of this repository, with an environment and an empty cache of its own."""

import os
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
"""Recorded markets, if there are any: tests look for them beside the checkout."""


class Clone:
    """The clone, in a folder that is empty. A command's name is one of the clone's environment, if it is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "serl"
        self._environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        self._environment.pop("PYTHONPATH", None)
        subprocess.run(["git", "clone", "--quiet", ROOT, self.folder], check=True)
        if SHARED.exists():
            (folder / SHARED.name).symlink_to(SHARED)

    def run(self, *command: str) -> tuple[float, str]:
        """(seconds, output) of a command in it. Raises CalledProcessError."""
        began = time.perf_counter()
        done = subprocess.run(
            self._place(command), cwd=self.folder, env=self._environment, check=True, stdout=subprocess.PIPE, text=True
        )
        return time.perf_counter() - began, done.stdout

    def start(self, *command: str) -> "subprocess.Popen[bytes]":
        """The same in the background, with its output in a file."""
        with (self.folder / f"{command[1]}.log").open("wb") as log:
            return subprocess.Popen(
                self._place(command), cwd=self.folder, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )  # fmt: skip

    def _place(self, command: tuple[str, ...]) -> list[str]:
        own = self.folder / ".venv" / "bin" / command[0]
        return [str(own) if own.exists() else command[0], *command[1:]]
