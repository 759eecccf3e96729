"""Invariants of every population: accounts, open orders, hashes, growing arrays, user-defined traders."""

from pathlib import Path

import numpy as np
import pytest

from serl.agents.traders.population import load_population
from serl.agents.traders.records import IN_FLIGHT, REQUESTS_MAX, TRADE_COUNT, TRADED_LOTS
from serl.agents.traders.registry import Profile, load_kind, trader
from serl.agents.traders.simulate import Simulation, replay_events, simulate, simulate_many, tape_hash
from serl.agents.traders.trader_api import CANCEL, NEW, SECOND_NS
from serl.exchange.code_cache import FOLDER
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import EventFlag, EventKind, Reason
from serl.history.day import read_day, write_day
from tests.agents.traders.trader_bench import ZERO, agent_field, population

MINUTE_NS = 60 * SECOND_NS
OWN = {"modules": ["tests.agents.traders.sample_traders"]}


def check(simulation: Simulation) -> None:
    traders, market = simulation.crowd.traders, simulation.market
    market.validate()
    assert traders.agents["position_lots"].sum() == 0
    assert traders.agents["cash_ticks"].sum() == 0
    in_flight = traders.in_flight_key[1 : traders.counter[IN_FLIGHT] + 1]
    nodes = traders.nodes[(traders.nodes["order_id"] != 0) & ~np.isin(traders.nodes["order_id"], in_flight)]
    nodes = nodes[np.argsort(nodes["order_id"])]
    orders = market.orders()
    orders = orders[np.argsort(orders["order_id"])]
    for field in ("order_id", "price_ticks", "open_lots", "side"):
        assert np.array_equal(nodes[field], orders[field]), field
    used = traders.nodes[traders.nodes["order_id"] != 0]
    counts = np.bincount(used["agent"], minlength=len(traders.agents))
    assert np.array_equal(counts, traders.agents["orders_open"])


@pytest.mark.parametrize("name", ["amzn", "small", "rmsc04", "liquid", "stressed", "hawkes"])
def test_accounts_and_open_orders_agree_with_the_market(name: str) -> None:
    config = load_population(name)
    simulation = Simulation(config, 3)
    for minute in (1, 2, 5, 20, 60):
        simulation.advance(config.open_ns + minute * MINUTE_NS + 12_345_678)
        check(simulation)
    assert len(simulation.commands) > 1000


def test_symbols_have_separate_markets() -> None:
    first, second = {**ZERO, "symbols": ["A"]}, {**ZERO, "symbols": ["B"]}
    config = population(first, second, symbols=["A", "B"])
    simulation = Simulation(config, 1)
    simulation.advance(config.open_ns + 30 * MINUTE_NS)
    check(simulation)
    commands = simulation.commands
    alone = Simulation(population(first, {**second, "start_s": 7200}, symbols=["A", "B"]), 1)
    alone.advance(config.open_ns + 30 * MINUTE_NS)
    own = commands[commands["symbol"] == 0]
    assert 0 < len(own) < len(commands)
    for field in ("time_ns", "price_ticks", "qty_lots", "kind"):
        assert np.array_equal(own[field], alone.commands[field])


def test_the_same_seed_makes_the_same_day_and_another_another() -> None:
    config = load_population("liquid")
    until_ns = config.open_ns + 10 * MINUTE_NS
    first, again, other = (tape_hash(replay_events(simulate(config, seed, until_ns))) for seed in (1, 1, 2))
    assert first == again != other
    together = [tape_hash(replay_events(day)) for day in simulate_many(config, (1, 2), until_ns)]
    assert together == [first, other]


def test_advancing_in_steps_changes_nothing() -> None:
    config = load_population("stressed")
    simulation = Simulation(config, 1)
    for step in range(1, 61):
        simulation.advance(config.open_ns + step * 10 * SECOND_NS)
    assert np.array_equal(simulation.day().commands, simulate(config, 1, config.open_ns + 600 * SECOND_NS).commands)


def test_a_written_day_replays_to_the_same_market(tmp_path: Path) -> None:
    config = load_population("liquid")
    simulation = Simulation(config, 5)
    simulation.advance(config.open_ns + 30 * MINUTE_NS)
    day = simulation.day()
    write_day(day, tmp_path / "one.day")
    read = read_day(tmp_path / "one.day")
    assert read.reference.parameters["seed"] == 5
    events = replay_events(read)
    assert tape_hash(events) == tape_hash(replay_events(day))
    replayed = Market(1, limits=MarketLimits(participants_max=2))
    replayed.submit(read.commands)
    assert np.array_equal(np.asarray(replayed.state.counters), np.asarray(simulation.market.state.counters))
    ours, theirs = simulation.market.orders(), replayed.orders()
    for field in ("order_number", "price_ticks", "open_lots", "total_lots", "side"):
        assert np.array_equal(ours[field], theirs[field]), field
    makers = events[(events["kind"] == EventKind.FILL) & (events["flags"] & EventFlag.MAKER > 0)]
    totals = simulation.crowd.traders.public_totals[0]
    assert (totals[TRADE_COUNT], totals[TRADED_LOTS]) == (len(makers), makers["qty_lots"].sum())
    reasons = events["reason"][events["kind"] == EventKind.REJECTED]
    assert set(reasons.tolist()) <= {Reason.WOULD_CROSS, Reason.UNKNOWN_ORDER}, (
        "orders arrive too late, nothing else is rejected"
    )


def test_the_tape_hash_sees_every_trade() -> None:
    config = load_population("small")
    events = replay_events(simulate(config, 1, config.open_ns + MINUTE_NS))
    before = tape_hash(events)
    events["report"] += 1
    assert tape_hash(events) == before
    events["qty_lots"][np.flatnonzero(events["kind"] == EventKind.FILL)[0]] += 1
    events["qty_lots"][np.flatnonzero(events["kind"] == EventKind.FILL)[1]] += 1
    assert tape_hash(events) != before


def test_thousands_of_open_orders_grow_everything_mid_run() -> None:
    """Orders, far levels, nodes, slab, commands in flight and the tape all start smaller than this needs."""
    config = population({"trader": "flooder", "count": 20, "latency_us": 2e6}, **OWN)
    simulation = Simulation(config, 1)
    market_rows, nodes = len(simulation.market.state.orders), len(simulation.crowd.traders.nodes)
    flights = len(simulation.crowd.traders.in_flight)
    simulation.advance(config.open_ns + 12 * SECOND_NS)
    check(simulation)
    traders = simulation.crowd.traders
    assert len(simulation.market.orders()) > 10_000
    assert len(simulation.market.state.orders) > market_rows
    assert len(traders.nodes) > nodes and len(traders.in_flight) > flights
    assert len(np.unique(simulation.commands["command_id"])) == len(simulation.commands) > 16_384
    assert simulation.day().reference.counts["requests_dropped"] == 0


def test_requests_beyond_the_limit_are_dropped_and_counted() -> None:
    config = population({"trader": "flooder", "profile": {"orders": REQUESTS_MAX + 30}}, **OWN)
    simulation = Simulation(config, 1)
    simulation.advance(config.open_ns + 10 * SECOND_NS)
    wakes = len(simulation.commands) // REQUESTS_MAX
    assert len(simulation.commands) == wakes * REQUESTS_MAX
    assert simulation.day().reference.counts["requests_dropped"] >= wakes * 30 > 0
    assert simulation.day().reference.counts["requests_dropped"] % 30 == 0


def test_commands_arrive_after_the_latency_and_in_order() -> None:
    config = population(ZERO, {"trader": "noise", "count": 50, "latency_us": 5000, "start_s": 1, "start_spread_s": 10})
    simulation = Simulation(config, 1)
    first = simulation.crowd.traders.agents["wake_ns"][1:].copy()
    simulation.advance(config.open_ns + 60 * SECOND_NS)
    commands = simulation.commands
    assert (np.diff(commands["command_id"]) > 0).all() and (np.diff(commands["time_ns"]) >= 0).all()
    # Every noise trader sends one order, at its first wake-up
    arrived = commands["time_ns"][np.isin(commands["time_ns"] % config.spacing_ns, np.arange(1, 51))]
    waited = np.sort(arrived) - np.sort(first)
    assert len(arrived) == 50
    assert (waited >= 5_000_000).all() and (waited < 5_000_000 + 2 * config.spacing_ns).all()


def test_a_crowd_of_a_hundred_thousand_fits() -> None:
    config = population(ZERO, {"trader": "noise", "count": 100_000, "start_spread_s": 23_400})
    simulation = Simulation(config, 1)
    simulation.advance(config.open_ns + MINUTE_NS)
    check(simulation)
    assert simulation.crowd.bytes_used / config.traders <= 1024


def test_one_order_that_trades_with_thousands() -> None:
    """One command makes more events than the loop's buffer holds."""
    flooders = {"trader": "flooder", "count": 20, "profile": {"room_ticks": 50}}
    config = population(flooders, {"trader": "sweeper", "start_s": 8, "start_spread_s": 0}, **OWN)
    simulation = Simulation(config, 1)
    simulation.advance(config.open_ns + 9 * SECOND_NS)
    check(simulation)
    assert (
        int(agent_field(simulation, 1, "position_lots")[0])
        == simulation.crowd.traders.public_totals[0, TRADED_LOTS]
        > 5000
    )


def test_rejected_orders_are_not_open() -> None:
    config = population({"trader": "absurd", "latency_us": 1500_000}, **OWN)
    simulation = Simulation(config, 1)
    simulation.advance(config.open_ns + 60 * SECOND_NS)
    check(simulation)
    assert simulation.market.orders().size == 0
    commands = simulation.commands
    assert (commands["price_ticks"] >= 0).all() and (commands["qty_lots"][commands["kind"] == NEW] > 0).all()
    cancelled = commands["order_id"][commands["kind"] == CANCEL]
    assert len(cancelled) > 50 and len(np.unique(cancelled)) == len(cancelled), "one cancel per order is enough"
    assert agent_field(simulation, 0, "orders_open")[0] <= 10, "rejected orders are not open"


def test_a_trader_outside_serl_is_recompiled_when_serl_changes() -> None:
    """Its compiled cache contains inlined functions of serl."""
    population({"trader": "flooder"}, **OWN)
    for name in ("flooder", "noise"):
        assert Path(load_kind(name).compiled._cache.cache_path).parent == FOLDER


class QuietProfile(Profile):
    """No parameters at all."""


def test_a_trader_that_is_defined_in_no_file() -> None:
    """As in a notebook: it is compiled, and not cached on disk."""
    names: dict[str, object] = {"trader": trader, "QuietProfile": QuietProfile}
    code = """
from serl.agents.traders.trader_api import BUY, limit

@trader("once", QuietProfile)
def once(agent, profile, market, requests):
    limit(requests, BUY, 9000 + agent.number, 7)
"""
    exec(compile(code, "<cell 1>", "exec"), names)
    config = population({"trader": "once", "count": 3})
    simulation = Simulation(config, 1)
    simulation.advance(config.close_ns)
    check(simulation)
    assert sorted(simulation.commands["price_ticks"].tolist()) == [9000, 9001, 9002]
    assert not simulation.crowd.is_active
