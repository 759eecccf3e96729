"""Checks of modules' outputs, and the adapters to environments."""

from typing import Any

import numpy as np
import pytest

from serl.agents.execution.environment.bars import StaticBars
from serl.agents.execution.environment.vector import PRICE_ADVANTAGE, ExecutionVectorEnv
from serl.exchange.records import Rows
from serl.researcher.modules import adapters, build, checks, specs
from serl.researcher.modules.contracts import MEMORY_SIZE, Kind, RewardInputs
from serl.researcher.modules.errors import ModuleError, NotFiniteError
from serl.researcher.modules.example import example
from serl.researcher.validation import recorded
from tests.agents.execution.environment.stage import SECOND_NS, bars, episode

GROUP: dict[str, Any] = {"trader": "zero_intelligence"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 2.0], r"expected shape \(3,\), got \(2,\)"),
        ([[1.0], [2.0], [3.0]], "shape"),
        ("abc", "numbers"),
        ([1.0, [2.0], 3.0], "numbers"),
        ([1, 2j, 3], "numbers"),
        (None, "numbers"),
        ([1e7, 0.0, 0.0], "within"),
    ],
)
def test_rewards_are_checked(values: Any, message: str) -> None:
    with pytest.raises(ModuleError, match=message):
        checks.rewards(values, 3)
    with pytest.raises(NotFiniteError, match="2 of 3"):
        checks.rewards([np.nan, 1.0, np.inf], 3)
    assert checks.rewards([1, True, 2.5], 3).tolist() == [1.0, 1.0, 2.5]


def test_scenarios_and_messages_are_checked() -> None:
    good = np.ones((2, 3, 3))
    assert checks.scenarios(good, 2, 3).shape == (2, 3, 3)
    for bad, message in ((-good, "at least 0"), (good * 2000, "1000 bps"), (good[:1], "shape")):
        with pytest.raises(ModuleError, match=message):
            checks.scenarios(bad, 2, 3)
    assert checks.messages(np.zeros((4, 2)), 4).shape == (4, 2)
    for bad, message in (
        (np.zeros(4), "shape"),
        (np.zeros((4, 0)), "shape"),
        (np.zeros((4, 9)), "shape"),
        (np.full((4, 2), 2), "tanh"),
    ):
        with pytest.raises(ModuleError, match=message):
            checks.messages(bad, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"modules": ["os"]}, "got also modules"),
        ({"symbols": ["A", "B"]}, "got also symbols"),
        ({"groups": []}, "groups"),
        ({"groups": [{"trader": "nobody"}]}, "expected a trader of"),
        ({"groups": [{"trader": "noise", "count": 6000}]}, "at most 5000"),
        ({"groups": [{"trader": "noise", "profile": {"interval_s": 1e-9}}]}, "intervals of at least"),
        ({"groups": [{"trader": "zero_intelligence", "profile": {"market_per_s": 1e9}}]}, "rates up to"),
        ({"groups": [{"trader": "noise", "profile": {"wealth": 1}}]}, "wealth"),
        ({"name": "../../x"}, "name"),
    ],
)
def test_populations_are_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModuleError, match=message):
        checks.population({"name": "mine", "groups": [GROUP], **changes})
    assert checks.population({"name": "mine", "groups": [GROUP]})["name"] == "mine"


class Orders:
    """The same two parent orders again and again: a sale and a purchase."""

    def sample(self, random: np.random.Generator, count: int) -> Rows:
        return np.concatenate(
            [episode(sign=1, qty=10, interval=60, steps=2), episode(sign=-1, qty=20, interval=60, steps=2)]
        )


def environment(reward: Any = PRICE_ADVANTAGE) -> ExecutionVectorEnv:
    days = bars((100, 110, 90, 100, 100, 100), (100, 110, 90, 104, 102, 300), (104, 110, 90, 104, 104, 100))
    env = ExecutionVectorEnv(StaticBars(days, 2, half_spread_bps=0.0), Orders(), reward=reward)
    env.reset(seed=0)
    return env


def test_a_reward_sees_the_step() -> None:
    seen: list[RewardInputs] = []

    def record_inputs(env: ExecutionVectorEnv, fills: Rows, last: Any) -> Any:
        seen.append(adapters.reward_inputs(env, fills, last, np.zeros((2, MEMORY_SIZE))))
        return np.zeros(2)

    env = environment(record_inputs)
    env.step(np.array([[0.5], [0.25]]))
    env.step(np.zeros((2, 1)))
    first, second = seen
    assert first.filled.tolist() == [0.5, 0.25]
    assert first.remaining.tolist() == [0.5, 0.75]
    assert first.behind.tolist() == [0.0, 0.25]
    assert first.participation.tolist() == pytest.approx([5 / 105, 5 / 105])
    assert (first.last.tolist(), second.last.tolist(), second.step.tolist()) == ([0, 0], [1, 1], [2, 2])
    assert second.unfilled.tolist() == [0.5, 0.75]
    assert second.remaining.tolist() == [0, 0]
    assert second.vwap_bps.tolist() == pytest.approx([150, -150])  # (100 x 100 + 300 x 102) / 400 against 100
    assert second.gain_bps.tolist() == pytest.approx([0.5 * 400, -0.75 * 400])  # forced at 104
    assert second.drift_bps.tolist() == pytest.approx([400, -400])
    assert all(np.isfinite(values).all() and values.dtype == float for step in seen for values in vars(step).values())


def test_the_price_advantage_as_a_module_is_the_environments_own() -> None:
    spec = '{"base": "price_advantage", "terms": [{"feature": "unfilled", "shape": "linear", "weight_percent": 1, "when": "last_step"}]}'
    module = build.build(specs.parse(Kind.REWARD, spec))
    ours, theirs = environment(adapters.as_reward(module)), environment()
    for _ in range(4):
        actions = np.array([[0.5], [0.25]])
        mine, expected = ours.step(actions), theirs.step(actions)
        unfilled = np.where(mine[2], [0.3, 0.55], 0)
        np.testing.assert_allclose(mine[1], expected[1] + 0.01 * unfilled)


def test_a_module_that_breaks_its_contract_stops_the_environment() -> None:
    env = environment(adapters.as_reward(lambda step: np.zeros(3)))
    with pytest.raises(ModuleError, match="shape"):
        env.step(np.zeros((2, 1)))


def test_scenarios_become_days_of_bars() -> None:
    history = recorded.load().history
    module = build.build(specs.parse(Kind.IMAGINE, example(Kind.IMAGINE, "spec")))
    scenarios = checks.scenarios(module(history, np.random.default_rng(0), 4, 10), 4, 10)
    days = adapters.days_of(scenarios, 10_000.0, 60 * SECOND_NS * np.arange(10), 60 * SECOND_NS)
    back = adapters.history_of(days, 2)
    np.testing.assert_allclose(back[:, 0], scenarios[2, :, 0], atol=1e-9)
    np.testing.assert_allclose(back[:, 2], np.rint(scenarios[2, :, 2]))
    body = np.abs(days.values[2, :, 3] - days.values[2, :, 0]) / days.values[2, :, 3] * 1e4
    np.testing.assert_allclose(back[:, 1], np.maximum(scenarios[2, :, 1], body), atol=1e-9)
    assert StaticBars(days, 2).count == 2
