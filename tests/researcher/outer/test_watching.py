"""What an onlooker of a run sees where there is no terminal."""

from pathlib import Path

import pytest

from serl.researcher.outer.config import OuterConfig
from serl.researcher.outer.database import Database
from serl.researcher.outer.watching import watched


def test_a_log_has_a_line_for_each_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="the extra `researcher` is not installed")
    with watched(OuterConfig(iterations=3), tmp_path, Database(tmp_path / "run.db")) as watch:
        watch.began(1, 0)
        watch.staged("3acbe2278ff0ceed", "training")
        watch.finished({"iteration": 1, "pa_bps": 0.5, "ema_bps": 0.5, "seconds": 12.0})
    assert capsys.readouterr().err.split("\n")[:3] == [
        "iteration 1 of 3: proposing candidate 1",
        "candidate 3acbe2: training",
        "iteration 1: PA +0.50 bps, mean so far +0.50, 12 s",
    ]
