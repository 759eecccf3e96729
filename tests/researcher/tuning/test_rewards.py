"""Rewards: pairing, the surrogate, and the floor at the noise."""

import numpy as np
import pytest

from serl.researcher.tuning.features import features_of
from serl.researcher.tuning.rewards import Measurement, paired, rewards
from serl.researcher.tuning.surrogate import posterior, predicted


def additive(n: int, noise: float, seed: int = 0) -> tuple[list[dict[str, float]], np.ndarray, np.ndarray]:
    """Random one-hot choices with additive effects: features, true scores of deviation 1, measured scores."""
    rng = np.random.default_rng(seed)
    effects = rng.normal(size=(4, 5))
    choices = rng.integers(5, size=(n, 4))
    true = effects[np.arange(4), choices].sum(1)
    true = (true - true.mean()) / true.std()
    features = [{f"{place}={value}": 1.0 for place, value in enumerate(row)} for row in choices]
    return features, true, true + noise * rng.normal(size=n)


def test_pairing_removes_what_orders_have_in_common() -> None:
    rng = np.random.default_rng(1)
    common, own = rng.normal(0, 10, 200), {"a": 0.3, "b": 0.0, "c": -0.3}
    orders = {key: common + value + rng.normal(0, 0.1, 200) for key, value in own.items()}
    found = paired(
        {key: values.tolist() for key, values in orders.items()}, {key: float(v.mean()) for key, v in orders.items()}
    )
    for key, value in own.items():
        assert found[key][0] == pytest.approx(value, abs=0.03)
        assert 0.003 < found[key][1] < 0.02, "not the 10 / sqrt(200) of the orders"
    assert paired({"a": ()}, {"a": 2.0, "b": 4.0}) == {"a": (-1.0, 0.0), "b": (1.0, 0.0)}


def test_pairing_by_hand() -> None:
    """Of a and b on the same four orders; c worked other orders, and its score is compared with the mean of all."""
    orders = {"a": (1.0, 2.0, 3.0, 6.0), "b": (1.0, 0.0, 1.0, 2.0), "c": (5.0, 5.0)}
    found = paired(orders, {"a": 3.0, "b": 1.0, "c": 5.0})
    half = np.array([0.0, 1.0, 1.0, 2.0])  # of a minus b
    error = half.std(ddof=1) / 2
    assert found == {"a": (1.0, pytest.approx(error)), "b": (-1.0, pytest.approx(error)), "c": (2.0, 0.0)}
    assert paired({"a": (1.0,), "b": (3.0,)}, {"a": 1.0, "b": 3.0}) == {"a": (-1.0, 0.0), "b": (1.0, 0.0)}, (
        "one order has no error"
    )


def test_the_surrogate_is_nearer_to_the_truth_than_the_measurement() -> None:
    errors = []
    for seed in range(5):
        features, true, measured = additive(64, 1.0, seed)
        found = posterior(features, measured, np.ones(64))
        errors.append((np.mean((found.mean - true) ** 2), np.mean((measured - true) ** 2)))
    denoised, raw = np.mean(errors, axis=0)
    assert denoised < 0.6 * raw


def test_the_surrogate_predicts_what_was_not_measured() -> None:
    better, within = [], []
    for seed in range(5):
        features, true, measured = additive(96, 0.5, seed)
        found = predicted(features[:64], measured[:64], np.full(64, 0.5), features[64:])[1]
        left = true[64:]
        better.append(np.mean((found.mean - left) ** 2) / np.mean((left - measured[:64].mean()) ** 2))
        within.append(np.mean(np.abs(found.mean - left) < 2 * found.sd))
    assert np.mean(better) < 0.5 and np.mean(within) > 0.85
    same = predicted(features[:64], measured[:64], np.full(64, 0.5), features[:64])[1]
    assert same.mean == pytest.approx(posterior(features[:64], measured[:64], np.full(64, 0.5)).mean)
    level = predicted(features[:1], measured[:1], np.ones(1), features[1:3])[1]
    assert level.mean.tolist() == [measured[0]] * 2, "one measurement tells nothing of others"


def test_exact_scores_stay_and_noise_is_found_where_it_is_not_known() -> None:
    features, true, measured = additive(64, 0.0)
    assert posterior(features, measured, np.zeros(64)).mean == pytest.approx(true, abs=0.1)
    features, true, measured = additive(64, 1.0)
    assert 0.5 < posterior(features, measured, np.zeros(64)).noise < 1.5


@pytest.mark.parametrize("denoise", [True, False])
def test_scores_that_are_equal_within_their_noise_reward_nothing(denoise: bool) -> None:
    sizes = []
    for seed in range(10):
        features, _, _ = additive(32, 1.0, seed)
        noise = np.random.default_rng(seed + 100).normal(0, 0.2, 32)
        measured = [Measurement(7.0 + value, 0.2, one) for value, one in zip(noise, features, strict=True)]
        sizes.append(float(np.sqrt(np.mean(rewards(measured, denoise, 3.0).advantage ** 2))))
    assert np.median(sizes) < 0.15, "the common offset of 7 is no reward, nor is noise"
    exact = [Measurement(value, 0.2, one) for value, one in zip(additive(32, 0.0)[1], features, strict=True)]
    assert np.sqrt(np.mean(rewards(exact, False, 3.0).advantage ** 2)) > 0.9


def test_rewards_by_hand() -> None:
    """A quarter of the variance of the scores, 4, is noise, so they shrink by a quarter towards their mean."""
    found = rewards([Measurement(value, 1.0) for value in (0.0, 2.0, 4.0)], True, 3.0)
    assert found.value_bps == pytest.approx([0.5, 2.0, 3.5]) and found.noise_bps == pytest.approx(1)
    assert found.spread_bps == pytest.approx(np.sqrt(1.5)) and found.advantage == pytest.approx(
        np.sqrt([1.5, 0, 1.5]) * [-1, 0, 1]
    )
    same = rewards([Measurement(7.0, 0.0)] * 3, True, 3.0)
    assert same.advantage.tolist() == [0, 0, 0] and same.spread_bps == 0


def test_a_group_with_code_is_not_smoothed() -> None:
    features, _, measured = additive(8, 1.0)
    rows = [Measurement(value, 0.5, one) for value, one in zip(measured, features, strict=True)]
    with_code = [*rows[:7], Measurement(measured[7], 0.5)]
    assert rewards(with_code, True, 3.0).value_bps.tolist() == rewards(with_code, False, 3.0).value_bps.tolist()
    assert rewards(rows, True, 3.0).value_bps.tolist() != rewards(rows, False, 3.0).value_bps.tolist()


def test_advantages_are_limited() -> None:
    measured = [Measurement(value, 0.0) for value in (0.0,) * 50 + (9.0,)]
    assert rewards(measured, False, 3.0).advantage.max() == 3.0
    worse = [Measurement(-one.value_bps, 0.0) for one in measured]
    assert rewards(worse, False, 3.0).advantage.min() == -3.0


def test_features_are_the_choices() -> None:
    found = features_of({"reward": '{"base": "none", "terms": [{"when": "a", "w": -5}, {"when": "a", "w": 2}]}'})
    assert found["reward.base=none"] == 1.0
    assert found["reward.terms.length=2"] == 1.0
    assert found["reward.terms[].when=a"] == 2.0
    assert found["reward.terms[].w#"] < 0
    assert features_of({"a": '{"x": true}'}) == {"a.x=True": 1.0}, "a choice, not a number"
