"""A forecaster and its baselines on some hours: scores, differences, and what they say."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from serl.agents.signals.errors import SignalError
from serl.agents.signals.forecaster import BASELINES, MODELS, Forecaster
from serl.agents.signals.grid import Floats
from serl.agents.signals.labels import NAMES, classify
from serl.agents.signals.samples import Samples
from serl.agents.signals.scores import MEASURES, Score, block_seconds, block_statistics, number_blocks, score
from serl.agents.students_t import expanded

F1, ACCURACY, BRIER, ECE = range(4)
BLOCKS_MIN = 4
ROWS = (*BASELINES, *MODELS)


@dataclass(frozen=True)
class Difference:
    """A measure of a model minus that of a baseline, on the same resampled blocks."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """Scores by (number of the horizon, name of the model or baseline)."""

    forecaster: Forecaster
    scores: dict[tuple[int, str], Score]
    blocks: int
    block_s: int

    def difference(self, horizon: int, model: str, baseline: str, number: int) -> Difference:
        """Of the measure with this number."""
        one, other = self.scores[horizon, model], self.scores[horizon, baseline]
        low, high = np.quantile((one.resampled - other.resampled)[:, number], expanded(self.blocks))
        return Difference(float(one.values[number] - other.values[number]), float(low), float(high))

    def to_json(self) -> list[dict[str, Any]]:
        """All scores, and the differences from both baselines, by horizon and model."""
        return [self._row(horizon, name) for horizon, name in self.scores]

    def _row(self, horizon: int, name: str) -> dict[str, Any]:
        found = self.scores[horizon, name]
        row: dict[str, Any] = {
            "horizon_s": self.forecaster.horizons_s[horizon], "model": name, "forecasts": found.count,
            "label_shares": dict(zip(NAMES, found.shares.tolist(), strict=True)),
        }  # fmt: skip
        for number, measure in enumerate(MEASURES):
            row[measure] = _interval(found.values, found.low, found.high, number)
            if name in MODELS:
                row[measure]["minus"] = {
                    baseline: vars(self.difference(horizon, name, baseline, number)) for baseline in BASELINES
                }
        if name in MODELS:
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
    """Scores all models and baselines. SignalError if the hours have too few blocks to resample."""
    block_s = block_seconds(forecaster.horizons_s)
    blocks = number_blocks(samples.day, samples.time_ns, block_s)
    count = int(blocks.max()) + 1
    if count < blocks_min:
        raise SignalError(
            f"--hours: expected {blocks_min} or more blocks of {block_s} s to resample, got {count}; give longer hours"
        )
    scores = {}
    forecasts = {name: forecaster.forecasts(name, samples.features, samples.past) for name in ROWS}
    for horizon, threshold in enumerate(forecaster.thresholds_ticks):
        labels = classify(samples.moves[:, horizon], float(threshold))
        if (labels < 0).all():
            raise SignalError(
                f"--hours: expected labels at the horizon {forecaster.horizons_s[horizon]:g} s, got none; give longer hours"
            )
        for name in ROWS:
            scores[horizon, name] = score(block_statistics(labels, forecasts[name], horizon, blocks), bootstraps, seed)
            on_score()
    return Evaluation(forecaster, scores, count, block_s)


def conclusions(found: Evaluation) -> list[str]:
    """What the scores of the chosen model say, in sentences."""
    model, said = found.forecaster.model, []
    for horizon, seconds in enumerate(found.forecaster.horizons_s):
        best = max(BASELINES, key=lambda name: found.scores[horizon, name].values[F1])
        closest = min(BASELINES, key=lambda name: found.scores[horizon, name].values[BRIER])
        f1, brier = found.difference(horizon, model, best, F1), found.difference(horizon, model, closest, BRIER)
        said.append(
            f"{seconds:g} s: macro F1 of the {model} forecast {_verdict(f1.low > 0, f1.high < 0)} that of {best} "
            f"({f1.value:+.3f} [{f1.low:+.3f}, {f1.high:+.3f}]), its Brier score {_verdict(brier.high < 0, brier.low > 0)} that of "
            f"{closest} ({brier.value:+.4f} [{brier.low:+.4f}, {brier.high:+.4f}])."
        )
    return said


def _verdict(better: bool, worse: bool) -> str:
    return "is better than" if better else "is worse than" if worse else "does not differ clearly from"
