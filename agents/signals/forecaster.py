"""A trained forecaster: its models, their training, and its file."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from serl.agents.realism.days import day_origin
from serl.agents.signals.attention import Attention
from serl.agents.signals.books import CHANNELS, WINDOW
from serl.agents.signals.errors import SignalError
from serl.agents.signals.features import NAMES, standardise
from serl.agents.signals.fill import FillModel
from serl.agents.signals.grid import STEP_S, Floats
from serl.agents.signals.inputs import Inputs
from serl.agents.signals.labels import CLASSES, FLAT, NO_LABEL, Classes, classify
from serl.agents.signals.logistic import softmax
from serl.agents.signals.network import Layers, network_logits
from serl.agents.signals.volume import VolumeModel
from serl.clients.instrument import Instrument
from serl.exchange.atomic_file import atomic_file
from serl.history.day import Day, SymbolReference

FORMAT, VERSION = "serl signals", 2
MAJORITY, LAST, LOGISTIC, NETWORK, ATTENTION = "majority", "last move", "logistic", "network", "attention"
BASELINES, MODELS = (MAJORITY, LAST), (LOGISTIC, NETWORK, ATTENTION)
HORIZON_MAX_S = 3600.0
NO_SIZES = "", ""
SHA256 = re.compile(r"sha256 ([0-9a-f]{16})")
"""Matches the checksums in the text of `day_origin`."""


class Forecasts(NamedTuple):
    """n forecasts of the trend at H horizons."""

    probabilities: Floats
    """[n, H, class]"""
    probable: Classes
    """[n, H] the most probable class."""
    balanced: Classes
    """[n, H] the most probable class relative to its share in the fitted samples; for a baseline, the class that it forecasts."""


@dataclass(frozen=True)
class Training:
    """What a forecaster was trained on."""

    hours: tuple[int, int]
    """Nanoseconds after midnight: start, end."""
    days: tuple[str, ...]
    """Sources of the days, with checksums."""
    seed: int
    samples: tuple[int, int]
    """Numbers of samples for fitting and for calibration."""
    log_loss: dict[str, float]
    """Mean log loss of all horizons on the calibration samples, by model."""
    scores: list[dict[str, Any]] = field(default_factory=list)
    """Scores in the training hours, by target, horizon and model."""
    dates: tuple[str, ...] = ()
    """Dates of the days, YYYY-MM-DD; "" for a day without a date."""
    sizes: tuple[str, str] = NO_SIZES
    """Tick size and lot size of the symbol on these days; NO_SIZES if the file does not say, as those of earlier versions."""


@dataclass(frozen=True)
class Forecaster:
    """A forecaster with H horizons, F features, and the classes down, flat, up."""

    symbol: str
    horizons_s: tuple[float, ...]
    thresholds_ticks: Floats
    """[H] the largest absolute move that is flat."""
    centre: Floats
    """[F] mean of the fitted features."""
    scale: Floats
    """[F] their standard deviation."""
    shares: Floats
    """[H, class] shares of the fitted labels."""
    after: Floats
    """[H, last class, class] shares of the labels after a last move down, flat and up."""
    weights: Floats
    """[H, F + 1, class] weights of the logistic regression, intercepts last."""
    layers: Layers
    """Layers of the network."""
    attention: Attention
    temperatures: dict[str, Floats]
    """[H] temperatures, by model."""
    model: str
    """The one of MODELS with the smallest log loss on the calibration samples."""
    volume: VolumeModel
    fill: FillModel
    training: Training

    def was_trained_on(self, day: Day, hours: tuple[int, int]) -> bool:
        """Whether the forecaster was trained on any of these hours (ns after midnight) of a day. A day is identified by the checksum of any of its files,
        or by its symbol and date, because its name and format may have changed."""
        trained, (start, end), date = self.training, self.training.hours, day.reference.date
        sums = {one for origin in trained.days for one in SHA256.findall(origin)}
        origin = day_origin(day)
        same = origin in trained.days or not sums.isdisjoint(SHA256.findall(origin))
        same |= date != "" and date in trained.dates and any(one.name == self.symbol for one in day.reference.symbols)
        return same and hours[0] < end and start < hours[1]

    def require_sizes(self, reference: SymbolReference | Instrument, where: str) -> None:
        """Raises SignalError, which names where, if a symbol's ticks or lots are of another size than in the training: features and forecasts count in
        them."""
        (tick_size, lot_size), used = self.training.sizes, (str(reference.tick_size), str(reference.lot_size))
        trained = SymbolReference(self.symbol, tick_size, lot_size)
        if tick_size and trained.differing_size(SymbolReference(reference.name, *used)):
            raise SignalError(
                f"{where}: expected a tick size of {tick_size} and a lot size of {lot_size}, with which the forecaster was trained, got "
                f"{' and '.join(used)}; train one on days of these sizes"
            )

    def standardise(self, features: Floats) -> Floats:
        """[n, F] standardised features, the input of the models."""
        return standardise(features, self.centre, self.scale)

    def logits(self, model: str, inputs: Inputs) -> Floats:
        """[n, H, class] logits of one of MODELS before calibration."""
        standardised = self.standardise(inputs.features)
        if model == ATTENTION:
            return self.attention.logits(inputs, standardised)
        if model == NETWORK:
            return network_logits(self.layers, standardised)
        return (standardised @ self._slopes).reshape(len(standardised), len(self.weights), CLASSES) + self.weights[
            :, -1
        ]

    @cached_property
    def _slopes(self) -> Floats:
        return np.concatenate(list(self.weights[:, :-1]), axis=1)

    def probabilities(self, inputs: Inputs, model: str | None = None) -> Floats:
        """[n, H, class] calibrated probabilities of the trend, by default from the chosen model."""
        name = model or self.model
        return softmax(self.logits(name, inputs) / self.temperatures[name][:, np.newaxis])

    def forecasts(self, name: str, inputs: Inputs, past: Floats) -> Forecasts:
        """Forecasts of the trend by a model or a baseline, for past moves [n, H] over the last horizon."""
        if name == LAST:
            last = classify(past, self.thresholds_ticks)
            last = np.where(last == NO_LABEL, FLAT, last)
            return Forecasts(self.after[np.arange(len(self.horizons_s)), last], last, last)
        if name == MAJORITY:
            probabilities = np.broadcast_to(self.shares, (len(past), *self.shares.shape))
            return Forecasts(probabilities, probabilities.argmax(axis=2), probabilities.argmax(axis=2))
        probabilities = self.probabilities(inputs, name)
        return Forecasts(probabilities, probabilities.argmax(axis=2), (probabilities / self.shares).argmax(axis=2))

    def volumes(self, features: Floats) -> Floats:
        """[n, H] expected lots traded until each horizon, for features [n, F]."""
        return self.volume.expected(self.standardise(features))

    def fills(self, features: Floats) -> Floats:
        """[n, H, side] probabilities that an order that joins the queue at the touch is filled until each horizon, for features [n, F]."""
        return self.fill.probabilities(features)

    def write(self, path: Path) -> None:
        """Writes a JSON file. Raises UnwritableFileError if the folder is not writable."""
        known = {"format": FORMAT, "version": VERSION, "features": NAMES, "channels": CHANNELS, "window": WINDOW}
        values = known | {"step_s": STEP_S} | asdict(self)
        with atomic_file(path) as file:
            file.write((json.dumps(values, default=np.ndarray.tolist, allow_nan=False) + "\n").encode())


def check_horizons(horizons_s: Sequence[float]) -> tuple[float, ...]:
    """Returns the horizons. Raises SignalError unless they are distinct multiples of 0.1 s up to an hour."""
    tenths = [0 if not 0 < one <= HORIZON_MAX_S else round(one / STEP_S) for one in horizons_s]
    good = all(near > 0 and abs(near * STEP_S - one) < 1e-6 for near, one in zip(tenths, horizons_s, strict=True))
    if not 1 <= len(tenths) <= 20 or len(set(tenths)) < len(tenths) or not good:
        given = ",".join(f"{one:g}" for one in horizons_s)
        raise SignalError(
            f"--horizons: expected different multiples of {STEP_S} s up to {HORIZON_MAX_S:g}, got {given[:80]}; give some like 1,10,60"
        )
    return tuple(one / 10 for one in tenths)
