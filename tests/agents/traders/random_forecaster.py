"""A forecaster that nothing was trained on: numbers at random, of the size of trained ones."""

from typing import Any

import numpy as np

from serl.agents.signals.features import NAMES
from serl.agents.signals.forecaster import Forecaster, Training
from serl.agents.signals.labels import CLASSES

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
        temperatures={name: random.uniform(0.7, 1.5, horizons) for name in ("logistic", "network")}, model=model,
        training=Training((0, 1), ("random",), 1, (1, 1), dict(zip(("logistic", "network"), log_loss, strict=True))),
    )  # fmt: skip
