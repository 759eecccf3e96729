"""A generated day, and a forecaster trained on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest

from serl.agents.realism.tape import SECOND_NS
from serl.agents.signals import attention_training, network
from serl.agents.signals.forecaster import Forecaster
from serl.agents.signals.grid import Fills, Flow, Grid, build_grid
from serl.agents.signals.samples import cut_samples
from serl.agents.signals.training import train_forecaster
from serl.history.day import Day
from serl.history.generate import generate_day
from tests.agents.realism.sample import TEN_NS

MINUTES = 30
HOURS = (TEN_NS, TEN_NS + 12 * 60 * SECOND_NS)
HORIZONS = (1.0, 5.0)


@cache
def day() -> Day:
    """Half an hour from 10:00 on."""
    return generate_day(1, "AMZN", start_ns=TEN_NS, end_ns=TEN_NS + MINUTES * 60 * SECOND_NS)


@cache
def grid() -> Grid:
    return build_grid(day())


@contextmanager
def few_epochs(epochs: int = 2) -> Iterator[None]:
    """The networks are trained for so many epochs: enough to be other than before, and to be the same again."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (attention_training, network):
            patch.setattr(module, "EPOCHS_MAX", epochs)
        yield


@cache
def forecaster() -> Forecaster:
    """Trained from 10:00 to 10:12."""
    samples = cut_samples(grid(), HOURS, HORIZONS)
    with few_epochs():
        return train_forecaster(samples, "AMZN", HORIZONS, HOURS, ("generated",), 1, sizes=("0.01", "1"))


def no_flow(count: int) -> Flow:
    """No trades at all."""
    return Flow(Fills(*np.zeros((5, 0), np.int64)), np.zeros(count, np.int64))
