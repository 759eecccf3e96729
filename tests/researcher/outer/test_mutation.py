"""Operators without a model: valid, close to their parents, and able to reach every choice."""

import json

import numpy as np
import pytest

from serl.researcher.modules import specs
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer import uniform
from serl.researcher.outer.mutation import cross, mutate, neighbours


@pytest.mark.parametrize("kind", list(Kind))
def test_children_are_of_their_schema_and_differ(kind: Kind) -> None:
    rng = np.random.default_rng(0)
    changed = 0
    for _ in range(60):
        one, other = uniform.draw(kind, rng), uniform.draw(kind, rng)
        for child in (mutate(kind, one, rng), cross(kind, one, other, rng)):
            specs.parse(kind, child)
        changed += mutate(kind, one, rng) != one
    assert changed > 50


def test_numbers_move_to_neighbours() -> None:
    assert neighbours([0, 50, 100, 200], 100) == [50, 200]
    assert neighbours([-1, 1, -5], -5) == [-1]
    assert neighbours(["linear", "tanh"], "tanh") == ["linear"]


def test_a_mutation_changes_one_or_two_fields() -> None:
    rng = np.random.default_rng(1)
    text = '{"take_percent": 10, "rest_percent": 400, "offset_percent": 0, "late_percent": 10, "finish_percent": 5, "terms": []}'
    before = json.loads(text)
    children = [json.loads(mutate(Kind.POLICY, text, rng)) for _ in range(200)]
    differing = [sum(child[name] != before[name] for name in before) for child in children]
    assert set(differing) <= {0, 1, 2}, "two changes may cancel each other"
    assert differing.count(1) > differing.count(2) > 0


def test_a_crossing_takes_from_both_and_keeps_what_they_share() -> None:
    rng = np.random.default_rng(2)
    term = {"feature": "unfilled", "shape": "linear", "weight_percent": -500, "when": "last_step"}
    own = term | {"feature": "behind"}
    one = json.dumps({"base": "none", "terms": [term, own]})
    other = json.dumps({"base": "shortfall", "terms": [term]})
    made = [json.loads(cross(Kind.REWARD, one, other, rng)) for _ in range(50)]
    assert {child["base"] for child in made} == {"none", "shortfall"}
    assert all(term in child["terms"] for child in made)
    assert {len(child["terms"]) for child in made} == {1, 2}


def test_mutations_reach_the_other_end_of_a_list() -> None:
    rng = np.random.default_rng(3)
    text = '{"take_percent": 0, "rest_percent": 0, "offset_percent": 0, "late_percent": 0, "finish_percent": 0, "terms": []}'
    seen = set[int]()
    for _ in range(300):
        text = mutate(Kind.POLICY, text, rng)
        seen.add(json.loads(text)["rest_percent"])
    assert seen == {0, 50, 100, 200, 400, 800, 3000}
