"""The replay market restores how a symbol trades, whatever was replayed in its book before."""

import numpy as np
import pytest

from serl.agents.execution.environment.records import CHILD
from serl.agents.execution.environment.replay import CHECKPOINT_NS, ReplayMarket
from serl.exchange.errors import ConfigError
from serl.exchange.records import CommandKind, Phase, Rule
from serl.history.day import Day
from tests.agents.execution.environment.stage import BUY, SECOND_NS, SELL, child, day, episode, step

QUOTES = ((0.0, "NEW", BUY, 99, 150, 0), (0.0, "NEW", SELL, 101, 50, 0), (1.0, "NEW", SELL, 99, 100, 0))
"""And a trade, because orders are at most the volume of the day."""
LAST_S = 400


def phased(*phases: tuple[float, Phase]) -> Day:
    """A day with quotes and phases at some times (s); in the call phase nothing trades, and the quotes of the day end with it."""
    made = day(
        *QUOTES, *((time_s, "PHASE", 0, 0, 0, 0) for time_s, _ in phases), (LAST_S, "END_DAY", 0, 0, 0, 0), last=LAST_S
    )
    made.commands["flags"][len(QUOTES) : -1] = [phase for _, phase in phases]
    made.commands["time_in_force"] = 0  # DAY
    return made


def sold(market: ReplayMarket, start_s: int) -> int:
    """Lots of a market order for 10 that are filled in the ten seconds from a time on."""
    market.reset(np.arange(1), episode(start=start_s, steps=1))
    step(market, child(market=10), start_s + 10)
    return int(market.fills["lots"][0])


def test_an_episode_that_begins_in_a_halt_waits_for_its_end() -> None:
    """Between HALT and the start lies a checkpoint, which knows that nothing trades."""
    halted = day(*QUOTES, (5, "HALT", 0, 0, 0, 0), (300, "RESUME", 0, 0, 0, 0), last=LAST_S)
    market = ReplayMarket([halted], 1)
    assert 2 * CHECKPOINT_NS < 250 * SECOND_NS
    assert [sold(market, start_s) for start_s in (250, 2, 300, 289)] == [0, 10, 10, 0]


@pytest.mark.parametrize("start_s", [5, 290])
def test_an_episode_has_the_phase_of_its_start_whatever_was_replayed_before(start_s: int) -> None:
    """The end of the day in an earlier episode closes no later one; an auction that began before the last checkpoint goes on."""
    history = phased((100, Phase.OPENING), (280, Phase.CONTINUOUS), (350, Phase.CLOSED))
    market = ReplayMarket([history], 1)
    assert sold(market, start_s) == 10
    assert sold(market, 260) == 0
    assert sold(market, 380) == 0
    assert sold(market, start_s) == 10


def test_the_end_of_the_day_in_one_book_leaves_the_others() -> None:
    """END_DAY would cancel the orders of all symbols of the market, which are the books of other environments."""
    market = ReplayMarket([phased()], 2)
    rows = np.concatenate((episode(start=LAST_S - 10, steps=1), episode(start=10, steps=1)))
    market.reset(np.arange(2), rows)
    market.step(np.zeros(2, CHILD), rows["start_ns"] + 10 * SECOND_NS)
    market.force(np.arange(1), np.zeros(1, CHILD))
    market.step(np.zeros(2, CHILD), market.frames["time_ns"] + SECOND_NS)
    assert market.frames["bid_ticks"][:, 0].tolist() == [0, 99]
    assert market.frames["ask_ticks"][:, 0].tolist() == [0, 101]
    assert CommandKind.END_DAY in phased().commands["kind"]


def test_orders_fit_the_lots_and_ticks_of_the_day() -> None:
    """Each order of another quantity or price was refused, also the one that completes the parent order, so 105 lots became 10."""
    rules = ((0.0, "RULE", 0, 10, 0, 0), (0.0, "RULE", 0, 5, 0, 0))
    quotes = ((0.0, "NEW", BUY, 95, 150, 0), (0.0, "NEW", SELL, 105, 50, 0), (1.0, "NEW", SELL, 95, 100, 0))
    rounded = day(*rules, *quotes, last=LAST_S)
    rounded.commands["flags"][:2] = Rule.LOT, Rule.TICK
    market = ReplayMarket([day(*QUOTES, last=LAST_S), rounded], 1)
    rows = episode(qty=30, start=10, steps=2, day=1)
    market.reset(np.arange(1), rows)
    step(market, child(market=15, limit=14, price=102), 20)
    assert market.fills["lots"].tolist() == [10]
    assert (market.fills["resting_lots"].tolist(), market.frames["ask_ticks"][0, 0]) == ([10], 105)
    market.reset(np.arange(1), episode(qty=35, start=10, steps=2))
    rows["qty_lots"] = 35
    with pytest.raises(ConfigError, match=r"expected a multiple of lot_multiple \(10\), got 35; round it"):
        market.reset(np.arange(1), rows)


def test_fees_of_the_day_are_charged_to_each_episode() -> None:
    """A taker pays a half of a tick a lot and 100 millionths of 99, whatever earlier episodes paid."""
    rules = ((0.0, "RULE", 0, 500_000, 0, 0), (0.0, "RULE", 0, 100, 0, 0))
    charged = day(*rules, *QUOTES, last=LAST_S)
    charged.commands["flags"][:2] = Rule.TAKER_MICROTICKS, Rule.TAKER_PPM
    market = ReplayMarket([charged], 1)
    for start_s in (2, 250, 2):
        assert sold(market, start_s) == 10
        assert market.fills["fee_microticks"][0] == 10 * (500_000 + 99 * 100)
