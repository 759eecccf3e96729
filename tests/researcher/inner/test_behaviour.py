"""Figures of what a policy does."""

import numpy as np
import pytest

from serl.agents.execution.environment.records import EPISODE
from serl.agents.learning.evaluation import Outcome
from serl.researcher.inner.behaviour import behaviour_of


def outcome(lots: list[list[float]], mids: list[list[float]]) -> Outcome:
    return Outcome({}, np.array([[0.0, 1.0], [0.5, 1.0], [1.0, 1.0]]), np.array(mids), np.array(lots))


def test_lateness_actions_and_groups() -> None:
    episodes = np.zeros(2, EPISODE)
    episodes["sign"], episodes["qty_lots"], episodes["start_ns"] = [1, -1], [10, 20], [5, 9]
    made = outcome([[0, 10], [20, 0]], [[100, 101], [100, 101]])
    found = behaviour_of(episodes, made, made, np.array([2.0, -1.0]))
    assert found["lateness"] == pytest.approx((0.5 - 0.5) / 2)
    assert found["traded_last"] == 0.5
    assert (found["action_0_p10"], found["action_0_p50"], found["action_1_p50"]) == (0.1, 0.5, 1.0)
    assert found["pa_sells"] == found["pa_small"] == found["pa_early"] == found["pa_price_moved_for"] == 2.0
    assert found["pa_buys"] == found["pa_large"] == found["pa_late"] == found["pa_price_moved_against"] == -1.0


def test_what_is_not_finite_is_left_out() -> None:
    episodes = np.zeros(2, EPISODE)
    episodes["sign"], episodes["qty_lots"] = 1, 10
    made = outcome([[10, 0], [10, 0]], [[100, np.nan], [100, np.nan]])
    found = behaviour_of(episodes, made, made, np.array([np.nan, np.nan]))
    assert found["lateness"] == -0.5
    assert not [name for name in found if name.startswith("pa_")]
