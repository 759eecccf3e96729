"""Rules of a simulated market: fees, bands, phases, auctions."""

from typing import Any

import numpy as np
import pytest
import yaml

from serl.agents.traders.errors import PopulationError
from serl.agents.traders.population import PopulationConfig, check_population, load_population
from serl.agents.traders.population_processes import match_symbols
from serl.agents.traders.simulate import Simulation, fingerprint, replay_events, tape_hash
from serl.exchange.config import load_config
from serl.exchange.market import Market
from serl.exchange.records import CommandKind, EventFlag, EventKind, Phase, Rows
from tests.agents.traders.test_population_processes import RULES
from tests.doc_blocks import blocks

SECOND_NS = 1_000_000_000
DAY = [{"at": "09:30", "phase": "continuous"}, {"at": "09:38", "phase": "closing"}, {"at": "09:40", "phase": "closed"}]


def population(**market: Any) -> PopulationConfig:
    """`small` for ten minutes, with rules."""
    values = load_population("small").model_dump(mode="json")
    return check_population(values | {"close": "09:40", "market": market}, "small")


def simulated(config: PopulationConfig, steps: int = 1) -> tuple[Simulation, Rows]:
    """A simulation of the whole day in equal steps, and the events of a replay of its commands."""
    simulation = Simulation(config, 7)
    for step in range(1, steps + 1):
        simulation.advance(config.open_ns + (config.close_ns - config.open_ns) * step // steps)
    return simulation, replay_events(simulation.day())


def phases(events: Rows) -> list[tuple[int, int]]:
    """(nanoseconds after the open, phase) of each change."""
    changes = events[events["kind"] == EventKind.PHASED]
    return [(int(row["time_ns"]) - load_population("small").open_ns, int(row["flags"])) for row in changes]


def test_traders_pay_the_fees_that_the_market_charges() -> None:
    fees = {"maker_microticks": -700, "maker_ppm": -20, "taker_ppm": 130, "auction_microticks": 900, "auction_ppm": 11}
    simulation, events = simulated(population(fees=fees, day=DAY))
    auction = events[(events["kind"] == EventKind.FILL) & (events["flags"] & EventFlag.AUCTION > 0)]
    assert len(auction) > 10, "some of it in the closing auction"
    account = simulation.market.account(0, 0)
    agents = simulation.crowd.traders.agents
    assert int(agents["fee_microticks"].sum()) == account.fees_microticks != 0
    assert int(agents["cash_ticks"].sum()) == account.cash_ticks, "cash is before fees"


def test_a_day_ends_with_its_closing_auction_and_replays_exactly() -> None:
    simulation, events = simulated(population(day=DAY))
    assert phases(events) == [(480 * SECOND_NS, Phase.CLOSING), (600 * SECOND_NS, Phase.CLOSED)]
    assert events[events["kind"] == EventKind.PHASED]["qty_lots"][-1] > 0, "lots of the auction"
    assert simulation.day().commands["kind"][-1] == CommandKind.END_DAY
    replayed = Market(["DEMO"])
    replayed.grant_operator(0)
    replayed.submit(simulation.day().commands)
    for side, same in zip(replayed.book(), simulation.market.book(), strict=True):
        assert side.tobytes() == same.tobytes()


def test_an_order_beyond_the_band_begins_an_auction_that_ends_in_time() -> None:
    rules = {"band_ppm": 1000, "reference_ticks": 10_000, "band_action": "auction", "volatility_s": 20}
    simulation, events = simulated(population(**rules))
    changes = phases(events[events["qty_lots"] == 0])  # an UNCROSS before the end carries the lots of the auction
    assert len(changes) >= 2
    for (start_ns, first), (end_ns, second) in zip(changes[::2], changes[1::2], strict=False):
        assert (first, second) == (Phase.VOLATILITY, Phase.CONTINUOUS)
        assert end_ns - start_ns == 20 * SECOND_NS
    moves = simulation.commands
    assert np.count_nonzero(moves["kind"] == CommandKind.RULE) > 3, "the band follows the auctions"
    trades = events[
        (events["kind"] == EventKind.FILL) & (events["time_ns"] < changes[0][0] + load_population("small").open_ns)
    ]
    assert np.abs(trades["price_ticks"] - 10_000).max() <= 10


@pytest.mark.long
def test_steps_of_any_length_make_the_same_tape() -> None:
    config = population(**RULES)
    whole, parts = simulated(config), simulated(config, steps=77)
    assert len(whole[0].commands) == len(parts[0].commands)
    assert tape_hash(whole[1]) == tape_hash(parts[1])


def test_populations_without_rules_are_what_they_were() -> None:
    assert fingerprint(load_population("small")) == "eba288cdaebc41fa"
    assert fingerprint(population(lot_multiple=10)) != fingerprint(population())


@pytest.mark.parametrize(
    ("market", "words"),
    [
        (
            {"band_ppm": 10, "band_low_ticks": 5},
            "market: symbols.DEMO.band_ppm: expected a band that follows the market",
        ),
        ({"day": [{"at": "09:35", "phase": "continuous"}]}, "expected a phase from the open"),
        ({"fee": {}}, "market.fee: expected one of "),
        ({"matching": "random"}, "market.matching"),
    ],
)
def test_rules_that_cannot_be_are_refused(market: dict[str, Any], words: str) -> None:
    with pytest.raises(PopulationError, match=words):
        population(**market)


def test_the_documented_rules_are_a_market() -> None:
    rules, *_ = blocks("traders.md", "yaml")
    values = load_population("liquid").model_dump(mode="json") | yaml.safe_load(rules.text)
    assert check_population(values, "traders.md").market.band_action == "auction"


def test_where_rules_would_be_ignored_they_are_refused() -> None:
    config = population(fees={"taker_ppm": 100})
    other = load_config(overrides={"symbols": [{"name": "DEMO"}]})
    with pytest.raises(PopulationError, match="expected the rules of small"):
        match_symbols(config, other)
    assert match_symbols(config, config.exchange) == config


@pytest.mark.long
def test_stressed_prices_stay_near_the_value_through_interruptions() -> None:
    """With seed 2, orders once ran away to three times the value while one was collecting them."""
    values = load_population("stressed").model_dump(mode="json")
    band = {"band_ppm": 10_000, "reference_ticks": 10_000, "band_action": "auction", "volatility_s": 120}
    config = check_population(values | {"market": band}, "stressed")
    simulation = Simulation(config, 2)
    simulation.advance(config.open_ns + 10_300 * SECOND_NS)
    rows = simulation.commands
    orders = rows[(rows["kind"] == CommandKind.NEW) & (rows["price_ticks"] > 0)]
    assert (rows["kind"] == CommandKind.PHASE).sum() >= 10, "interruptions end"
    assert orders["price_ticks"].min() > 5_000 and orders["price_ticks"].max() < 15_000
