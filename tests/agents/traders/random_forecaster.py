"""A forecaster that nothing was trained on: numbers at random, of the size of trained ones."""

from typing import Any

import numpy as np

from serl.agents.signals.attention import Attention, shapes
from serl.agents.signals.books import CHANNELS
from serl.agents.signals.features import NAMES
from serl.agents.signals.fill import FillModel
from serl.agents.signals.forecaster import MODELS, Forecaster, Training
from serl.agents.signals.labels import CLASSES
from serl.agents.signals.volume import VolumeModel

HORIZONS_S = (1.0, 10.0, 60.0)


def random_forecaster(
    model: str = "network", symbol: str = "DEMO", hidden: int = 32, log_loss: tuple[float, float] = (1.0, 1.0)
) -> Forecaster:
    """log_loss: on what calibrated, of the logistic regression and of the network."""
    random, features, outputs = np.random.default_rng(1), len(NAMES), len(HORIZONS_S) * CLASSES

    def layer(n_in: int, n_out: int) -> Any:
        return random.normal(0, n_in**-0.5, (n_in, n_out)), random.normal(0, 0.1, n_out)

    horizons = len(HORIZONS_S)
    return Forecaster(
        symbol=symbol, horizons_s=HORIZONS_S, thresholds_ticks=np.zeros(horizons), centre=random.normal(0, 0.3, features),
        scale=random.uniform(0.5, 2, features), shares=np.full((horizons, CLASSES), 1 / CLASSES),
        after=np.full((horizons, CLASSES, CLASSES), 1 / CLASSES), weights=random.normal(0, 0.2, (horizons, features + 1, CLASSES)),
        layers=[layer(features, hidden), layer(hidden, hidden), layer(hidden, outputs)],
        temperatures={name: random.uniform(0.7, 1.5, horizons) for name in MODELS}, model=model,
        attention=Attention(
            np.zeros(len(CHANNELS)), np.ones(len(CHANNELS)), {name: np.zeros(shape, np.float32) for name, shape in shapes(horizons).items()}
        ),
        volume=VolumeModel(
            random.uniform(1, 100, horizons), random.uniform(0, 1, (horizons, 2)), random.normal(0, 0.2, (horizons, features + 1))
        ),
        fill=FillModel(
            np.full(horizons, 0.1), np.full((horizons, 2), 0.1), random.normal(0, 0.3, features), random.uniform(0.5, 2, features),
            random.normal(0, 0.2, (horizons, features + 1)), random.uniform(0.7, 1.5, horizons),
        ),
        training=Training((0, 1), ("random",), 1, (1, 1), dict(zip(MODELS, (*log_loss, 2.0), strict=True))),
    )  # fmt: skip
