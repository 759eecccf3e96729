"""Training: models are fitted on the first three quarters of the training hours and calibrated on the last quarter."""

from collections.abc import Callable, Sequence

import numpy as np

from serl.agents.signals.attention_training import train_attention
from serl.agents.signals.errors import SignalError
from serl.agents.signals.features import scaling, standardise
from serl.agents.signals.fill import fit_fill
from serl.agents.signals.forecaster import ATTENTION, LOGISTIC, MODELS, NETWORK, NO_SIZES, Forecaster, Training
from serl.agents.signals.grid import STEP_NS, STEP_S, Floats
from serl.agents.signals.labels import CLASSES, NO_LABEL, Classes, classify, fit_threshold
from serl.agents.signals.logistic import fit_logistic, fit_temperature, log_loss
from serl.agents.signals.network import network_logits, train_network
from serl.agents.signals.samples import Samples
from serl.agents.signals.volume import fit_volume

FIT_SHARE = 0.75
SAMPLES_MIN = 500
"""Minimum number of labels per horizon, for fitting and for calibration each: 50 s without overlap."""


def train_forecaster(
    samples: Samples, symbol: str, horizons_s: Sequence[float], hours: tuple[int, int], days: Sequence[str], seed: int,
    on_step: Callable[[], object] = lambda: None, *, dates: Sequence[str] = (), sizes: tuple[str, str] = NO_SIZES,
) -> Forecaster:  # fmt: skip
    """Fits and calibrates all models. Raises SignalError if there are too few samples, or only one class.

    on_step is called after each horizon of the logistic regression and each epoch of the networks.
    """
    fit, held = split(samples, hours, max(horizons_s))
    _check_count(fit, held, horizons_s)
    thresholds = np.array([fit_threshold(moves) for moves in fit.moves.T])
    labels, held_labels = classify(fit.moves, thresholds), classify(held.moves, thresholds)
    last = classify(fit.past, thresholds)
    shares = np.stack([_shares(column) for column in labels.T])
    _check_classes(shares, thresholds, horizons_s)
    after = np.stack([
        np.stack([_shares(label[before == one]) for one in range(CLASSES)])
        for label, before in zip(labels.T, last.T, strict=True)
    ])  # fmt: skip
    centre, scale = scaling(fit.inputs.features)
    x, x_held = (standardise(part.inputs.features, centre, scale) for part in (fit, held))
    weights = []
    for column in labels.T:
        weights.append(fit_logistic(x[column != NO_LABEL], column[column != NO_LABEL]))
        on_step()
    layers = train_network((x, labels), (x_held, held_labels), seed, on_step)
    attention = train_attention((fit.inputs, x, labels), (held.inputs, x_held, held_labels), seed, on_step)
    logits = {
        LOGISTIC: np.stack([x_held @ one[:-1] + one[-1] for one in weights], axis=1),
        NETWORK: network_logits(layers, x_held), ATTENTION: attention.logits(held.inputs, x_held),
    }  # fmt: skip
    temperatures, losses = {}, {}
    for name in MODELS:
        temperatures[name], losses[name] = _calibrate(logits[name], held_labels)
    return Forecaster(
        symbol, tuple(horizons_s), thresholds, centre, scale, shares, after, np.stack(weights), layers, attention, temperatures,
        min(MODELS, key=losses.__getitem__), fit_volume(x, fit.volumes, fit.past_volumes),
        fit_fill((fit.inputs.features, fit.fills, fit.past_fills), (held.inputs.features, held.fills)),
        Training(hours, tuple(days), seed, (len(fit), len(held)), losses, dates=tuple(dates), sizes=sizes),
    )  # fmt: skip


def split(samples: Samples, hours: tuple[int, int], longest_s: float) -> tuple[Samples, Samples]:
    """(samples for fitting, samples for calibration): those whose horizons end by the cut, and those from the cut on. No label is in both."""
    start, end = hours
    cut_ns = start + round(FIT_SHARE * (end - start) / STEP_NS) * STEP_NS
    reach_ns = round(longest_s / STEP_S) * STEP_NS
    return samples.chosen(samples.time_ns + reach_ns <= cut_ns), samples.chosen(samples.time_ns >= cut_ns)


def _calibrate(logits: Floats, labels: Classes) -> tuple[Floats, float]:
    """([H] temperatures, mean log loss over all horizons with them)."""
    found, losses = [], []
    for number, column in enumerate(labels.T):
        known = column != NO_LABEL
        found.append(fit_temperature(logits[known, number], column[known]))
        losses.append(log_loss(logits[known, number] / found[-1], column[known]))
    return np.array(found), float(np.mean(losses))


def _shares(labels: Classes) -> Floats:
    """Shares of the classes. Each class is counted once more than it occurs, so that none is impossible."""
    counts = np.bincount(labels[labels != NO_LABEL], minlength=CLASSES) + 1.0
    return counts / counts.sum()


def _check_count(fit: Samples, held: Samples, horizons_s: Sequence[float]) -> None:
    for part, what in ((fit, "to fit"), (held, "to calibrate")):
        counts = np.isfinite(part.moves).sum(axis=0)
        for horizon, count in zip(horizons_s, counts.tolist(), strict=True):
            if count < SAMPLES_MIN:
                raise SignalError(
                    f"--hours: expected {SAMPLES_MIN} or more labels {what} at the horizon {horizon:g} s, got {count}; "
                    "give longer hours, more days or shorter --horizons"
                )


def _check_classes(shares: Floats, thresholds: Floats, horizons_s: Sequence[float]) -> None:
    for horizon, threshold, share in zip(horizons_s, thresholds.tolist(), shares, strict=True):
        if share.max() > 0.999:
            raise SignalError(
                f"--horizons: expected moves of the mid within {horizon:g} s, got flat ones nearly always (up to {threshold:g} ticks); "
                "give longer horizons or other hours"
            )
