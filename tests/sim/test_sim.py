"""Seeds of the simulation, in processes of their own: they replace clock, network and disk."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def simulate(*options: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))}
    return subprocess.run(
        [sys.executable, "-m", "tests.sim", *options], env=environment, cwd=ROOT, capture_output=True, text=True
    )


@pytest.mark.parametrize("seeds", ["0:100", "100:200"])
def test_seeds_pass(seeds: str) -> None:
    done = simulate("--seeds", seeds)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_seed_replays_exactly_wherever_it_runs() -> None:
    """The same history in another process, and behind other seeds."""
    alone = simulate("--seed", "7")
    others = simulate("--seeds", "5:8", "--verbose")
    history = re.findall(r"seed 7 passed; history (\w{16})", alone.stdout + others.stdout)
    assert len(history) == 2 and history[0] == history[1], alone.stdout + others.stdout


def test_planted_bugs_are_found() -> None:
    """Those that few seeds find; `python -m tests.sim --bugs` plants all."""
    names = (
        "acknowledged before the sync",
        "resend executed twice",
        "restart unnoticed",
        "cash lost",
        "asked once",
    )
    found = simulate("--bugs", "--seeds", "0:60", *(part for name in names for part in ("--only", name)))
    assert found.returncode == 0, found.stdout + found.stderr
