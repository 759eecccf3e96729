"""Scores in held-out hours: of a population against its own day, of the halves of a window, of training hours; means over days."""

import dataclasses
import math

import numpy as np
import pytest

from serl.agents.calibration.objective import Span, Window, simulated_window
from serl.agents.calibration.score import HeldOutScores, SeedSample, mean_scores, score, score_ceiling, score_floor
from serl.agents.realism.benchmark import compare
from serl.agents.realism.facts import FACTS, agreements
from serl.agents.realism.tape import MINUTE_NS, build_tape
from tests.agents.calibration.sample import OPEN_NS, poisson, poisson_day

SPAN = Span(OPEN_NS + 2 * MINUTE_NS, OPEN_NS + 36 * MINUTE_NS, 5)


@pytest.fixture(scope="module")
def windows() -> list[Window]:
    """The same hours with three seeds; long enough for the facts about returns."""
    return [Window(simulated_window(poisson(), seed, SPAN), SPAN.start_ns, SPAN.end_ns) for seed in (3, 4, 5)]


def values(found: HeldOutScores, name: str) -> list[float]:
    sample = getattr(found, name)
    assert isinstance(sample, SeedSample)
    return sample.values.tolist()


def test_a_population_has_no_distance_to_its_own_day(windows: list[Window]) -> None:
    own, other = score(poisson(), [3, 4], windows[:2])
    assert values(own, "mean_l1")[0] == values(own, "mean_wasserstein")[0] == 0 < values(own, "mean_l1")[1]
    assert values(other, "mean_l1")[1] == 0 < values(other, "mean_l1")[0]
    assert own.messages == other.messages == [len(one.tape) for one in windows[:2]]
    assert values(own, "facts_shared")[0] == 11 and values(own, "signs_shared")[0] == 1
    shared = agreements(windows[0].facts, windows[1].facts)
    assert values(own, "facts_shared")[1] == shared[:11].count(True) < 11
    assert set(own.fact_values) == {fact.name for fact in FACTS} and len(own.score_l1) == 21
    kurtosis = [one.facts.estimates[1].value for one in windows[:2]]
    assert own.fact_values["heavy tails"].values.tolist() == kurtosis
    assert np.mean([one.values[1] for one in own.score_l1.values()]) == pytest.approx(values(own, "mean_l1")[1])
    assert own.facts_text == f"{np.mean(values(own, 'facts_shared')):.1f}"


def part(start_min: int, end_min: int) -> Window:
    """Minutes after the open of a longer day."""
    hours = OPEN_NS + start_min * MINUTE_NS, OPEN_NS + end_min * MINUTE_NS
    return Window(build_tape(poisson_day(), 5).window(*hours), *hours)


def test_the_floor_is_the_second_half_against_the_first() -> None:
    found, first, second = score_floor(part(15, 85)), part(15, 50), part(50, 85)
    expected = compare(first.tape, second.tape, bootstraps=0, seed=1).summary()
    assert values(found, "mean_l1") == [expected["l1"]["mean"].value]
    assert values(found, "mean_wasserstein") == [expected["wasserstein"]["mean"].value]
    assert found.messages == [len(second.tape)] != [len(first.tape)]
    shared = agreements(first.facts, second.facts)
    assert values(found, "facts_shared") == [shared[:11].count(True)] and None not in shared[:11]
    assert found.fact_values["heavy tails"].values.tolist() == [second.facts.estimates[1].value]
    assert found.to_json()["mean_l1"]["interval"] is None, "one value"


def test_hours_that_are_too_short_share_no_facts() -> None:
    found = score_floor(part(15, 29))
    assert found.facts_text == "–" and found.to_json()["facts"]["heavy tails"] == [None]
    assert values(found, "facts_shared") == values(found, "signs_shared") == [0]
    one = found.fact_values | {"leverage": SeedSample(np.array([0.1]))}
    assert dataclasses.replace(found, fact_values=one).facts_text == "0.0", "one is determined"


def test_the_ceiling_has_a_value_for_each_training_day(windows: list[Window]) -> None:
    found = score_ceiling(windows[1:], windows[0])
    expected = [compare(windows[0].tape, one.tape, bootstraps=0, seed=1).summary() for one in windows[1:]]
    assert values(found, "mean_l1") == [one["l1"]["mean"].value for one in expected]
    assert found.messages == [len(one.tape) for one in windows[1:]]
    shared = [agreements(windows[0].facts, one.facts)[:11].count(True) for one in windows[1:]]
    assert values(found, "facts_shared") == shared


def test_the_mean_over_days_is_seed_by_seed() -> None:
    def scores(first: float) -> HeldOutScores:
        l1, wasserstein, facts, signs, one, sided = (
            SeedSample(np.array([number + first, number + first + 4.0])) for number in range(6)
        )
        named = {"a": SeedSample(np.array([first, math.nan]))}
        return HeldOutScores(l1, wasserstein, facts, signs, {"b": one}, named, sided, l1, [int(first), 7])

    found = mean_scores([scores(10.0), scores(20.0)])
    names = ("mean_l1", "mean_wasserstein", "facts_shared", "signs_shared")
    assert [values(found, name) for name in names] == [[15.0 + number, 19.0 + number] for number in range(4)]
    assert found.score_l1["b"].values.tolist() == [19, 23] and found.one_sided_share.values.tolist() == [20, 24]
    assert found.levels_missing_share.values.tolist() == [15, 19] and found.messages == [15, 7]
    assert found.fact_values["a"].values[0] == 15 and found.to_json()["facts"] == {"a": [15.0, None]}
