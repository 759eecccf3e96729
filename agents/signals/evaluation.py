"""Evaluates a forecaster and its baselines on some hours: scores and differences."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from serl.agents.signals.errors import SignalError
from serl.agents.signals.fill import FILL_ROWS, sides
from serl.agents.signals.forecaster import BASELINES, MODELS, Forecaster, Forecasts
from serl.agents.signals.grid import Floats, Ints
from serl.agents.signals.labels import NAMES, NO_LABEL, classify
from serl.agents.signals.samples import Samples
from serl.agents.signals.scores import (
    MEASURES,
    VOLUME_MEASURES,
    Score,
    block_seconds,
    block_statistics,
    number_blocks,
    score,
    volume_measure,
    volume_statistics,
)
from serl.agents.signals.volume import VOLUME_ROWS
from serl.agents.students_t import expanded

F1, ACCURACY, BRIER, ECE = range(4)
"""Indices into MEASURES."""
EXPLAINED = 0
"""Index into VOLUME_MEASURES."""
BLOCKS_MIN = 4


@dataclass(frozen=True)
class Target:
    """A quantity that is forecast."""

    name: str
    baselines: tuple[str, ...]
    models: tuple[str, ...]
    measures: tuple[str, ...]
    classes: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[str, ...]:
        """Rows of its table: baselines, then models."""
        return (*self.baselines, *self.models)


TREND = Target("trend", BASELINES, MODELS, MEASURES, NAMES)
FILL = Target("fill", FILL_ROWS[:-1], FILL_ROWS[-1:], MEASURES, ("open", "filled"))
VOLUME = Target("volume", VOLUME_ROWS[:-1], VOLUME_ROWS[-1:], VOLUME_MEASURES)
TARGETS = (TREND, FILL, VOLUME)
SCORES = sum(len(target.rows) for target in TARGETS)
"""Number of scores at each horizon."""
Key = tuple[Target, int, str]
"""(target, number of the horizon, name of the model or baseline)."""


@dataclass(frozen=True)
class Difference:
    """A measure of a model minus that of a baseline, on the same resampled blocks."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """Scores of all targets."""

    forecaster: Forecaster
    scores: dict[Key, Score]
    blocks: int
    block_s: int

    def of(self, target: Target) -> dict[tuple[int, str], Score]:
        """The scores by (number of the horizon, name of the model or baseline)."""
        return {(horizon, name): one for (found, horizon, name), one in self.scores.items() if found is target}

    def difference(self, target: Target, horizon: int, model: str, baseline: str, number: int) -> Difference:
        """The difference of measure `number` between a model and a baseline."""
        one, other = self.scores[target, horizon, model], self.scores[target, horizon, baseline]
        low, high = np.quantile((one.resampled - other.resampled)[:, number], expanded(self.blocks))
        return Difference(float(one.values[number] - other.values[number]), float(low), float(high))

    def to_json(self) -> list[dict[str, Any]]:
        """All scores, and the differences from both baselines, by target, horizon and model."""
        return [self._row(*key) for key in self.scores]

    def _row(self, target: Target, horizon: int, name: str) -> dict[str, Any]:
        found = self.scores[target, horizon, name]
        row: dict[str, Any] = {
            "forecast": target.name, "horizon_s": self.forecaster.horizons_s[horizon], "model": name, "forecasts": found.count,
        }  # fmt: skip
        if target.classes:
            row["label_shares"] = dict(zip(target.classes, found.shares.tolist(), strict=True))
        else:
            row["mean_lots"] = found.mean_lots
        for number, measure in enumerate(target.measures):
            row[measure] = _interval(found.values, found.low, found.high, number)
            if name in target.models:
                row[measure]["minus"] = {
                    baseline: vars(self.difference(target, horizon, name, baseline, number))
                    for baseline in target.baselines
                }
        if name in target.models and target.classes:
            row["bins"] = found.bins.tolist()
        return row


def _interval(values: Floats, low: Floats, high: Floats, number: int) -> dict[str, Any]:
    return {"value": float(values[number]), "low": float(low[number]), "high": float(high[number])}


def evaluate(
    forecaster: Forecaster,
    samples: Samples,
    bootstraps: int,
    seed: int,
    *,
    blocks_min: int = BLOCKS_MIN,
    on_score: Callable[[], object] = lambda: None,
) -> Evaluation:
    """Scores all models and baselines. Raises SignalError if the hours have too few blocks to resample."""
    block_s = block_seconds(forecaster.horizons_s)
    blocks = number_blocks(samples.day, samples.time_ns, block_s)
    count = int(blocks.max()) + 1
    if count < blocks_min:
        raise SignalError(
            f"--hours: expected {blocks_min} or more blocks of {block_s} s to resample, got {count}; give longer hours"
        )
    _check_labels(forecaster, samples)
    scores: dict[Key, Score] = {}
    for target, statistics in ((TREND, _trend), (FILL, _fill), (VOLUME, _volume)):
        measured = {} if target.classes else {"measured": volume_measure}
        by_name = {name: statistics(forecaster, samples, name, blocks) for name in target.rows}
        for horizon in range(len(forecaster.horizons_s)):
            for name in target.rows:
                scores[target, horizon, name] = score(by_name[name][horizon], bootstraps, seed, **measured)
                on_score()
    return Evaluation(forecaster, scores, count, block_s)


def _check_labels(forecaster: Forecaster, samples: Samples) -> None:
    for horizon_s, moves in zip(forecaster.horizons_s, samples.moves.T, strict=True):
        if np.isnan(moves).all():
            raise SignalError(f"--hours: expected labels at the horizon {horizon_s:g} s, got none; give longer hours")


def _trend(forecaster: Forecaster, samples: Samples, name: str, blocks: Ints) -> list[Floats]:
    """Block statistics by horizon."""
    labels = classify(samples.moves, forecaster.thresholds_ticks)
    forecasts = forecaster.forecasts(name, samples.inputs, samples.past)
    return [block_statistics(labels[:, horizon], forecasts, horizon, blocks) for horizon in range(labels.shape[1])]


def _fill(forecaster: Forecaster, samples: Samples, name: str, blocks: Ints) -> list[Floats]:
    """Block statistics by horizon, of both sides together."""
    filled = sides(forecaster.fill.forecasts(name, samples.inputs.features, samples.past_fills))
    labels = sides(samples.fills)
    classes = np.where(np.isnan(labels), NO_LABEL, labels).astype(np.int64)
    probabilities = np.stack([1 - filled, filled], axis=2)
    balanced = (filled > forecaster.fill.shares).astype(np.int64)
    if name == FILL.baselines[1]:
        balanced = (sides(samples.past_fills) == 1).astype(np.int64)
    forecasts = Forecasts(probabilities, probabilities.argmax(axis=2), balanced)
    return [
        block_statistics(classes[:, horizon], forecasts, horizon, np.tile(blocks, 2))
        for horizon in range(labels.shape[1])
    ]


def _volume(forecaster: Forecaster, samples: Samples, name: str, blocks: Ints) -> list[Floats]:
    """Block statistics by horizon."""
    standardised = forecaster.standardise(samples.inputs.features)
    forecasts = forecaster.volume.forecasts(name, standardised, samples.past_volumes)
    means = forecaster.volume.means.tolist()
    return [
        volume_statistics(samples.volumes[:, horizon], forecasts[:, horizon], mean, blocks)
        for horizon, mean in enumerate(means)
    ]
