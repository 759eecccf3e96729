"""When two modules are the same."""

import json

import numpy as np
import pytest

from serl.researcher.candidates import Candidate, Module
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.example import example
from serl.researcher.outer import uniform
from serl.researcher.outer.identity import behaviour_identity, rule_inputs, text_identity

POLICY = {"take_percent": 0, "rest_percent": 400, "offset_percent": 0, "late_percent": 10, "finish_percent": 5}
TERM: dict[str, object] = {"output": "take", "observed": "spread", "shape": "negative", "weight_percent": 20}
LEAN: dict[str, object] = {"output": "rest", "observed": "imbalance", "shape": "linear", "weight_percent": -50}


def policy(*terms: dict[str, object], **changes: object) -> Candidate:
    return Candidate({Kind.POLICY: Module("spec", json.dumps(POLICY | changes | {"terms": terms}))})


def code(text: str) -> Candidate:
    return Candidate({Kind.REWARD: Module("code", text)})


def test_the_order_of_terms_and_the_layout_do_not_matter() -> None:
    assert text_identity(policy(TERM, LEAN)) == text_identity(policy(LEAN, TERM))
    assert text_identity(policy(TERM)) != text_identity(policy(LEAN))
    agent = [Candidate({Kind.AGENT: Module("spec", f'{{"trunk": {trunk}}}')}) for trunk in ([16, 64], [64, 16])]
    assert text_identity(agent[0]) != text_identity(agent[1]), "layers have an order"


def test_code_is_compared_without_comments_and_names_of_variables() -> None:
    text = example(Kind.REWARD, "code")
    renamed = text.replace("held", "kept").replace('"""(n_envs,) rewards in bps."""', "# another comment")
    assert text_identity(code(renamed)) == text_identity(code(text))
    assert text_identity(code(text.replace("0.05 *", "0.06 *"))) != text_identity(code(text))
    assert text_identity(code(text.replace("step.unfilled", "step.behind"))) != text_identity(code(text))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(v0):\n    x = 1\n    return v0", "def f(v0):\n    x = 1\n    return x"),
        ("def f(a, b):\n    a = 2 * a\n    return a", "def f(a, b):\n    b = 2 * b\n    return b"),
        ("def f(x):\n    return x\ny = f", "def f(x):\n    return x\nf = y"),
    ],
)
def test_code_that_differs_in_what_a_name_stands_for_is_told_apart(one: str, other: str) -> None:
    assert text_identity(code(one)) != text_identity(code(other))


def test_rules_that_act_the_same_are_the_same() -> None:
    never = TERM | {"shape": "positive", "weight_percent": -1}  # crosses less than nothing
    assert text_identity(policy(never)) != text_identity(policy())
    assert behaviour_identity(policy(never)) == behaviour_identity(policy())
    for name, value in (("late_percent", 20), ("finish_percent", 2), ("take_percent", 10), ("offset_percent", 20)):
        assert behaviour_identity(policy(**{name: value})) != behaviour_identity(policy()), name


def test_drawn_rules_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    drawn = [Candidate({Kind.POLICY: Module("spec", uniform.draw(Kind.POLICY, rng))}) for _ in range(200)]
    assert len({behaviour_identity(one) for one in drawn}) > 190
    assert len(rule_inputs()) > 1000


def test_rewards_that_pay_the_same_are_the_same() -> None:
    def reward(*weights: int) -> Candidate:
        terms = [
            {"feature": "behind", "shape": "linear", "weight_percent": weight, "when": "every_step"}
            for weight in weights
        ]
        return Candidate({Kind.REWARD: Module("spec", json.dumps({"base": "none", "terms": terms}))})

    assert behaviour_identity(reward(1, 1)) == behaviour_identity(reward(2))
    assert behaviour_identity(reward(1)) != behaviour_identity(reward(2))


def test_a_module_too_deep_for_the_stack_has_an_identity() -> None:
    """A database of an earlier version may contain one."""
    deep = "def reward(step):\n    return step.gain_bps" + " + 1" * 1100
    assert text_identity(code(deep)) == text_identity(code(deep))
    assert text_identity(code(deep)) != text_identity(code(f"{deep} + 1"))
