"""The models: known weights, known temperatures, and nothing of later hours."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from serl.agents.signals.books import CHANNELS, WINDOW
from serl.agents.signals.conclusions import conclusions
from serl.agents.signals.errors import SignalError
from serl.agents.signals.evaluation import BRIER, F1, TREND, Evaluation, evaluate
from serl.agents.signals.features import NAMES
from serl.agents.signals.forecaster import LAST, MAJORITY, MODELS, check_horizons
from serl.agents.signals.forecaster_file import read_forecaster
from serl.agents.signals.grid import LEVELS, STEP_NS, Floats, Grid
from serl.agents.signals.inputs import Inputs
from serl.agents.signals.labels import NO_LABEL, Classes
from serl.agents.signals.logistic import RIDGE, fit_logistic, fit_temperature, log_loss, softmax
from serl.agents.signals.network import network_logits, train_network
from serl.agents.signals.samples import cut_samples
from serl.agents.signals.training import split, train_forecaster
from serl.history.day import SymbolReference
from tests.agents.signals import sample


def drawn(logits: Floats, seed: int = 1) -> Classes:
    """Labels drawn from softmax(logits)."""
    draws = np.random.default_rng(seed).random((len(logits), 1))
    return (softmax(logits).cumsum(axis=1) < draws).sum(axis=1)


def test_the_regression_minimises_its_objective_and_finds_known_weights() -> None:
    rng = np.random.default_rng(2)
    x, truth = rng.normal(size=(20_000, 2)), np.array([[1.0, 0, -1], [0, -0.5, 0.5], [0.3, 0, -0.3]])
    labels = drawn(np.column_stack([x, np.ones(len(x))]) @ truth)
    weights = fit_logistic(x, labels)
    difference = weights - weights[:, 1:2] - (truth - truth[:, 1:2])
    assert abs(difference).max() < 0.35, "the ridge shrinks them"
    assert (np.argmax(weights, axis=1) == np.argmax(truth, axis=1)).all()
    full = np.column_stack([x, np.ones(len(x))])
    gradient = full.T @ (softmax(full @ weights) - np.eye(3)[labels]) / len(x)
    gradient[:2] += RIDGE * weights[:2]
    assert abs(gradient).max() < 1e-4


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
def test_the_temperature_that_was_taken_away_is_found(temperature: float) -> None:
    logits = np.random.default_rng(3).normal(0, 2, (40_000, 3))
    labels = drawn(logits)
    assert fit_temperature(logits * temperature, labels) == pytest.approx(temperature, rel=0.05)


def test_the_network_learns_what_no_line_separates() -> None:
    """Class 2 where the signs of two features agree. Samples without a label teach nothing."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(6000, 2))
    labels = np.where(x.prod(axis=1) > 0, 2, 0)[:, np.newaxis]
    labels[::10] = NO_LABEL
    parts = (x[:4500], labels[:4500]), (x[4500:], labels[4500:])
    logits = network_logits(train_network(*parts, seed=1), x)[:, 0]
    known = labels[:, 0] != NO_LABEL
    assert (
        log_loss(logits[known], labels[known, 0]) < 0.3
        and log_loss(x @ fit_logistic(x[known], labels[known, 0])[:2], labels[:, 0].clip(0)) > 0.6
    )
    again = network_logits(train_network(*parts, seed=1), x)[:, 0]
    assert (again == logits).all(), "seeded"


def test_nothing_after_the_training_hours_is_read() -> None:
    """The same forecaster, whatever happens from the end of the hours on; another one if something before changes."""
    made, hours = sample.grid(), (sample.HOURS[0], sample.HOURS[0] + 6 * 60 * 10**9)
    end = int(np.searchsorted(made.time_ns, hours[1], side="right"))

    def trained(changed: Grid) -> str:
        samples = cut_samples(changed, hours, sample.HORIZONS)
        with sample.few_epochs(1):
            found = train_forecaster(samples, "AMZN", sample.HORIZONS, hours, ("generated",), 1)
        return json.dumps(asdict(found), default=np.ndarray.tolist)

    def shuffled(start: int, stop: int) -> Grid:
        order = np.arange(len(made.time_ns))
        order[start:stop] = np.random.default_rng(5).permutation(order[start:stop])
        return replace(made, ticks=made.ticks[order], lots=made.lots[order])

    before = trained(made)
    assert trained(shuffled(end, len(made.time_ns))) == before
    assert trained(shuffled(end - 400, end - 100)) != before


def test_no_label_is_both_fitted_and_calibrated() -> None:
    samples = cut_samples(sample.grid(), sample.HOURS, sample.HORIZONS)
    fit, held = split(samples, sample.HOURS, 5.0)
    cut = sample.HOURS[0] + 9 * 60 * 10**9
    assert fit.time_ns.max() + 5 * 10**9 == cut == held.time_ns.min()
    assert np.isnan(held.moves[held.time_ns > sample.HOURS[1] - 5 * 10**9, 1]).all()


def test_forecasts_of_models_and_baselines() -> None:
    found = sample.forecaster()
    samples = cut_samples(sample.grid(), (sample.HOURS[1], sample.HOURS[1] + 300 * 10**9), sample.HORIZONS)
    for name in (MAJORITY, LAST, *MODELS):
        made = found.forecasts(name, samples.inputs, samples.past)
        assert made.probabilities.shape == (len(samples), 2, 3)
        np.testing.assert_allclose(made.probabilities.sum(axis=2), 1, rtol=1e-6)
        assert (made.probabilities > 0).all()
    last = found.forecasts(LAST, samples.inputs, samples.past)
    ups = samples.past[:, 0] > found.thresholds_ticks[0]
    assert ups.any() and (last.probable[ups, 0] == 2).all() and (last.probabilities[ups, 0] == found.after[0, 2]).all()
    model = found.forecasts(MODELS[0], samples.inputs, samples.past)
    lift = model.probabilities / found.shares
    assert (model.balanced == lift.argmax(axis=2)).all() and (model.balanced != model.probable).any()


def test_a_file_of_an_earlier_version_does_not_say_its_sizes(tmp_path: Path) -> None:
    """It is used with any."""
    found, tenths = sample.forecaster(), SymbolReference("AMZN", "0.1")
    found.write(tmp_path / "f")
    with pytest.raises(SignalError, match=r"x: expected a tick size of 0\.01 and a lot size of 1"):
        read_forecaster(tmp_path / "f").require_sizes(tenths, "x")
    read_forecaster(tmp_path / "f").require_sizes(SymbolReference("AMZN", "0.0100", "1.0"), "x")
    values = json.loads((tmp_path / "f").read_text())
    del values["training"]["sizes"]
    (tmp_path / "f").write_text(json.dumps(values))
    read_forecaster(tmp_path / "f").require_sizes(tenths, "x")
    values["training"]["sizes"] = ["x", "1"]
    (tmp_path / "f").write_text(json.dumps(values))
    with pytest.raises(SignalError, match="expected a forecaster"):
        read_forecaster(tmp_path / "f")


def test_a_file_has_the_same_forecaster(tmp_path: Path) -> None:
    found, rng = sample.forecaster(), np.random.default_rng(6)
    books = rng.normal(size=(WINDOW + 4, len(CHANNELS))).astype(np.float32)
    inputs = Inputs(rng.normal(size=(5, len(NAMES))), books, WINDOW - 1 + np.arange(5))
    found.write(tmp_path / "f")
    read = read_forecaster(tmp_path / "f")
    for name in MODELS:
        assert read.probabilities(inputs, name) == pytest.approx(found.probabilities(inputs, name), abs=1e-12)
    assert (read.volumes(inputs.features) == found.volumes(inputs.features)).all()
    assert (read.fills(inputs.features) == found.fills(inputs.features)).all()
    assert read.training == found.training and read.model == found.model and read.horizons_s == sample.HORIZONS


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("format", "x", "another format"), ("version", 9, "another format"), ("features", ["x"], "other features"),
        ("weights", [[1.0]], "shape"), ("scale", [0.0] * len(NAMES), "not positive"), ("scale", [None] * len(NAMES), "not finite"),
        ("layers", [], "do not fit"), ("model", "oracle", "the model oracle"), ("horizons_s", [0.05], "multiples of 0.1 s"),
        ("training", {}, "'hours'"), ("window", 9, "other books"), ("channels", [], "other books"), ("attention", {}, "'weights'"),
        ("fill", {"shares": [1.0]}, "shape"), ("volume", {"means": [1.0, -1.0]}, "not positive"), ("centre", "abc", "could not convert"),
    ],
)  # fmt: skip
def test_other_files_are_refused(key: str, value: object, why: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    sample.forecaster().write(path)
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {key: value}))
    with pytest.raises(SignalError, match=f"expected a forecaster, got .*{why}.*; write one with"):
        read_forecaster(path)


@pytest.mark.parametrize("model", MODELS)
def test_no_inputs_have_no_forecasts(model: str) -> None:
    """A day whose book is never known."""
    found, none = (
        sample.forecaster(),
        Inputs(np.zeros((0, len(NAMES))), np.zeros((0, len(CHANNELS)), np.float32), np.zeros(0, np.int64)),
    )
    assert found.probabilities(none, model).shape == (0, 2, 3)
    assert found.volumes(none.features).shape == (0, 2) and found.fills(none.features).shape == (0, 2, 2)


@pytest.mark.parametrize("text", [b"", b"\xff", b"[1]", b"[" * 100_000, b"null"])
def test_damaged_files_are_refused(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(text)
    with pytest.raises(SignalError, match="expected a forecaster"):
        read_forecaster(tmp_path / "f")
    with pytest.raises(SignalError, match="No such file"):
        read_forecaster(tmp_path / "none")


@pytest.mark.parametrize("horizons", [(0.0,), (0.25,), (1.0, 1.0), (4000.0,), (float("nan"),), ()])
def test_horizons_that_cannot_be(horizons: tuple[float, ...]) -> None:
    with pytest.raises(SignalError, match="--horizons: expected different multiples"):
        check_horizons(horizons)


def planted(seed: int) -> Grid:
    """Forty minutes in which the queues of each second tell the tick by which the mid moves at the beginning of the next."""
    signs = np.random.default_rng(seed).choice([-1, 0, 1], 2400)
    ticks, lots = np.zeros((2, 24_000, 2, LEVELS), np.int64)
    mid = np.repeat(10_000 + np.concatenate([[0], np.cumsum(signs)[:-1]]), 10)
    ticks[:, 0, 0], ticks[:, 1, 0] = mid - 1, mid + 1
    lots[:, 0, 0], lots[:, 1, 0] = 20 + 10 * np.repeat(signs, 10), 20
    nothing = np.zeros(24_000, np.int64)
    return Grid(
        SymbolReference("AMZN"),
        sample.HOURS[0] + STEP_NS * np.arange(24_000),
        ticks,
        lots,
        nothing,
        nothing,
        sample.no_flow(24_000),
    )


def verdict(made: Grid) -> Evaluation:
    """Trained on the first twenty minutes, tested on the others."""
    start, middle, end = (sample.HOURS[0] + minutes * 60 * 10**9 for minutes in (0, 20, 40))
    found = train_forecaster(cut_samples(made, (start, middle), (1.0,)), "AMZN", (1.0,), (start, middle), ("",), 1)
    return evaluate(found, cut_samples(made, (middle, end), (1.0,)), 200, 1)


@pytest.mark.long
def test_a_forecast_that_exists_is_found_by_all_models_and_one_that_does_not_by_none() -> None:
    found = verdict(planted(1))
    for model in MODELS:
        assert found.scores[TREND, 0, model].values[F1] > 0.8
        assert (
            found.difference(TREND, 0, model, LAST, F1).low > 0.3
            and found.difference(TREND, 0, model, MAJORITY, BRIER).high < -0.3
        )
    assert "is better than that of" in conclusions(found)[0]
    made = planted(1)
    random = np.random.default_rng(3).permutation(24_000)
    none = verdict(replace(made, lots=made.lots[random]))
    for model in MODELS:
        assert (
            none.scores[TREND, 0, model].values[F1] < 0.45
            and none.difference(TREND, 0, model, MAJORITY, BRIER).value > -0.05
        )
    assert "is better than" not in conclusions(none)[0]
