"""Stylised facts computed by hand, and on series with and without them."""

import math

import numpy as np
import pytest

from serl.agents.realism import facts
from serl.agents.realism.distances import CLUSTERS_MIN
from serl.agents.realism.facts import FACTS, MinuteSeries
from serl.agents.realism.tape import MINUTE_NS, Floats
from tests.agents.realism.sample import TEN_NS, five_messages, generated


def minutes(*returns: float) -> MinuteSeries:
    return MinuteSeries(np.array(returns, np.float64), np.ones(len(returns)))


def clustered(seed: int, size: int = 20_000) -> Floats:
    """GARCH(1, 1) returns."""
    random, result, variance = np.random.default_rng(seed), np.zeros(size), 1.0
    for index in range(size):
        result[index] = math.sqrt(variance) * random.standard_normal()
        variance = 0.05 + 0.15 * result[index] ** 2 + 0.8 * variance
    return result


def test_moments_by_hand() -> None:
    assert facts.excess_kurtosis(np.array([-1.0, 1, -1, 1])) == -2
    assert facts.excess_kurtosis(np.array([0.0, 0, 0, 1])) == pytest.approx(
        (3 * 0.25**4 + 0.75**4) / 4 / (3 / 16) ** 2 - 3
    )
    assert facts.skewness(np.array([0.0, 0, 0, 1])) == pytest.approx(2 / math.sqrt(3))
    assert facts.autocorrelation(np.array([1.0, -1, 1, -1, 1, -1, 1]), 1) == pytest.approx(-1)
    assert facts.correlation(np.array([1.0, 2, 3]), np.array([2.0, 4, 6])) == pytest.approx(1)
    assert math.isnan(facts.correlation(np.ones(3), np.arange(3.0)))
    assert math.isnan(facts.excess_kurtosis(np.ones(3))) and math.isnan(facts.skewness(np.ones(3)))


def test_minutes_by_hand() -> None:
    """The mid before 10:00 is unknown, so the first one is used: 100.5. From 10:01 on it is 101."""
    found = facts.minute_series(five_messages(), TEN_NS, TEN_NS + 3 * MINUTE_NS)
    assert found.returns == pytest.approx([math.log(101 / 100.5), 0, 0])
    assert found.volume_lots.tolist() == [20, 0, 0]


def test_intermittency_by_hand() -> None:
    """Two of twenty returns are large: both in one half (counts 2, 0: Fano 1), or one in each (variance 0)."""
    together = [0.0] * 8 + [5, -5] + [0.0] * 10
    assert facts.intermittency(minutes(*together)) == pytest.approx(math.log(1))
    assert math.isnan(facts.intermittency(minutes(*([0.0] * 9 + [5.0]), *([0.0] * 9 + [-5.0]))))


def test_aggregation_by_hand() -> None:
    r = np.array([0.0, 0, 0, 0, 1, 0, 0, 0, 0, 0])
    expected = facts.excess_kurtosis(r) - facts.excess_kurtosis(np.array([1.0, 1, 1, 1, 1, 0]))
    assert facts.aggregational_gaussianity(minutes(*r)) == pytest.approx(expected)


def test_conditional_tails_by_hand() -> None:
    r = np.array([1.0, -1, 1, -3])
    variance = [3.0]
    for value in r[:-1]:
        variance.append(0.94 * variance[-1] + 0.06 * value**2)
    assert facts.conditional_tails(minutes(*r)) == pytest.approx(facts.excess_kurtosis(r / np.sqrt(variance)))


def test_leverage_by_hand() -> None:
    r = np.array([-2.0, 3, 1, -1, 2, 2, -3, 1])
    expected = np.mean([np.corrcoef(r[:-k], r[k:] ** 2)[0, 1] for k in range(1, 6)])
    assert facts.leverage(minutes(*r)) == pytest.approx(expected)


def test_coarse_fine_by_hand() -> None:
    r = np.random.default_rng(1).normal(size=40)
    coarse = np.array([abs(r[i : i + 5].sum()) for i in range(36)])
    fine = np.array([np.abs(r[i : i + 5]).sum() for i in range(36)])
    expected = np.corrcoef(coarse[:-5], fine[5:])[0, 1] - np.corrcoef(fine[:-5], coarse[5:])[0, 1]
    assert facts.coarse_fine(minutes(*r)) == pytest.approx(expected)


def test_clustered_returns_show_the_facts_and_noise_does_not() -> None:
    noise, garch = np.random.default_rng(1).standard_normal(20_000), clustered(1)
    values = {fact.name: fact.compute for fact in FACTS if fact.compute}
    for name in ("heavy tails", "intermittency", "volatility clustering", "slow decay of |r|"):
        assert values[name](MinuteSeries(garch, garch**2)) > values[name](MinuteSeries(noise, noise**2)) + 0.1, name
    assert abs(values["no linear autocorrelation"](MinuteSeries(noise, noise))) < 0.02
    assert values["conditional heavy tails"](MinuteSeries(garch, garch)) < values["heavy tails"](
        MinuteSeries(garch, garch)
    )
    assert values["volume and volatility"](MinuteSeries(garch, np.abs(garch))) == pytest.approx(1)


def test_long_memory_of_split_orders() -> None:
    """Two interleaved orders of Pareto length 1.5: C(l) ~ l^-0.5 (Lillo, Mike, Farmer 2005). Coin flips have no memory."""
    random = np.random.default_rng(3)
    active = [[random.choice([-1, 1]), int(random.pareto(1.5)) + 1] for _ in range(2)]
    signs = np.zeros(40_000)
    for index in range(len(signs)):
        order = active[random.integers(2)]
        signs[index] = order[0]
        order[1] -= 1
        if order[1] == 0:
            order[:] = [random.choice([-1, 1]), int(random.pareto(1.5)) + 1]
    assert 0.3 < facts.sign_decay(signs) < 0.8
    assert math.isnan(facts.sign_decay(random.choice([-1.0, 1.0], 40_000)))


@pytest.mark.parametrize(
    ("rule", "real", "simulated", "agrees"),
    [
        (facts.same_sign, 0.5, 3.0, True),
        (facts.same_sign, 0.5, -0.1, False),
        (facts.same_sign, -0.5, -0.1, True),
        (facts.same_absence, 0.1, -0.15, True),  # band at 100 returns: 0.196
        (facts.same_absence, 0.1, 0.3, False),
        (facts.same_absence, 0.3, 0.3, True),
        (facts.same_memory, 0.7, 1.3, True),
        (facts.same_memory, 0.7, 1.5, False),
        (facts.same_memory, 0.7, -0.5, False),
        (facts.same_memory, 0.7, float("nan"), False),
        (facts.same_memory, float("nan"), float("nan"), True),
    ],
)
def test_rules(rule: object, real: float, simulated: float, agrees: bool) -> None:
    assert callable(rule)
    assert rule(real, simulated, 100) is agrees


def test_a_window_agrees_with_itself() -> None:
    tape = generated(1)
    found = facts.measure_facts(tape, TEN_NS, TEN_NS + 30 * MINUTE_NS, 20, np.random.default_rng(1))
    assert found.returns == 30
    assert facts.agreements(found, found) == [True] * 12
    for fact, estimate in zip(FACTS, found.estimates, strict=True):
        low, high = estimate.interval
        blocks = found.trades // facts.BLOCK_TRADES if fact.compute is None else 4
        assert estimate.clusters == blocks
        if not math.isnan(estimate.value):
            assert low < high if blocks >= CLUSTERS_MIN else math.isnan(low), fact.name


def test_short_windows_are_not_measured() -> None:
    tape = five_messages()
    found = facts.measure_facts(tape, TEN_NS, TEN_NS + MINUTE_NS, 5, np.random.default_rng(1))
    assert all(math.isnan(estimate.value) for estimate in found.estimates)
    assert facts.agreements(found, found) == [None] * 12


def test_facts_that_short_windows_cannot_tell_are_not_counted() -> None:
    assert facts.shared_text([True, False, True, None]) == "2 of 3"
    assert facts.shared_text([None, None]) == "–"
