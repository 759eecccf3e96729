"""How messages cluster: measured on a flow that was told how, and on one that does not."""

import numpy as np
import pytest

from serl.agents.calibration.bursts import measure_bursts, recent_trades
from serl.agents.realism.tape import Tape, build_tape
from serl.agents.traders.flow_tables import RECENT_TRADES_DECAY
from serl.agents.traders.simulate import simulate
from tests.agents.calibration.sample import TRAIN, flow, poisson_day

NONE = {
    "burst_share": 0.0,
    "score_quiet": 0.0,
    "score_by_trade": 0.0,
    "market_quiet": 1.0,
    "market_by_trade": 0.0,
    "activity_deviation": 0.0,
}


def window(**profile: float) -> Tape:
    return build_tape(simulate(flow(**NONE | profile), 1, TRAIN[1]), 10).window(*TRAIN)


def test_recent_trades_fade_message_by_message() -> None:
    found = recent_trades(np.array([False, True, False, True, False]))
    fade = RECENT_TRADES_DECAY
    assert found.tolist() == pytest.approx([0, 0, 1, fade, 1 + fade**2])


def test_bursts_that_the_flow_was_told_are_measured_again() -> None:
    found = measure_bursts([window(burst_share=0.3, burst_events=6.0)])
    assert found.share == pytest.approx(0.3, abs=0.08) and found.events == pytest.approx(6.0, abs=3.0)
    assert abs(found.score_by_trade) < 0.1


@pytest.mark.long
def test_haste_and_market_orders_that_the_flow_was_told_are_measured_again() -> None:
    found = measure_bursts([window(score_by_trade=-0.4)])
    assert found.score_by_trade == pytest.approx(-0.4, abs=0.12) and found.share < 0.1
    found = measure_bursts([window(market_quiet=0.6, market_by_trade=2.0)])
    assert 0.4 < found.market_quiet < 0.8 and found.market_by_trade > 1.0


def test_messages_at_random_do_not_cluster() -> None:
    found = measure_bursts([build_tape(poisson_day(), 10).window(*TRAIN)])
    assert found.share < 0.1 and abs(found.score_by_trade) < 0.05
    assert found.market_quiet == pytest.approx(1.0, abs=0.1) and found.market_by_trade < 0.3


def test_haste_after_trades_makes_no_more_messages() -> None:
    """Waits without a recent trade are longer for it: the measured scores have a mean of 0."""
    found = measure_bursts([window(score_by_trade=-0.4)])
    assert found.score_quiet > 0.02
    counts = [
        len(window(**haste))
        for haste in ({}, {"score_by_trade": -0.4}, {"score_by_trade": -0.4, "score_quiet": found.score_quiet})
    ]
    assert counts[1] > 1.1 * counts[0] and abs(counts[2] / counts[0] - 1) < abs(counts[1] / counts[0] - 1) / 2
