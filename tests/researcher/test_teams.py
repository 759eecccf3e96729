"""The comparison of agents with and without messages: its figures, and what it refuses. Its quick run is long."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `learning` is not installed")

from benchmarks import teams
from serl.agents.students_t import student, tail
from serl.exchange.errors import ConfigError
from serl.researcher.candidates import Score


def test_silent_messages_are_always_zero() -> None:
    import torch

    namespace: dict[str, Any] = {}
    exec(teams.SILENT, namespace)
    sent = namespace["communicate"](torch.randn(4, 9))
    assert sent.shape == (4, 2) and not sent.any()


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    for wrong in (["--seeds", "1"], ["--orders", "1"], ["--workers", "0"]):
        with pytest.raises(ConfigError, match="expected at least 2 seeds"):
            teams.study(teams.parser().parse_args([*wrong, "--output", str(tmp_path / "teams")]))
    assert not (tmp_path / "teams").exists()


def test_the_p_value_is_that_of_the_interval() -> None:
    """Four orders are four clusters, whatever the number of seeds."""
    moves = np.array([0.2, 0.9, 0.5, 1.4])

    def scored(advantages: np.ndarray) -> Score:
        rows = tuple(map(float, advantages)), (0, 1, 2, 3), (0.0,) * 4
        return Score(float(advantages.mean()), 0.0, 0.0, 0.0, 4, 1.0, 0.0, 0.0, *rows)

    options, random = teams.Options(seeds=30, orders=4), np.random.default_rng(0)
    others = [random.normal(0, 1, 4) for _ in range(options.seeds)]
    arms = {
        teams.TALKING: [one + moves for one in others],
        teams.MUTE: others,
        teams.SINGLE: [one + moves for one in others],
    }
    field: Any = {
        name: SimpleNamespace(at=lambda share, count, own=own: [SimpleNamespace(score=scored(one)) for one in own])
        for name, own in arms.items()
    }
    row = next(
        row for row in teams.compared(field, options) if row.get("contrast") == f"{teams.TALKING} - {teams.MUTE}"
    )
    ratio = row["difference_bps"] / row["se_bps"]
    assert row["p_holm"] == pytest.approx(2 * 2 * tail(ratio, 3))
    assert row["high_bps"] - row["difference_bps"] == pytest.approx(student(3) * row["se_bps"])


@pytest.mark.long
def test_a_study_continues_and_trains_nothing_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.teams", "--quick", "--json", "--output", str(tmp_path / "teams")]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = json.loads(first.stdout)
    assert [row.get("algorithm") or row["contrast"] for row in rows] == [
        teams.SINGLE, teams.MUTE, teams.TALKING, f"{teams.TALKING} - {teams.MUTE}", f"{teams.TALKING} - {teams.SINGLE}",
    ]  # fmt: skip
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 1 and "continue with --resume" in again.stderr
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "teams").rglob("share-1.json")}
    assert len(times) == 6
    next(iter(times)).unlink()
    resumed = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=True)
    assert json.loads(resumed.stdout) == rows
    assert sum(path.stat().st_mtime_ns != time_ns for path, time_ns in times.items()) == 1
