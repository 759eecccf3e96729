"""The rules that a trained policy must beat."""

from pathlib import Path

import numpy as np
import pytest

from serl.agents.execution.environment.records import EPISODE
from serl.agents.execution.policies.policy import Policy
from serl.agents.execution.policies.reactive import Patience
from serl.agents.execution.policies.schedules import Twap
from serl.agents.learning.environments import Scenario
from serl.agents.learning.evaluation import Floats, execute_orders
from serl.agents.learning.fitted_rules import (
    GRID,
    TWAP_RULE,
    fit_almgren_chriss,
    fit_patience,
    training_orders,
    training_score,
)
from serl.agents.learning.market_config import MarketConfig
from serl.exchange.config import time_of_day_ns
from serl.exchange.errors import ConfigError
from serl.history.generate import generate_day
from tests.agents.execution.test_data import rows, write
from tests.agents.learning.tiny import wide_ranges

BARS = MarketConfig(kind="static", environments=8, duration_s=300, interval_s=60, levels=1, spreads="stock")


def bars(tmp_path: Path, **settings: object) -> Scenario:
    return Scenario(BARS.model_copy(update={"data": [write(tmp_path / "bars.parquet", rows())], **settings}))


def test_what_the_rule_does_by_hand() -> None:
    env = wide_ranges(1, steps=10, actions="hybrid")  # 100 lots, so slices of 10; bid 9999, ask 10001
    env.reset(seed=1)
    rule = Patience(rest_slices=4, late_slices=3, place=0)
    np.testing.assert_allclose(rule.actions(env), [[0, 0.4, -1 / 5]])  # 5 ticks are an offset of 1
    env.accounts.parents["step"] = 5
    np.testing.assert_allclose(rule.actions(env), [[0.2, 0.4, -1 / 5]])  # 5 slices late: 2 cross
    assert Patience(place=2).actions(env)[0, 2] == pytest.approx(1 / 5)
    assert Patience(place=1).actions(env)[0, 2] == 0
    with pytest.raises(ConfigError, match="late slices from -1 on"):
        Patience(late_slices=-2)


def test_without_resting_and_with_nothing_late_the_rule_is_a_twap() -> None:
    env = wide_ranges(4, steps=10, actions="hybrid")
    episodes = env.sampler.sample(np.random.Generator(np.random.PCG64(1)), 4)
    ruled, twap = (execute_orders(env, policy, episodes) for policy in (Patience(0, -1), Twap()))
    np.testing.assert_array_equal(ruled.lots, twap.lots)


def test_the_fit_finds_the_best_of_its_grid() -> None:
    asked = []

    def score(policy: Policy, mode: str) -> Floats:
        assert isinstance(policy, Patience) and mode == "hybrid"
        asked.append(policy)
        mean = -abs(policy.rest_slices - 8) - abs(policy.late_slices - 6) - abs(policy.place - 2)
        return mean + np.array([-0.1, 0.1])

    assert fit_patience(score) == Patience(8, 6, 2)
    assert len(asked) == len(set(asked)) < 40
    assert all(getattr(Patience(), name) in values for name, values in GRID.items())


def test_a_gain_that_may_be_luck_does_not_make_a_rule_that_delays() -> None:
    random = np.random.default_rng(0)

    def score(policy: Policy, mode: str) -> Floats:
        """The later, the more it varies; nothing is better than a TWAP on average."""
        assert isinstance(policy, Patience)
        found: Floats = random.normal(0, 1, 400) * (policy.late_slices + 1) + random.normal(0, 0.01, 400)
        return found

    assert fit_patience(score) == TWAP_RULE


def test_rules_are_fitted_on_training_orders(tmp_path: Path) -> None:
    scenario = bars(tmp_path, part="test")
    training = {hours.day for hours in scenario.source.hours("train")}
    orders = training_orders(scenario, 40, 0)
    assert set(orders["day"].tolist()) <= training
    score = training_score(scenario, 40)
    results = execute_orders(scenario.env_for(Twap(), "market"), Twap(), orders).results
    np.testing.assert_allclose(score(Twap(), "market"), results["pa_bps"], atol=1e-6)


def test_the_urgency_of_a_fitted_almgren_chriss_is_one_a_window(tmp_path: Path) -> None:
    day = generate_day(3, end_ns=time_of_day_ns("10:10"))
    book = MarketConfig(kind="static", hours="09:35-10:05", environments=8, duration_s=300, interval_s=60)
    for scenario in (bars(tmp_path, impact_bps=2.5), Scenario(book, [day])):
        schedule = fit_almgren_chriss(scenario)
        assert schedule.volatility >= 0 and schedule.impact > 0
        if schedule.volatility > 0:
            assert schedule.urgency(60 * 10**9) * 5 == pytest.approx(1.0)
        episode = np.zeros(1, EPISODE)
        episode["steps"], episode["interval_ns"], episode["qty_lots"] = 5, 60 * 10**9, 1000
        assert schedule.target_share(episode, 5)[0] == pytest.approx(1)


def test_impact_in_bars_is_what_they_charge(tmp_path: Path) -> None:
    """Every bar of a date has the same volume, so η = impact_bps x price / volume per second."""
    scenario = bars(tmp_path, impact_bps=10.0)
    found = fit_almgren_chriss(scenario).impact
    lots_per_s = np.array([600.0 * (1 + date) / 60 for date in range(7)])
    assert (10e-4 * 1010 / lots_per_s).min() * 0.99 <= found <= (10e-4 * 1010 / lots_per_s).max() * 1.01
