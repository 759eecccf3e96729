"""The study of how far markets of minds are from a real day: what is recorded, and what is compared."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from benchmarks import minds_realism, minds_study
from serl.agents.realism.errors import RealismError
from serl.agents.realism.tape import build_tape
from serl.agents.traders.simulate import replay_events
from serl.exchange.records import EventKind
from serl.history.day import read_day
from serl.history.generate import generate_day
from serl.researcher.llm.settings import Endpoint

OPEN_NS = 34_200 * 10**9


def test_what_minds_do_is_recorded(tmp_path: Path) -> None:
    """Every day of the market, not only the first; and as often as the statistics say."""
    config, place = minds_realism.configured("two-stocks-week", 4, 2, 1, "random")
    nobody = Endpoint(base_url="http://127.0.0.1:1/v1", model="none")  # nobody asks it
    config = config.model_copy(update={"model": None, "endpoint": nobody})
    path = tmp_path / "random-1" / minds_realism.RECORDED
    found = minds_study.played(config, place, path.parent, partial(minds_realism.recorded, config, path))
    tapes = minds_realism.tapes_of(path, config, 5)
    assert [tape.symbol for tape in tapes] == list(config.symbols)
    assert {int(time_ns) // (86_400 * 10**9) for tape in tapes for time_ns in tape.time_ns} == {0, 1}
    events = replay_events(read_day(path))
    assert (events["kind"] == EventKind.FILL).sum() == found["all"]["fills"] > 0


def test_a_day_is_nearer_to_itself_than_a_stretch_and_a_short_one_further() -> None:
    real = build_tape(generate_day(1, start_ns=OPEN_NS, end_ns=OPEN_NS + 600 * 10**9), 5)
    assert minds_realism.distances(real, [real]) == dict.fromkeys(minds_realism.distances(real, [real]), 0.0)
    long, short = (
        np.mean(
            [
                minds_realism.distances(real, minds_realism.stretches(real, [length] * 2, seed))[minds_realism.MEAN]
                for seed in range(5)
            ]
        )
        for length in (len(real) // 2, 100)
    )
    assert 0 < long < short
    with pytest.raises(RealismError, match="expected at least"):
        minds_realism.stretches(real, [len(real) + 1], 1)


def test_differences_are_those_of_seeds() -> None:
    markets = [
        {"model": {"spread": model}, "random": {"spread": 0.5}, "stretch": {"spread": 0.1}} for model in (0.2, 0.4)
    ]
    (row,) = minds_realism.rows_of(markets)
    assert row["model"] == pytest.approx(0.3) and row["random"] == 0.5 and row["stretch"] == pytest.approx(0.1)
    assert row["difference"]["mean"] == pytest.approx(-0.2)
    assert row["difference"]["low"] == pytest.approx(-0.2 - 12.706 * 0.1)
    assert "| spread | 0.300 | 0.500 | -0.200 [-1.471, 1.071] | 0.100 |" in minds_realism.markdown([row])
