"""The search's objective: moments by hand, and the loss of a market against itself with one moment changed."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from serl.agents.calibration.costs import (
    COSTS,
    ExecutionCosts,
    ParentOrders,
    cost_distance,
    day_orders,
    pooled_orders,
    population_costs,
    worked,
)
from serl.agents.calibration.objective import (
    COST_SEEDS,
    POSITIVE_FACTS,
    UNUSABLE_LOSS,
    CostTarget,
    Span,
    TrainingMoments,
    Window,
    facts_missing,
    loss,
    realised_volatilities,
    responses,
    simulated_window,
)
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.policies.schedules import Twap
from serl.agents.learning.evaluation import Estimate as Cost
from serl.agents.learning.evaluation import Hold
from serl.agents.realism.benchmark import compare
from serl.agents.realism.distances import Estimate
from serl.agents.realism.facts import FACTS, Facts
from serl.agents.realism.tape import MINUTE_NS, SECOND_NS, Tape, build_tape
from serl.agents.traders.population import PopulationConfig, check_population
from serl.agents.traders.simulate import simulate
from serl.exchange.records import CommandKind, Rule, command
from serl.history.day import Day
from tests.agents.calibration.sample import LIMIT_PER_S, OPEN_NS, poisson
from tests.agents.realism.sample import BUY, SELL, TEN_NS, day_of, new

SPAN = Span(OPEN_NS + 5 * MINUTE_NS, OPEN_NS + 16 * MINUTE_NS, 5)
SEEDS = [3, 4]


def moves(*bids: tuple[float, int]) -> Tape:
    """A day in which a bid rises at these seconds after 10:00, below an ask of 200; half of each rise is the mid's. From 400 to 415 s there is no ask."""
    early, late = ([new(BUY, price, 5, 1000 * s) for s, price in bids if (s > 400) == after] for after in (False, True))
    gap = new(BUY, 200, 5, 400_000, ioc=True), new(SELL, 200, 5, 415_000)
    return build_tape(day_of(new(SELL, 200, 5, -1000), *early, *gap, *late, opening=1))


def test_volatilities_are_of_moves_within_days_by_hand() -> None:
    """The mid before 0, 300 and 600 s is 150, 151, 151 and 150, 150, 153."""
    first = moves((-1, 100), (299, 102), (601, 150))
    second = moves((-1, 100), (300, 106))
    found = realised_volatilities([first, second], TEN_NS, TEN_NS + 600 * SECOND_NS)
    assert found[2] == pytest.approx(np.std([1, 0, 0, 3]) / math.sqrt(300))
    assert found[1] == pytest.approx(np.std([1, 3] + [0] * 18) / math.sqrt(60))
    assert found[0] == pytest.approx(np.std([1, 3] + [0] * 118) / math.sqrt(10))


def facts_of(**values: float) -> Facts:
    """100 returns with the facts that real markets have, except these."""
    usual = {fact.name: 0.01 for fact in FACTS} | dict.fromkeys(POSITIVE_FACTS, 1.0)
    none = np.zeros(0)
    return Facts(tuple(Estimate((usual | values)[fact.name], none) for fact in FACTS), returns=100, trades=0)


def test_missing_facts_by_hand() -> None:
    assert facts_missing(facts_of()) == 0
    assert facts_missing(facts_of(**{"no linear autocorrelation": 0.195})) == 0, "the band at 100 returns is 0.196"
    for value in (0.197, -0.197, math.nan):
        assert facts_missing(facts_of(**{"no linear autocorrelation": value})) == 1
    for value in (0.0, -1.0, math.nan):
        assert facts_missing(facts_of(**dict.fromkeys(POSITIVE_FACTS, value))) == len(POSITIVE_FACTS)
    others = {"gain/loss asymmetry", "leverage", "long memory of trade signs"}
    assert facts_missing(facts_of(**dict.fromkeys(others, -1.0))) == 0, "markets differ in these"


def window_of(seed: int, span: Span = SPAN) -> Window:
    return Window(simulated_window(poisson(), seed, span), span.start_ns, span.end_ns)


@pytest.fixture(scope="module")
def real() -> TrainingMoments:
    return TrainingMoments.measure([window_of(3)])


@pytest.fixture(scope="module")
def target() -> CostTarget:
    """The costs of the population itself: distance 0."""
    orders = ParentOrders(SPAN.start_ns, SPAN.end_ns, 1.0, pairs=1)
    return CostTarget(population_costs(poisson(), SEEDS, orders), orders)


def test_the_moments_of_days_are_pooled_or_their_mean() -> None:
    windows = [window_of(3), window_of(4)]
    one, other, both = (TrainingMoments.measure(days) for days in ([windows[0]], [windows[1]], windows))
    assert one.trades == windows[0].tape.trades.sum() and one.messages == len(windows[0].tape) and one.span == SPAN
    assert both.trades == (one.trades + other.trades) / 2 and both.messages == (one.messages + other.messages) / 2
    assert both.responses == pytest.approx((one.responses + other.responses) / 2)
    assert [len(sample) for sample in both.samples] == [
        len(first) + len(second) for first, second in zip(one.samples, other.samples, strict=True)
    ]


def test_each_moment_has_its_weight(real: TrainingMoments, target: CostTarget) -> None:
    """A population against its own day: only missing facts count. Then one moment after the other is off by a known factor."""
    missing = facts_missing(window_of(3).facts)
    base, mean_l1 = loss(poisson(), [3], real, target)
    assert mean_l1 == 0 and base == pytest.approx(0.01 * missing + target.penalty(poisson(), [3]))
    changes: list[tuple[dict[str, Any], float]] = [
        ({"trades": real.trades * math.e}, 0.05),
        ({"trades": real.trades / math.e}, 0.05),
        ({"messages": real.messages / math.e}, 0.05),
        ({"volatilities": real.volatilities * [math.e, 1, math.e**2]}, 0.05),
        ({"volatilities": real.volatilities / math.e}, 0.05),
        ({"responses": real.responses * 2}, 0.25 / 2),
        ({"responses": real.responses / 10}, 0.25 * 2),
    ]
    for change, expected in changes:
        found = loss(poisson(), [3], real._replace(**change), target)
        assert found == (pytest.approx(base + expected), 0), change
    expected = compare(window_of(3).tape, window_of(4).tape, bootstraps=0, seed=1).summary()["l1"]["mean"].value
    assert loss(poisson(), [4], real, target)[1] == pytest.approx(expected)
    other = [np.full(5, 1e9), *real.samples[1:]]
    assert loss(poisson(), [3], real._replace(samples=other), target)[1] == pytest.approx(1 / 21)


def test_hours_whose_mid_has_equal_moves_can_be_fitted(target: CostTarget) -> None:
    """The real volatility over a step was 0, so every trial had an infinite loss, and the search found nothing."""
    short = Span(SPAN.start_ns, SPAN.start_ns + 6 * MINUTE_NS, 5)
    real = TrainingMoments.measure([window_of(3, short)])
    assert real.volatilities[2] == 0 < real.volatilities[1], "one move of five minutes"
    base = loss(poisson(), [3], real, target)[0]
    assert base < 0.2
    twice = real._replace(volatilities=real.volatilities * math.e)
    assert loss(poisson(), [3], twice, target)[0] == pytest.approx(base + 0.05)
    assert loss(poisson(), [3], real._replace(volatilities=np.zeros(3)), target)[0] == pytest.approx(base)


def without_trades() -> PopulationConfig:
    profile = {"limit_per_s": LIMIT_PER_S, "cancel_per_s": (0.0,) * len(LIMIT_PER_S), "market_per_s": 1e-6}
    return check_population(
        {"name": "silent", "groups": [{"trader": "zero_intelligence", "latency_us": 1.0, "profile": profile}]}, "silent"
    )


def test_the_loss_is_the_mean_over_seeds_and_the_costs(real: TrainingMoments, target: CostTarget) -> None:
    each = [loss(poisson(), [seed], real, target) for seed in SEEDS]
    alone = [found[0] - target.penalty(poisson(), [seed]) for found, seed in zip(each, SEEDS, strict=True)]
    found = loss(poisson(), SEEDS, real, target)
    assert found == pytest.approx((np.mean(alone), np.mean([one[1] for one in each])))
    assert loss(without_trades(), SEEDS, real, target) == (UNUSABLE_LOSS, 1.0), "no costs are measured"


def test_policies_are_compared_with_a_market_without_us_and_a_twap(target: CostTarget) -> None:
    """Holding has no impact, and what it pays less is its distance from a TWAP."""
    episodes = target.orders.sample(SEEDS)
    market = DynamicMarket(poisson(), len(episodes))
    held, sliced = worked(market, episodes, {"hold": Hold(), "twap": Twap()}).values()
    market.close()
    assert not held["impact"].any() and sliced["impact"].any()
    assert held["pa"] - held["pa_twap"] == pytest.approx(sliced["pa"] - sliced["pa_twap"], abs=1e-4)
    assert np.abs(sliced["pa_twap"]).mean() < np.abs(held["pa"] - sliced["pa"]).mean()


def shifted(costs: ExecutionCosts, *bps: float) -> ExecutionCosts:
    estimates = {
        cost.name: Cost(costs.estimates[cost.name].value + by, math.nan, math.nan)
        for cost, by in zip(COSTS, bps, strict=True)
    }
    return dataclasses.replace(costs, estimates=estimates)


def test_the_penalty_is_of_the_mean_distance_of_costs_on_the_first_seeds(target: CostTarget) -> None:
    assert cost_distance(poisson(), SEEDS, target.orders, target.real) == pytest.approx(0, abs=1e-9)
    dearer = shifted(target.real, 1.0, -2.0, 3.0)
    assert cost_distance(poisson(), SEEDS, target.orders, dearer) == pytest.approx(2)
    assert len(SEEDS) == COST_SEEDS
    assert CostTarget(dearer, target.orders).penalty(poisson(), [*SEEDS, 99]) == pytest.approx(0.02 * 2)
    unknown = shifted(target.real, 0.0, math.nan, 0.0)
    assert CostTarget(unknown, target.orders).penalty(poisson(), SEEDS) == UNUSABLE_LOSS


def day_with_lots_of(multiple: int, seed: int, first_s: int, last_s: int) -> Day:
    """Twelve minutes whose file says that they begin and end at other seconds after the open; the rule comes after all orders."""
    day = simulate(poisson(), seed, OPEN_NS + 12 * MINUTE_NS)
    rule = command(CommandKind.RULE, flags=Rule.LOT, price_ticks=multiple, time_ns=int(day.commands["time_ns"][-1]))
    times = {"first_time_ns": OPEN_NS + first_s * SECOND_NS, "last_time_ns": OPEN_NS + last_s * SECOND_NS}
    return dataclasses.replace(
        day,
        commands=np.concatenate([day.commands, rule]),
        rows=np.append(day.rows, day.rows[-1] + 1),
        reference=dataclasses.replace(day.reference, **times),
    )


def test_orders_of_several_days_are_in_the_hours_and_lots_that_all_have() -> None:
    days = [day_with_lots_of(4, 3, 60, 700), day_with_lots_of(6, 4, 30, 690)]
    hours = OPEN_NS, OPEN_NS + 720 * SECOND_NS
    one, other = (day_orders(day, *hours, pairs=2) for day in days)
    assert (one.start_ns - OPEN_NS, one.end_ns - OPEN_NS) == (60 * SECOND_NS, 700 * SECOND_NS)
    for found, day in ((one, days[0]), (other, days[1])):
        tape = build_tape(simulate(poisson(), 3 if day is days[0] else 4, OPEN_NS + 12 * MINUTE_NS), 5)
        traded = tape.qty_lots[tape.trades & (tape.time_ns >= found.start_ns) & (tape.time_ns < found.end_ns)].sum()
        assert found.volume_lots_per_s == pytest.approx(traded / ((found.end_ns - found.start_ns) / SECOND_NS))
    both = pooled_orders(days, *hours, 2)
    assert (both.start_ns - OPEN_NS, both.end_ns - OPEN_NS) == (60 * SECOND_NS, 690 * SECOND_NS)
    assert both.volume_lots_per_s == (one.volume_lots_per_s + other.volume_lots_per_s) / 2
    assert (one.lot_multiple, other.lot_multiple, both.lot_multiple, both.pairs) == (4, 6, 12, 2)
    assert (both.sample([0])["qty_lots"] % 12 == 0).all()


def test_responses_without_events_count_as_none() -> None:
    found = responses(moves((-1, 100), (1, 101)))
    assert np.isfinite(found).all() and not found[0].any()
