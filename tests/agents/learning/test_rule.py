"""Rules: what they trade, and that a file holds all of them."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from serl.agents.execution.environment.bars import BarDays, StaticBars
from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.vector import LAYOUT, SCALES, ExecutionVectorEnv
from serl.agents.execution.executor import FixedSampler
from serl.agents.execution.policies.policy import Policy
from serl.agents.execution.policies.schedules import Twap
from serl.agents.learning.errors import LearningError
from serl.agents.learning.evaluation import Outcome, execute_orders
from serl.agents.learning.policy import load_policy
from serl.agents.learning.rule import Term, Terms, input_names
from serl.agents.learning.rule_policy import RulePolicy, rule_from_json
from tests.agents.learning.tiny import MINUTE_NS, START_NS, Sales, flat

NAMES = input_names(LAYOUT.names)
EVEN = Terms(NAMES, take=1.0, rest=0.0, offset=0.0, late_share=1.0, finish_share=0.0)
INTERFACE = Interface(
    LAYOUT.names, dataclasses.asdict(SCALES), "hybrid", (0.0, 0.0, -1.0), (1.0, 1.0, 1.0), 5.0, 0.0, LAYOUT.levels
)


def inputs(**columns: float) -> np.ndarray:
    """One decision, halfway through a window of ten, with the given inputs."""
    values = {"time_left": 0.5, "inventory": 0.5, "steps_left": 5.0, "sign": 1.0} | columns
    return np.array([[values.get(name, 0.0) for name in NAMES]])


def worked(policy: Policy, mode: str) -> Outcome:
    """Forty orders of ten decisions in flat bars."""
    rows = Sales(3, 10).sample(np.random.default_rng(0), 40)
    bars = BarDays(START_NS + MINUTE_NS * np.arange(10), MINUTE_NS, flat(3, 10))
    env = ExecutionVectorEnv(StaticBars(bars, 40, participation=0.5), FixedSampler(rows), actions=mode)
    return execute_orders(env, policy, rows)


def test_an_even_rule_is_a_twap() -> None:
    mine = worked(RulePolicy(EVEN, INTERFACE, {}), "hybrid")
    np.testing.assert_allclose(mine.lots, worked(Twap(), "market").lots, atol=1)


def test_what_is_late_crosses() -> None:
    rule = dataclasses.replace(EVEN, take=0.0, late_share=0.1)
    assert rule(inputs())[0, 0] == 0
    late = rule(inputs(inventory=0.8, behind_schedule=0.3))[0, 0]
    assert late == pytest.approx(0.2 / (0.8 / 5)), "a fifth of the order, in slices of the remaining quantity"


def test_the_end_crosses_evenly_and_rests_the_rest() -> None:
    rule = dataclasses.replace(EVEN, take=0.0, finish_share=0.2)
    assert rule(inputs(time_left=0.3))[0].tolist() == [0.0, 0.0, 0.0]
    assert rule(inputs(time_left=0.2, steps_left=2.0))[0].tolist() == [1.0, 2.0, 0.0]


@pytest.mark.parametrize(("sign", "expected"), [(1.0, 0.5), (-1.0, 0.0)])
def test_terms_take_prices_with_the_sign_of_a_gain(sign: float, expected: float) -> None:
    term = Term("rest", NAMES.index("imbalance"), "positive", 1.0)
    rule = dataclasses.replace(EVEN, terms=(term,))
    assert rule(inputs(imbalance=0.5, sign=sign))[0, 1] == expected


def test_a_file_holds_the_rule(tmp_path: Path) -> None:
    term = Term("take", NAMES.index("spread"), "tanh", -0.5)
    policy = RulePolicy(dataclasses.replace(EVEN, terms=(term,)), INTERFACE, {"steps": 0})
    policy.save(tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path / "policy.safetensors")
    assert isinstance(loaded, RulePolicy)
    assert loaded.rule == policy.rule and loaded.interface == INTERFACE


@pytest.mark.parametrize(
    "change",
    [
        {"names": ["spread"]}, {"late_share": None, "more": 1}, {"late_share": None}, {"take": "1"}, {"rest": [1.0]}, {"offset": math.nan}, {"finish_share": True},
        *({"terms": [{"output": "take", "column": 1, "shape": "tanh", "weight": 1.0, **change}]} for change in ({"column": 999}, {"column": 1.5}, {"weight": "1"}, {"weight": math.inf})),
    ],
)  # fmt: skip
def test_rules_that_do_not_fit_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(LearningError, match="rule: expected"):
        rule_from_json({**EVEN.to_json(), **change}, NAMES)
