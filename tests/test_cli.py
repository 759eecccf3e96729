"""What the command line says where something cannot be, in one line."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("demo --output FILE", "FILE"),
        ("keys new FILE", "FILE"),
        ("drop-copy -o FILE/x", "FILE/x"),
    ],
)
def test_a_path_that_cannot_be_used_is_one_line(line: str, named: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    arguments = line.replace("FILE", str(file)).split()
    done = subprocess.run([sys.executable, "-m", "serl", *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"error: {named.replace('FILE', str(file))}: ")
