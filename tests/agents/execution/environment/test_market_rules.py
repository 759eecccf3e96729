"""Rules of a population's market in execution environments: fees, tick tables, lots, matching, bands, phases."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from serl.agents.execution.environment import dynamic, state_cache
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.episodes import RandomOrders
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import Simulation
from serl.exchange.errors import ConfigError
from serl.exchange.market import Market
from serl.exchange.records import PHASE, Phase, Rows
from serl.exchange.snapshot import Snapshot
from tests.agents.execution.environment.stage import SECOND_NS, child, episode
from tests.agents.execution.environment.test_dynamic import OPEN_S
from tests.agents.traders.test_population_processes import RULES
from tests.agents.traders.test_rules import population

NOTHING = child()
OPENING = [{"at": "09:30", "phase": "pre_open"}, {"at": "09:32", "phase": "continuous"}]
UNCROSS_S = OPEN_S + 120


def book_of(market: DynamicMarket) -> Market:
    """The market of the first environment."""
    return market._states[0].market


def at(second: int, sign: int = 1, qty: int = 50, steps: int = 6, **market: Any) -> DynamicMarket:
    """An environment in a market with these rules, seconds after the open."""
    made = DynamicMarket(population(**market), 1)
    made.reset(np.arange(1), episode(start=OPEN_S + second, sign=sign, qty=qty, steps=steps))
    return made


def step(market: DynamicMarket, sent: Rows, seconds: int = 10) -> Any:
    """Our fills in one step, a FILL row."""
    market.step(sent.copy(), market.frames["time_ns"] + seconds * SECOND_NS)
    return market.fills[0].copy()


def assert_same(one: Market, other: Market) -> None:
    """Two markets with the same events so far: all but the numbers of their commands."""
    mine, theirs = one.snapshot(), other.snapshot()
    for name in (field.name for field in dataclasses.fields(Snapshot)):
        count = 3 if name == "counters" else None
        np.testing.assert_array_equal(getattr(mine, name)[:count], getattr(theirs, name)[:count], name)


def own_orders(market: DynamicMarket) -> Rows:
    """Our resting orders."""
    rows = book_of(market).orders()
    return rows[rows["participant"] == 1]


@pytest.mark.parametrize("rules", [RULES, {"fees": {"taker_ppm": 100}}, {"tick_table": {0: 5}}, {"day": OPENING}])
def test_without_orders_of_ours_it_is_the_simulation(rules: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Book, accounts and counters of events; from the open, and from a state that was kept amid the day."""
    monkeypatch.setattr(state_cache, "FINEST_NS", 7 * SECOND_NS)
    monkeypatch.setattr(dynamic, "COMMANDS_MIN", 1)
    config = population(**rules)
    market = DynamicMarket(config, 1)
    order = episode(start=OPEN_S + 80, steps=1) if "day" not in rules or rules is RULES else episode(start=OPEN_S + 130)
    for _ in range(2):
        market.reset(np.arange(1), order)
        simulation, sequences = Simulation(config, 0), []
        for second in (140, 150, 300) if rules is not RULES else (97, 102, 113, 120):
            market.step(NOTHING, np.array([(OPEN_S + second) * SECOND_NS]))
            simulation.advance((OPEN_S + second) * SECOND_NS)
            assert_same(book_of(market), simulation.market)
            sequences.append(int(simulation.market.state.counters["event_sequence"][0]))
        assert np.all(np.diff(sequences) > 0)


FEES = {"taker_ppm": 130, "taker_microticks": 400, "maker_ppm": -20, "auction_ppm": 11}


def test_a_fee_is_charged_exactly() -> None:
    """Quantity x price x rate, in the FILL rows, in the costs and in the reward; the same order without fees pays nothing else."""
    settled = {}
    for name, fees in (("charged", FEES), ("free", {"taker_ppm": 0})):
        env = ExecutionVectorEnv(DynamicMarket(population(fees=fees), 1), RandomOrders(()), actions="market")
        env.reset(seed=1, options={"episodes": episode(start=OPEN_S + 300, qty=60, steps=2)})
        fills, _ = env.step_without_reset(np.array([[0.5]]))
        reward = env.reward(env, fills, np.zeros(1, bool))
        forced, last = env.step_without_reset(np.array([[0.0]]))
        assert last.all() and fills["lots"][0] == forced["lots"][0] == 30
        settled[name] = fills, forced, reward, env.accounts.results(), env.accounts.parents.copy()
    (first, second, reward, charged, parents), (*same, free_reward, free, _) = settled["charged"], settled["free"]
    for fills, others in zip((first, second), same, strict=True):
        assert fills["fee_microticks"] == fills["notional"] * 130 + fills["lots"] * 400
        assert fills["notional"] == others["notional"] and others["fee_microticks"] == 0
    fee = (first["fee_microticks"] + second["fee_microticks"]) / 1e6
    notional = first["notional"] + second["notional"]
    np.testing.assert_allclose(parents["fees"], fee, rtol=1e-12)
    np.testing.assert_allclose(charged["fees_bps"], fee / notional * 1e4, rtol=1e-12)
    np.testing.assert_allclose(free["price_ticks"] - charged["price_ticks"], fee / 60, rtol=1e-9)
    np.testing.assert_allclose(
        free_reward - reward, first["fee_microticks"] / 1e6 / parents["arrival_mid"] / 60 * 1e4, rtol=1e-9
    )
    assert free["fees_bps"] == 0 < charged["fees_bps"]


def test_a_resting_order_earns_the_rebate() -> None:
    market = at(300, fees=FEES)
    total = np.zeros(2, np.int64)
    for _ in range(12):
        touch = int(market.frames["ask_ticks"][0, 0])
        fill = step(market, child(limit=20, price=touch))
        total += fill["notional"], fill["fee_microticks"]
    assert total[1] == total[0] * -20 < 0


@pytest.mark.parametrize(("sign", "offset", "aligned"), [(1, 3, 5), (1, 5, 5), (-1, -3, -5), (-1, -5, -5)])
def test_a_price_beside_the_tick_table_moves_away_from_the_market(sign: int, offset: int, aligned: int) -> None:
    market = at(300, sign=sign, tick_table={0: 5})
    side = "ask_ticks" if sign > 0 else "bid_ticks"
    touch = int(market.frames[side][0, 0])
    assert touch % 5 == 0
    step(market, child(limit=20, price=touch + sign * 40 + offset), seconds=1)
    assert own_orders(market)["price_ticks"].tolist() == [touch + sign * 40 + aligned]


def test_children_are_whole_multiples_of_lots_and_so_are_orders() -> None:
    market = at(300, qty=40, lot_multiple=20)
    assert step(market, child(market=35))["lots"] == 20
    assert step(market, child(market=19))["lots"] == 0
    with pytest.raises(ConfigError, match=r"multiple of lot_multiple \(20\), got 50"):
        market.reset(np.arange(1), episode(start=OPEN_S + 300, qty=50))


def test_a_resting_order_gets_its_share_of_what_trades() -> None:
    """In pro-rata it fills although older orders are ahead of it; by time it never does."""
    fills = {}
    for matching in ("pro-rata", "price-time"):
        market, count = at(300, matching=matching), 0
        for _ in range(25):
            fill = step(market, child(limit=100, price=int(market.frames["ask_ticks"][0, 0])), seconds=2)
            count += fill["lots"] > 0 and fill["ahead_lots"] > 0
        fills[matching] = count
    assert fills["pro-rata"] > 0 == fills["price-time"]


def test_in_an_auction_a_limit_order_waits_a_market_order_is_rejected_and_the_uncross_fills() -> None:
    market = at(60, day=OPENING, fees=FEES, steps=8)
    price = int(market.frames["ask_ticks"][0, 0])
    for _ in range(6):
        fill = step(market, child(market=10, limit=30, price=max(1, price - 500)))
        assert (fill["lots"], fill["resting_lots"]) == (0, 30), "it waits; what takes at once is rejected"
    assert market.frames["time_ns"][0] == UNCROSS_S * SECOND_NS and len(own_orders(market)) == 1
    fill = step(market, child(market=20, limit=30, price=price + 10_000))
    auction_lots = 30
    assert fill["lots"] == auction_lots + 20, "the child in flight is less by what filled in the auction, not more"
    taken = (fill["fee_microticks"] - 11 * fill["notional"] - 20 * 400) / (130 - 11)
    assert 20 * (price - 100) < taken < 20 * (price + 100), "30 lots at the rate of auctions, 20 at that of takers"
    assert book_of(market).account(1).position_lots == -50


def test_trades_of_an_auction_have_no_sign() -> None:
    market = at(110, day=OPENING, steps=2)
    step(market, NOTHING)
    assert market.frames["traded_lots"][0] == 0
    market.step(NOTHING, np.array([UNCROSS_S * SECOND_NS + 1]))
    assert market.frames["traded_lots"][0] > 0 == market.frames["signed_lots"][0]


def test_an_order_does_not_trade_outside_a_band() -> None:
    market = at(60, qty=100_000)
    low = int(market.frames["bid_ticks"][0, 1])
    market = at(60, qty=100_000, band_low_ticks=low, band_high_ticks=20_000)
    fill = step(market, child(market=100_000), seconds=1)
    assert 0 < fill["lots"] < 100_000 and fill["notional"] >= low * fill["lots"]
    free = at(60, qty=100_000)
    assert step(free, child(market=100_000), seconds=1)["lots"] > fill["lots"]


def test_an_order_beyond_the_band_begins_an_interruption_in_which_we_wait() -> None:
    rules: dict[str, Any] = {
        "band_low_ticks": 9_000,
        "band_high_ticks": 11_000,
        "band_action": "auction",
        "volatility_s": 20,
    }
    market = at(60, qty=100_000, **(rules | {"band_low_ticks": int(at(60).frames["bid_ticks"][0, 1])}))
    assert 0 < step(market, child(market=100_000))["lots"] < 100_000
    phase = book_of(market).state.symbols[0]
    assert phase[PHASE] == Phase.VOLATILITY
    assert step(market, child(market=50))["lots"] == 0
    assert book_of(market).state.symbols[0][PHASE] == Phase.VOLATILITY
    market.step(NOTHING, market.frames["time_ns"] + 2_000_000)
    assert book_of(market).state.symbols[0][PHASE] == Phase.CONTINUOUS, "20 s after the order that arrived 1 ms late"


def test_what_an_interruption_keeps_from_completion_stays_unfilled() -> None:
    low = int(at(60).frames["bid_ticks"][0, 1])
    rules = {"band_low_ticks": low, "band_high_ticks": 11_000, "band_action": "auction", "volatility_s": 60}
    env = ExecutionVectorEnv(DynamicMarket(population(**rules), 1), RandomOrders(()), actions="market")
    env.reset(seed=1, options={"episodes": episode(start=OPEN_S + 60, qty=100_000, steps=2)})
    for share in (0.9, 0.0):
        env.step_without_reset(np.array([[share]]))
    results, parent = env.accounts.results(), env.accounts.parents[0]
    assert 0 < results["ffr"][0] < 1 and parent["remaining_lots"] == parent["unfilled_lots"] > 0
    assert results["price_ticks"] >= low


@pytest.mark.parametrize(
    ("rules", "second", "words"),
    [
        ({"day": OPENING}, 40, "got pre_open at 09:31:40; choose another window"),
        ({"day": [*OPENING, {"at": "09:34", "phase": "closing"}]}, 180, "got closing at 09:34:00"),
    ],
)
def test_windows_that_end_outside_continuous_trading_are_refused(
    rules: dict[str, Any], second: int, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        at(second, **rules)


def test_a_market_that_never_trades_continuously_is_refused() -> None:
    with pytest.raises(PopulationError, match=r"small: market.day: expected continuous trading .* got only intraday"):
        DynamicMarket(population(day=[{"at": "09:30", "phase": "intraday"}], auction_every_s=1), 1)


def test_the_same_with_any_number_of_threads_and_from_states_that_were_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own orders among bands that follow the market."""
    monkeypatch.setattr(state_cache, "FINEST_NS", 20 * SECOND_NS)
    monkeypatch.setattr(dynamic, "COMMANDS_MIN", 1)
    rules = {"band_ppm": 1000, "reference_ticks": 10_000, "band_action": "auction", "volatility_s": 20, "fees": FEES}
    orders = np.repeat(episode(start=OPEN_S + 205, qty=60, steps=6), 4)
    orders["day"] = [0, 1, 0, 1]
    sent = np.repeat(child(market=5, limit=10, price=10_000), 4)
    results = []
    for threads, cache_mb in ((1, 0), (2, 64)):
        market = DynamicMarket(population(**rules), 4, threads=threads, cache_mb=cache_mb)
        for _ in range(2):
            market.reset(np.arange(4), orders)
            for number in range(1, 7):
                market.step(sent.copy(), orders["start_ns"] + number * orders["interval_ns"])
            results.append((market.frames.copy(), market.fills.copy()))
    for frames, fills in results[1:]:
        np.testing.assert_array_equal(frames, results[0][0])
        np.testing.assert_array_equal(fills, results[0][1])
    assert results[0][0][0] == results[0][0][2] != results[0][0][1]
    assert load_population("small").market != population(**rules).market
