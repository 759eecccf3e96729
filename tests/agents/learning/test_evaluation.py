"""Policies on the same orders."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.agents.execution.environment.observation import Scales
from serl.agents.learning.environments import MarketConfig, Scenario
from serl.agents.learning.errors import LayoutMismatchError
from serl.agents.learning.evaluation import (
    MEASURES,
    Contender,
    Hold,
    Twap,
    estimates,
    evaluate,
    gain_loss_ratio,
    play,
    win_rate,
)  # fmt: skip
from serl.agents.learning.networks import ActorCritic, NetworkConfig
from serl.agents.learning.policy import Interface, Policy
from serl.agents.learning.table import comma_separated, write_tables
from serl.exchange.config import time_of_day_ns
from serl.exchange.history.generate import generate_day
from serl.exchange.records import Rows

MARKET = MarketConfig(start="09:35", end="10:25", environments=5, duration_s=60, interval_s=10)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    day = generate_day(3, start_ns=time_of_day_ns("09:30"), end_ns=time_of_day_ns("10:30"))
    return Scenario(MARKET, [day])


def episodes(scenario: Scenario, count: int) -> Rows:
    return scenario.sampler.sample(np.random.Generator(np.random.PCG64(7)), count)


class Impatient(Hold):
    """All at once."""

    def act(self, env: Any, observations: Any) -> Any:
        return np.ones((len(observations), 1))


def test_every_order_is_played_once_in_its_place(scenario: Scenario) -> None:
    rows = episodes(scenario, 13)
    together = play(scenario.plain_env(), Twap(), rows)
    backwards = play(scenario.plain_env(), Twap(), rows[::-1])
    for name, values in together.results.items():
        assert len(values) == 13
        np.testing.assert_array_equal(values, backwards.results[name][::-1])
    assert together.results["ffr"].min() == 1
    assert together.actions.shape == (13 * 6, 1)


def test_the_market_vwap_covers_the_whole_window_of_orders_that_are_done_early(scenario: Scenario) -> None:
    evaluation = evaluate(scenario, [Contender("impatient", Impatient())], 20, 7)
    rows = episodes(scenario, 20)
    held = play(scenario.plain_env(), Hold(), rows).results
    once = play(scenario.plain_env(), Impatient(), rows).results
    expected = rows["sign"] * (once["price_ticks"] / held["vwap_ticks"] - 1) * 1e4
    np.testing.assert_allclose(evaluation.rows[1].advantages_bps, expected)
    assert held["afi"].tolist() == [1.0] * 20


def test_a_twap_against_a_twap_is_nothing(scenario: Scenario) -> None:
    evaluation = evaluate(scenario, [Contender("again", Twap()), Contender("impatient", Impatient())], 20, 7)
    for row in evaluation.rows[:2]:
        assert row.estimates["PA_twap"].value == row.estimates["PA_twap"].low == row.estimates["PA_twap"].high == 0
    assert evaluation.rows[2].estimates["PA_twap"].value != 0
    assert not evaluation.clustered


def test_measures_by_hand() -> None:
    values = np.array([4.0, 2.0, -1.0, 0.0, -5.0])
    assert win_rate(values) == pytest.approx(0.5)
    assert gain_loss_ratio(values) == pytest.approx(1.0)
    assert np.isnan(gain_loss_ratio(values[:2]))


def test_intervals_resample_whole_days() -> None:
    days = np.repeat(np.arange(4), 100)
    level = np.array([-3.0, -1.0, 1.0, 3.0])[days]
    columns = {name: level for name, _ in MEASURES.values()}
    by_day = estimates(columns, days, 1)["PA"]
    by_order = estimates(columns, np.arange(400), 1)["PA"]
    assert by_day.value == by_order.value == 0
    assert by_day.high - by_day.low > 5 * (by_order.high - by_order.low)


def test_a_learnt_policy_sees_what_it_was_made_for(scenario: Scenario, tmp_path: Path) -> None:
    interface = Interface.of(scenario.env(scenario.fit_scales(), actions="hybrid"))
    network = ActorCritic(NetworkConfig(memory=8), len(interface.names), interface.low, interface.high, 0)
    policy = Policy(network, interface, {})
    evaluation = evaluate(scenario, [Contender("learnt", policy, interface)], 12, 7)
    assert evaluation.rows[1].actions.shape[1] == 3
    paths = write_tables(evaluation, tmp_path, "a test")
    assert [path.suffix for path in paths] == [".md", ".csv", ".html"]
    assert len(comma_separated(evaluation).splitlines()) == 1 + 2 * len(MEASURES)
    assert "data:image/png;base64," in paths[2].read_text()
    with pytest.raises(LayoutMismatchError, match="actions"):
        policy.begin(scenario.env(Scales(**interface.scales), actions="market"))
