"""The market of simulated traders."""

import numpy as np
import pytest

from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.records import CHILD, EPISODE
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import Simulation
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows
from tests.agents.execution.environment.stage import SECOND_NS, episode

SMALL = load_population("small")
OPEN_S = SMALL.open_ns // SECOND_NS


def orders(count: int, seeds: int = 3) -> Rows:
    """One an environment, from five minutes after the open on."""
    rows = np.zeros(count, EPISODE)
    rows[:] = episode(start=OPEN_S + 300, qty=50, steps=6)
    rows["day"] = np.arange(count) % seeds
    return rows


def run(market: DynamicMarket, rows: Rows, sent: Rows, steps: int = 6) -> tuple[Rows, Rows]:
    """(frames, fills) after some steps with the same children."""
    market.reset(np.arange(market.count), rows)
    for number in range(1, steps + 1):
        market.step(sent, rows["start_ns"] + number * rows["interval_ns"])
    return market.frames.copy(), market.fills.copy()


def children(count: int, lots: int) -> Rows:
    """A market child each."""
    rows = np.zeros(count, CHILD)
    rows["market_lots"] = lots
    return rows


def test_without_orders_of_ours_it_is_the_simulation() -> None:
    frames, _ = run(DynamicMarket(SMALL, 1), orders(1), children(1, 0))
    simulation = Simulation(SMALL, 0)
    simulation.advance(int(frames["time_ns"][0]))
    bids, asks = simulation.market.book(0, 10)
    for name, rows in (("bid", bids), ("ask", asks)):
        np.testing.assert_array_equal(frames[f"{name}_ticks"][0][: len(rows)], rows["price_ticks"])
        np.testing.assert_array_equal(frames[f"{name}_lots"][0][: len(rows)], rows["qty_lots"])


def test_the_same_seed_gives_the_same_whatever_the_threads_and_the_cache() -> None:
    sent = children(6, 3)
    expected = run(DynamicMarket(SMALL, 6, threads=1, cache_mb=0), orders(6), sent)
    market = DynamicMarket(SMALL, 6, threads=2)
    for _ in range(2):  # the second time from states that were kept
        for one, other in zip(expected, run(market, orders(6), sent), strict=True):
            np.testing.assert_array_equal(one, other)
        others = orders(6)
        others["day"] = others["day"][::-1]
        run(market, others, sent)  # in the memory of the first ones
    assert len(np.unique(expected[0]["bid_ticks"][:3, 0])) > 1


def test_traders_see_our_orders() -> None:
    still, _ = run(DynamicMarket(SMALL, 1), orders(1), children(1, 0))
    moved, fills = run(DynamicMarket(SMALL, 1), orders(1), children(1, 200))
    assert fills["lots"][0] > 0
    assert np.any(still["bid_ticks"] != moved["bid_ticks"])


def test_after_a_reset_nothing_has_traded_yet() -> None:
    market = DynamicMarket(SMALL, 2)
    for _ in range(2):  # the second time from a state that was kept
        market.reset(np.arange(2), orders(2))
        for name in ("traded_lots", "traded_notional", "signed_lots", "trades"):
            assert not np.any(market.frames[name])
        assert np.all(market.frames["bid_ticks"][:, 0] > 0)
        market.step(children(2, 0), orders(2)["start_ns"] + 600 * SECOND_NS)
        assert np.all(market.frames["traded_lots"] > 0)


def test_a_reset_of_some_leaves_the_others_alone() -> None:
    market, alone = DynamicMarket(SMALL, 4), DynamicMarket(SMALL, 4)
    rows, sent = orders(4), children(4, 2)
    run(market, rows, sent, steps=2)
    market.reset(np.array([1, 3]), rows[:2])
    until = rows["start_ns"] + 3 * rows["interval_ns"]
    market.step(sent, until)
    run(alone, rows, sent, steps=3)
    for env in (0, 2):
        assert market.frames[env] == alone.frames[env]
        assert market.fills[env] == alone.fills[env]


@pytest.mark.parametrize(
    ("order", "text"),
    [
        (episode(start=0), "window from"),
        (episode(start=OPEN_S, day=-1), "seed"),
        (episode(start=OPEN_S, qty=10**7), "lots"),
    ],
)
def test_invalid_orders_are_refused(order: Rows, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        DynamicMarket(SMALL, 1).reset(np.arange(1), order)
