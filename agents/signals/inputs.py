"""The inputs of forecasts."""

from typing import NamedTuple

import numpy as np

from serl.agents.signals.books import WINDOW, channels
from serl.agents.signals.features import day_features
from serl.agents.signals.grid import Bools, Floats, Grid, Ints, Singles


class Inputs(NamedTuple):
    """The inputs of n forecasts."""

    features: Floats
    """[n, feature]"""
    books: Singles
    """[m, channel] rows of books.py."""
    last: Ints
    """[n] the row of `books` at the time of each forecast; at least WINDOW - 1 rows of the same day come before it."""

    def chosen(self, rows: Bools | Ints | slice) -> "Inputs":
        """The inputs of some of the forecasts."""
        return self._replace(features=self.features[rows], last=self.last[rows])

    def windows(self, rows: Ints | slice) -> Singles:
        """[n, WINDOW, channel] the rows that some of the forecasts see."""
        return np.asarray(self.books[self.last[rows, np.newaxis] + np.arange(1 - WINDOW, 1)])


def day_inputs(grid: Grid) -> tuple[Inputs, Bools]:
    """(inputs at the times of a day whose features are known, [n] whether they are known at each time)."""
    features = day_features(grid)
    known: Bools = np.asarray(np.isfinite(features).all(axis=1))
    books = channels(grid.ticks, grid.lots, grid.buys, grid.sells).astype(np.float32)
    return Inputs(features[known], books, np.flatnonzero(known)), known


def join_inputs(parts: list[Inputs]) -> Inputs:
    """Inputs of several days as one."""
    starts = np.cumsum([0, *(len(part.books) for part in parts[:-1])])
    last = np.concatenate([part.last + start for part, start in zip(parts, starts, strict=True)])
    return Inputs(
        np.concatenate([part.features for part in parts]), np.concatenate([part.books for part in parts]), last
    )
