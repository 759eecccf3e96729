"""Seeds of the simulation, in processes of their own: they replace clock, network and disk."""

import json
import os
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


@pytest.mark.parametrize(
    ("seeds", "again"),
    [("0:40", 7), ("40:80", None), ("80:120", None), ("120:160", None), ("160:200", None), ("329:330", None)],
)
def test_seeds_pass_and_replay_exactly_wherever_they_run(seeds: str, again: int | None, tmp_path: Path) -> None:
    """The same history behind other seeds, and in a process of its own. 329 found a second answer to a repeated login, taken for a gap."""
    done = simulate("--seeds", seeds, "--json", str(tmp_path / "result.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    if again is not None:
        alone = simulate("--seed", str(again))
        history = json.loads((tmp_path / "result.json").read_text())["histories"][str(again)]
        assert f"seed {again} passed; history {history}" in alone.stdout, alone.stdout + alone.stderr


def test_the_page_has_every_planted_bug() -> None:
    code = "from tests.sim import install\nimport os\nfrom tests.sim.bugs import BUGS\nprint(*BUGS, sep='\\n', flush=True)\nos._exit(0)"
    planted = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    page = (ROOT / "docs" / "trust.md").read_text().partition("## Planted bugs")[2].partition("## Soak")[0]
    listed = [line.split(" | ")[0][2:] for line in page.splitlines() if line.startswith("| ")][1:]
    assert sorted(listed) == sorted(planted.split("\n")[:-1])


@pytest.mark.long
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
