"""The markets of `serl train` for benchmarks, with the settings of configs/training: bars, the replay of a book, and simulated traders who react."""

from pathlib import Path

import numpy as np

from benchmarks.environments import BARS, DAYS, MINUTE_NS, OPEN_NS, random_bars, recorded_day
from serl.agents.execution.bar_files import BarTable
from serl.agents.execution.data import TRAIN, Dataset, Part
from serl.agents.execution.environment.episodes import Hours
from serl.agents.learning.environments import Scenario
from serl.agents.learning.market_config import with_overrides
from serl.agents.learning.sources import Bars
from serl.agents.learning.training import TrainingConfig, load_config

NAMES = ("bars", "replay", "dynamic")
BAR_VOLUME_LOTS_PER_S = 300.0
BOOK_HOURS = "10:00-15:50"


def _bars() -> Dataset:
    """Days of a random walk, all for training."""
    dates = tuple(f"day {day}" for day in range(DAYS))
    table = BarTable(random_bars(), ("WALK",), dates, np.zeros(DAYS, np.int64), np.arange(DAYS), {})
    close_ns = OPEN_NS + BARS * MINUTE_NS
    hours = tuple(Hours(day, OPEN_NS, close_ns, BAR_VOLUME_LOTS_PER_S) for day in range(DAYS))
    return Dataset("random walk", "", {}, {TRAIN: Part(hours, ("WALK",), dates)}, table)


def open_market(name: str) -> tuple[TrainingConfig, Scenario]:
    """The shipped settings of this name and their market. Its environments share the market, so one must be reset before it runs again."""
    config = load_config(Path(name))
    if name == "bars":
        return config, Scenario(config.market, source=Bars(config.market, _bars()))
    if name == "replay":
        market = with_overrides(config.market, {"hours": BOOK_HOURS})
        return config, Scenario(market, [recorded_day()[1]])
    return config, Scenario(config.market)
