"""Impact responses computed by hand."""

import numpy as np
import pytest

from serl.agents.realism.impact_response import EVENT_TYPES, impact_response, log_lags, response_distance, touch_events
from tests.agents.realism.sample import five_messages, generated


def random() -> np.random.Generator:
    return np.random.default_rng(1)


def test_lags() -> None:
    lags = log_lags()
    assert len(lags) == 21 and lags[0] == 1 and lags[-1] == 200
    assert (np.diff(lags) > 0).all()


def test_by_hand() -> None:
    """Mid before and after the four events at the touch: 100, 100.5, 100.5, 101.5, 101; e = +1, -1, +1, -1."""
    tape = five_messages()
    places, changed = touch_events(tape)
    assert places.tolist() == [0, 1, 2, 3] and changed.tolist() == [True, False, True, True]
    found = impact_response(tape, 0, random(), np.array([1, 2]))
    mean = dict(zip(EVENT_TYPES, found.mean_ticks.tolist(), strict=True))
    assert mean["limit, touch changed"] == [0.5, 0.5]
    assert mean["limit, touch unchanged"] == [0, -1]
    assert mean["market, touch changed"] == [1, 0.5]
    assert mean["cancel, touch changed"][0] == 0.5 and np.isnan(mean["cancel, touch changed"][1])
    assert np.isnan(mean["market, touch unchanged"]).all() and np.isnan(mean["cancel, touch unchanged"]).all()
    assert found.counts.tolist() == [0, 1, 1, 1, 0, 1]


def test_bands_and_distances() -> None:
    tape, other = generated(1), generated(2)
    one, two = impact_response(tape, 50, random()), impact_response(other, 50, random())
    inside = (one.low_ticks <= one.mean_ticks) & (one.mean_ticks <= one.high_ticks)
    assert inside.mean() > 0.95
    assert (one.high_ticks[:, -1] - one.low_ticks[:, -1] > 0).all()
    assert response_distance(one, one).tolist() == [0] * 6
    expected = np.abs(one.mean_ticks[3] - two.mean_ticks[3]).mean()
    assert response_distance(one, two)[3] == pytest.approx(expected) and expected > 0
