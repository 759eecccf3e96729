"""The effects of kinds of traders on a market, and of the market on them."""

import math
from typing import Any

import numpy as np
import pytest

from serl.agents.realism.facts import autocorrelation
from serl.agents.traders.kinds.hawkes import HawkesProfile
from serl.agents.traders.records import WAKEUPS
from serl.agents.traders.simulate import Simulation
from serl.agents.traders.trader_api import CANCEL, IOC, NEW, SECOND_NS
from serl.exchange.records import CommandFlag, Rows, Side
from tests.agents.traders.trader_bench import ZERO, agent_field, population, simulate_hours


def trade_signs(commands: Rows) -> Any:
    """+1 and -1 of the orders that take liquidity, in order."""
    takers = commands[(commands["kind"] == NEW) & (commands["time_in_force"] == IOC)]
    return np.where(takers["side"] == Side.BUY, 1.0, -1.0)


def wealth(simulation: Simulation, group: int) -> float:
    """Profit of a group in ticks x lots, with positions at the fundamental value."""
    value = simulation.crowd.traders.value[0][3600]
    return float(
        (agent_field(simulation, group, "cash_ticks") + agent_field(simulation, group, "position_lots") * value).sum()
    )


def test_informed_traders_earn_what_noise_loses() -> None:
    """20 seeds of an hour; the 95 % interval of the mean is above 0."""
    config = population(
        ZERO,
        {"trader": "informed", "count": 3, "latency_us": 200, "start_s": 5, "start_spread_s": 5},
        {"trader": "noise", "count": 30, "start_spread_s": 30, "profile": {"orders": 10**6, "interval_s": 30}},
    )
    runs = [simulate_hours(config, seed) for seed in range(20)]
    for group, sign in ((1, 1), (2, -1)):
        earned = sign * np.array([wealth(run, group) for run in runs])
        assert earned.mean() - 1.96 * earned.std(ddof=1) / math.sqrt(len(runs)) > 0


def test_parent_orders_give_trade_signs_a_memory() -> None:
    institution = {"trader": "institutional", "count": 5, "start_spread_s": 300, "profile": {
        "parent_lots": 500, "duration_s": 120, "interval_s": 2, "pause_s": 120,
    }}  # fmt: skip
    alone, together = (
        trade_signs(simulate_hours(population(*groups), 2, 6).commands) for groups in ([ZERO], [ZERO, institution])
    )
    lags = (1, 2, 5, 10, 20, 50)
    for lag in lags:
        assert abs(autocorrelation(alone, lag)) < 4.5 / math.sqrt(len(alone))
        assert autocorrelation(together, lag) > 4.5 / math.sqrt(len(together))
    assert autocorrelation(together, 1) > autocorrelation(together, 2000)


def test_zero_intelligence_has_the_rates_of_its_profile() -> None:
    commands = simulate_hours(population(ZERO), 1, 6).commands
    markets = ((commands["kind"] == NEW) & (commands["flags"] & CommandFlag.MARKET > 0)).sum()
    expected = 2 * 0.15 * 6 * 3600
    assert abs(markets - expected) < 4.5 * math.sqrt(expected)
    limits = ((commands["kind"] == NEW) & (commands["time_in_force"] == 0)).sum() - 40
    expected = 2 * sum(0.2 * math.exp(-0.15 * level) for level in range(30)) * 6 * 3600
    assert abs(limits - expected) < 4.5 * math.sqrt(expected)


def flow(hours: float = 6.0, **profile: Any) -> Simulation:
    return simulate_hours(
        population({"trader": "hawkes", "latency_us": 100, "start_spread_s": 0.001, "profile": profile}), 1, hours
    )


def counts(simulation: Simulation, chosen: Any, window_s: float) -> Any:
    """Numbers of events in windows, without the first hundred seconds."""
    since_s = (simulation.commands["time_ns"][chosen] - simulation.population.open_ns) / SECOND_NS
    return np.histogram(since_s, np.arange(100, 6 * 3600, window_s))[0]


def test_hawkes_has_its_mean_rates() -> None:
    """(1 - branching)^-1 base; the tolerance follows from the branching ratio."""
    simulation = flow()
    rates = HawkesProfile().mean_per_s()
    wakes, expected = int(simulation.crowd.traders.counter[WAKEUPS]), rates.sum() * 6 * 3600
    assert abs(wakes - expected) < 4.5 * math.sqrt(expected) / (1 - 0.75)
    commands = simulation.commands
    for kind, found in (
        (2, (commands["flags"] & CommandFlag.MARKET > 0) & (commands["side"] == Side.BUY)),
        (3, (commands["flags"] & CommandFlag.MARKET > 0) & (commands["side"] == Side.SELL)),
        (0, (commands["kind"] == NEW) & (commands["flags"] == 0) & (commands["side"] == Side.BUY)),
    ):
        assert found.sum() == pytest.approx(rates[kind] * 6 * 3600, rel=0.04)
    assert (commands["kind"] == CANCEL).sum() > 0.5 * rates[4:].sum() * 6 * 3600


def test_hawkes_clusters_as_theory_says() -> None:
    """One type that excites itself: Var N(w) / E N(w) = κ + (1 - κ) (1 - exp(-γ w)) / (γ w), κ = (1 - n)^-2, γ = β (1 - n)."""
    n, beta, base = 0.5, 1.0, 2.0
    branching = tuple(n if place == 0 else 0.0 for place in range(36))
    simulation = flow(base_per_s=(base, 0, 0, 0, 0, 0), branching=branching, decay_per_s=beta)
    limits = (simulation.commands["kind"] == NEW) & (simulation.commands["side"] == Side.BUY)
    kappa, gamma = (1 - n) ** -2, beta * (1 - n)
    for window_s in (0.5, 2.0, 10.0, 50.0):
        found = counts(simulation, limits, window_s)
        assert found.mean() / window_s == pytest.approx(base / (1 - n), rel=0.04)
        expected = kappa + (1 - kappa) * (1 - math.exp(-gamma * window_s)) / (gamma * window_s)
        fano = found.var() / found.mean()
        assert fano > 1.2
        assert abs(fano / expected - 1) < max(0.06, 4.5 * math.sqrt(2 / len(found)))


def test_hawkes_without_branching_is_poisson() -> None:
    simulation = flow(branching=(0.0,) * 36, base_per_s=(2.0, 2.0, 0.5, 0.5, 0.5, 0.5))
    markets = simulation.commands["flags"] & CommandFlag.MARKET > 0
    found = counts(simulation, markets, 5.0)
    assert abs(found.var() / found.mean() - 1) < 4.5 * math.sqrt(2 / len(found))


def test_a_herd_with_stops_sells_into_a_fall() -> None:
    """A large seller pushes the price down: with the herd it ends lower, on average over ten seeds."""
    seller = {"trader": "institutional", "start_s": 1200, "start_spread_s": 1, "profile": {
        "buy_share": 0, "pareto_exponent": 0, "lots_spread": 0, "parent_lots": 12_000, "duration_s": 300, "interval_s": 2, "pause_s": 1e6,
    }}  # fmt: skip
    herd = {
        "trader": "stop_loss",
        "count": 40,
        "start_spread_s": 600,
        "profile": {"stop_ticks_min": 5, "stop_ticks": 15},
    }
    lowest: dict[bool, list[float]] = {False: [], True: []}
    for with_herd in lowest:
        config = population(*[ZERO, seller, herd][: 3 if with_herd else 2])
        for seed in range(10):
            simulation = simulate_hours(config, seed, 1200 / 3600)
            start, low = simulation.market.state.best[0].mean(), math.inf
            for second in range(1200, 1800, 5):
                simulation.advance(config.open_ns + second * SECOND_NS)
                bid, ask = simulation.market.state.best[0]
                low = min(low, (bid + ask) / 2) if bid and ask else low
            lowest[with_herd].append(low - start)
    deeper = np.array(lowest[False]) - np.array(lowest[True])
    assert deeper.mean() - 1.96 * deeper.std(ddof=1) / math.sqrt(10) > 0


def test_a_spoofer_cancels_nearly_all_large_orders() -> None:
    config = population(ZERO, {"trader": "spoofer", "start_s": 10, "profile": {"spoof_lots": 7777}})
    simulation = simulate_hours(config, 1, 6)
    commands = simulation.commands
    large = commands[(commands["kind"] == NEW) & (commands["qty_lots"] == 7777)]
    gone = np.isin(large["command_id"], commands["order_id"][commands["kind"] == CANCEL])
    assert len(large) > 500
    assert gone.mean() > 0.95
    own = commands[
        (commands["kind"] == NEW) & (commands["flags"] == CommandFlag.POST_ONLY) & (commands["qty_lots"] < 7777)
    ]
    assert {Side.BUY, Side.SELL} <= set(own["side"].tolist()), "it trades on both sides"


def test_makers_keep_their_positions_near_zero() -> None:
    maker = {"trader": "avellaneda_stoikov", "count": 2, "latency_us": 50, "start_s": 5, "profile": {
        "risk_aversion": 1e-3, "horizon_s": 60, "volatility_ticks_per_root_s": 0.5,
    }}  # fmt: skip
    simulation = simulate_hours(population(ZERO, maker), 1, 6)
    quotes = simulation.commands["flags"] & CommandFlag.POST_ONLY > 0
    assert quotes.sum() > 20_000
    assert np.abs(agent_field(simulation, 1, "position_lots")).max() <= 2000
    assert np.abs(agent_field(simulation, 1, "cash_ticks")).max() > 0
