"""What observations say about the next prices, on numbers whose answer is known."""

from pathlib import Path

import numpy as np
import pytest

from serl.agents.learning.market_config import MarketConfig
from serl.researcher.inner.signals import market_signals, signals_in
from tests.agents.execution.test_data import rows, write

STEPS, PER_DAY = 10, 4


def walk(days: int, seed: int, slope_bps: float, *, common: bool = False, clustered: bool = True) -> dict[str, float]:
    """t of `imbalance`, by which the next move is foretold with this slope in bps, and of `gap_0`, which is noise; with `common` orders of a day see the same."""
    rng, count = np.random.default_rng(seed), days * PER_DAY
    signs, days_of = rng.choice([-1, 1], count), np.repeat(np.arange(days), PER_DAY)
    shape = (days if common else count, STEPS)
    rows = days_of if common else np.arange(count)
    clusters = days_of if clustered else np.arange(count)
    raised, noise, moves = (rng.normal(0, 1, shape)[rows] for _ in range(3))
    moves_bps = slope_bps * raised + 3.0 * moves
    mids_ticks = 1e6 * np.exp(np.concatenate((np.zeros((count, 1)), moves_bps.cumsum(axis=1) / 1e4), axis=1))
    observed = np.stack((raised, noise, np.ones_like(noise)), axis=2)
    found = signals_in(observed, mids_ticks, signs, clusters, ("imbalance", "gap_0", "time_left"))
    assert "time_left" not in found, "it never varies"
    return {name: one.t for name, one in found.items()} | {"gain_bps": found["imbalance"].gain_bps}


def test_what_foretells_the_price_is_found_with_its_size() -> None:
    found = walk(400, 0, 2.0)
    assert found["gain_bps"] == pytest.approx(2.0, abs=0.3), "a move lasts, so the later mids have all of it"
    assert found["imbalance"] > 10 and abs(found["gap_0"]) < 3
    assert walk(400, 0, -2.0)["gain_bps"] == pytest.approx(-2.0, abs=0.3)


def test_noise_counts_as_often_as_two_standard_errors_say() -> None:
    """Orders of a day see the same: without clusters, noise counts more often than it may."""
    alone = np.array([abs(walk(50, seed, 0.0)["gap_0"]) for seed in range(300)])
    together = np.array([abs(walk(50, seed, 0.0, common=True)["gap_0"]) for seed in range(300)])
    for found in (alone, together):
        assert 0.02 < np.mean(found > 2) < 0.09
    unclustered = [abs(walk(50, seed, 0.0, common=True, clustered=False)["gap_0"]) for seed in range(300)]
    assert np.mean(np.array(unclustered) > 2) > 0.12


def test_a_simulated_market_has_signals() -> None:
    """In `trending` a price that has moved comes back within minutes, so what has gained will lose."""
    market = MarketConfig(
        kind="dynamic", population="trending", hours="10:00-10:10", simulated_days=16, latency_us=1000, duration_s=300, interval_s=10,
        share_min=0.02, share_max=0.1,
    )  # fmt: skip
    found = market_signals(market)
    assert found["drift"].counts and found["drift"].gain_bps < -2
    assert found == market_signals(market), "the same market gives the same numbers"


def test_bars_have_signals_too(tmp_path: Path) -> None:
    """A policy may see fewer levels than a rule; the observations have the width that the environment gives them."""
    bars = write(tmp_path / "bars.parquet", rows())
    market = MarketConfig(kind="static", environments=8, duration_s=300, interval_s=60, levels=1, spreads="stock", data=[bars])  # fmt: skip
    found = market_signals(market)
    assert "return_0" in found and all(np.isfinite((one.gain_bps, one.t)).all() for one in found.values())
