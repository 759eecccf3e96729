"""Rewards as modules: the default, products, and memory."""

import json
from typing import Any

import numpy as np
import pytest

from serl.agents.execution.environment.bars import BarDays, StaticBars
from serl.agents.execution.environment.episodes import Hours, RandomOrders
from serl.agents.execution.environment.rewards import PriceAdvantage, ScheduleAdvantage
from serl.agents.execution.environment.vector import ExecutionVectorEnv, Reward
from serl.researcher.inner.settings import STATIC
from serl.researcher.modules import adapters, build, specs
from serl.researcher.modules.contracts import MEMORY_SIZE, Form, Kind, RewardInputs
from serl.researcher.modules.errors import ModuleError, NotFiniteError
from serl.researcher.modules.example import example
from serl.researcher.validation import entrypoints
from serl.researcher.validation.dry_run import dry_run

ENVS, BARS, MINUTE_NS = 16, 40, 60_000_000_000
SCHEDULE = ScheduleAdvantage(STATIC.deviation_bps, STATIC.unfilled_bps)
PRICE_SPEC = {"base": "price_advantage", "terms": [
    {"feature": "unfilled", "shape": "linear", "times": "one", "weight_percent": weight, "when": "last_step"} for weight in (1, -1)
]}  # fmt: skip
PRICE_CODE = "def reward(step):\n    return step.gain_bps - step.last * step.vwap_bps\n"


def walk() -> BarDays:
    """Two days of bars whose prices move."""
    random = np.random.default_rng(5)
    closes = 10_000 * np.exp(np.cumsum(2e-3 * random.standard_normal((2, BARS)), axis=1))
    opens = np.concatenate((np.full((2, 1), 10_000.0), closes[:, :-1]), axis=1)
    highs, lows = np.maximum(opens, closes) + 5, np.minimum(opens, closes) - 5
    values = np.stack((opens, highs, lows, closes, (highs + lows + closes) / 3, random.integers(100, 900, (2, BARS))), axis=-1, dtype=np.float64)  # fmt: skip
    return BarDays(MINUTE_NS * np.arange(BARS), MINUTE_NS, values)


def environment(reward: Reward) -> ExecutionVectorEnv:
    """Orders of ten decisions, with fees."""
    hours = [Hours(day, 0, BARS * MINUTE_NS, 8.0) for day in range(2)]
    market = StaticBars(walk(), ENVS, half_spread_bps=3.0, impact_bps=20.0)
    return ExecutionVectorEnv(
        market, RandomOrders(hours, 600, 60, 0.02, 0.2), actions="hybrid", fee_bps=0.3, reward=reward
    )


def rewards_of(reward: Reward, steps: int = 25) -> Any:
    """(steps, ENVS) rewards of the same random actions, over two episodes and a half."""
    env, random = environment(reward), np.random.default_rng(1)
    env.reset(seed=2)
    return np.array([env.step(random.random((ENVS, 3)) * [0.1, 0.3, 1.0])[1] for _ in range(steps)])


def function(form: Form, text: str) -> Any:
    return build.build(specs.parse(Kind.REWARD, text)) if form == "spec" else entrypoints.load(Kind.REWARD, text)


@pytest.mark.parametrize(
    ("form", "text", "built_in"),
    [
        ("spec", example(Kind.REWARD, "spec"), SCHEDULE),
        ("code", example(Kind.REWARD, "code"), SCHEDULE),
        ("spec", json.dumps(PRICE_SPEC), PriceAdvantage()),
        ("code", PRICE_CODE, PriceAdvantage()),
    ],
    ids=["schedule, spec", "schedule, code", "price, spec", "price, code"],
)
def test_a_module_is_the_built_in_reward(form: Form, text: str, built_in: Reward) -> None:
    expected = rewards_of(built_in)
    assert np.unique(expected).size > 300
    np.testing.assert_allclose(rewards_of(adapters.as_reward(function(form, text))), expected, rtol=1e-12, atol=1e-9)


def test_terms_may_be_products() -> None:
    terms = [
        {"feature": "behind", "shape": "positive", "times": "move_bps", "weight_percent": 200, "when": "every_step"}
    ]
    made = rewards_of(adapters.as_reward(function("spec", json.dumps({"base": "none", "terms": terms}))))
    coded = "import numpy as np\ndef reward(step):\n    return 2 * np.maximum(step.behind, 0) * step.move_bps\n"
    np.testing.assert_allclose(made, rewards_of(adapters.as_reward(function("code", coded))))
    assert (made != 0).any()


def test_specifications_without_products_mean_what_they_did() -> None:
    old = '{"base": "shortfall", "terms": [{"feature": "behind", "shape": "square", "weight_percent": -50, "when": "every_step"}]}'
    coded = "def reward(step):\n    return step.gain_bps - 0.5 * step.behind**2\n"
    made = rewards_of(adapters.as_reward(function("spec", old)))
    np.testing.assert_allclose(made, rewards_of(adapters.as_reward(function("code", coded))))


MEMORY = """
import numpy as np
def reward(step):
    memory = step.memory.copy()
    memory[:, 0] += step.filled
    memory[:, 1] = step.step
    memory[:, 2] = step.remaining
    return {}, memory
"""


def test_a_reward_remembers_an_order_until_it_ends() -> None:
    found: list[RewardInputs] = []
    remembering = function("code", MEMORY.format("step.memory[:, 0]"))

    def module(step: RewardInputs) -> Any:
        found.append(step)
        return remembering(step)

    rewards_of(adapters.as_reward(module))
    assert len(found) == 25
    filled = np.zeros(ENVS)
    for step in found:
        first = step.step == 1
        filled[first] = 0.0
        np.testing.assert_array_equal(step.memory[:, 0], filled)
        np.testing.assert_array_equal(step.memory[:, 1], step.step - 1)
        filled += step.filled
    assert any((step.memory[:, 0] > 0).any() for step in found)


def test_environments_do_not_share_memory() -> None:
    module = function("code", MEMORY.format("step.memory[:, 1]"))
    alone = rewards_of(adapters.as_reward(module), 4)
    first, second = (environment(adapters.as_reward(module)) for _ in range(2))
    for env in (first, second):
        env.reset(seed=2)
    for step in range(4):
        for env in (first, second):
            assert env.step(np.full((ENVS, 3), 0.1))[1].tolist() == alone[step].tolist()


@pytest.mark.parametrize(
    ("memory", "error", "words"),
    [
        ("step.memory[:, :2]", ModuleError, r"the memory: expected shape"),
        ("step.memory + float('nan')", NotFiniteError, "the memory: expected finite"),
        ("step.memory + 1e7", ModuleError, "the memory: expected numbers within"),
        ("step.memory, 3", ModuleError, "pair of rewards and memory, got 3"),
    ],
)
def test_memory_is_checked(memory: str, error: type[Exception], words: str) -> None:
    source = f"def reward(step):\n    return step.gain_bps, {memory}\n"
    with pytest.raises(error, match=words):
        rewards_of(adapters.as_reward(function("code", source)), 2)
    assert dry_run(Kind.REWARD, function("code", source))[0]


def test_the_dry_run_carries_memory() -> None:
    source = MEMORY.format("step.memory[:, 2]")
    assert dry_run(Kind.REWARD, function("code", source))[0] == []
    for nothing in (1, 3):  # the same for all orders, whatever they did
        source = MEMORY.format(f"step.memory[:, {nothing}]")
        assert "pays for nothing" in dry_run(Kind.REWARD, function("code", source))[0][0].text
    assert MEMORY_SIZE == 4
