"""The input features of forecasts: features of the book and of the flow before it, for a whole day at once or step by step.

Sums over windows are integers, so both ways give bitwise equal results.
"""

import numpy as np

from serl.agents.signals.grid import LEVELS, STEP_S, Bools, Floats, Grid, Ints, Singles

WINDOW_STEPS = (5, 20, 100, 600)
"""Windows of flows and moves, in steps of 100 ms."""
LONGEST = max(WINDOW_STEPS)
WINDOW_NAMES = tuple(f"{steps * STEP_S:g}s" for steps in WINDOW_STEPS)
PER_WINDOW = ("ofi", "trade_imbalance", "move_ticks", "path_ticks", "log_volume")
NAMES = (
    "spread_ticks", *(f"imbalance_{level + 1}" for level in range(LEVELS)), "weighted_mid_ticks",
    *(f"{name}_{window}" for name in PER_WINDOW for window in WINDOW_NAMES), "log_bid_lots", "log_ask_lots",
)  # fmt: skip
"""Names of the feature columns."""
SIGNED = ("imbalance", "weighted_mid", "ofi", "trade_imbalance", "move_ticks")
"""Prefixes of the names of features that change sign when buyers and sellers are exchanged."""
CLIP = 5.0
"""Limit to which standardised features are clipped."""
OFI, DEPTH, BUYS, SELLS, MOVE, PATH, UNKNOWN = range(7)
"""Columns of changes: order-flow imbalance, lots at both touches, lots that buyers and sellers took, twice the move of the mid and of its
absolute value, and whether the book before or after had no bid, no ask or no spread."""


def has_spread(ticks: Ints) -> Bools:
    """[n] whether a book has a bid below an ask."""
    return (ticks[:, 0, 0] > 0) & (ticks[:, 1, 0] > ticks[:, 0, 0])


def changes(ticks: Ints, lots: Ints, buys: Ints, sells: Ints) -> Ints:
    """[n - 1, column] changes from each book to the next.

    ticks, lots [n, side, level]; buys, sells [n]. The order-flow imbalance is that of Cont, Kukanov, Stoikov (2014), with books 100 ms apart
    instead of consecutive events.
    """
    (bid, ask), (bid_lots, ask_lots) = ticks[:, :, 0].T, lots[:, :, 0].T
    known = has_spread(ticks)
    up, down = bid[1:] >= bid[:-1], bid[1:] <= bid[:-1]
    ofi = up * bid_lots[1:] - down * bid_lots[:-1]
    up, down = ask[1:] >= ask[:-1], ask[1:] <= ask[:-1]
    ofi += up * ask_lots[:-1] - down * ask_lots[1:]
    move = np.diff(bid + ask)
    unknown = ~(known[1:] & known[:-1])
    return np.stack([ofi, bid_lots[1:] + ask_lots[1:], buys[1:], sells[1:], move, abs(move), unknown], axis=1)


def assemble(ticks: Ints, lots: Ints, windows: Ints) -> Floats:
    """[n, feature] features from books [n, side, level] and the sums of changes over windows [n, window, column]; NaN where a book was not known."""
    bid, ask = ticks[:, 0, 0], ticks[:, 1, 0]
    sums = np.cumsum(lots, axis=2)
    imbalance = (sums[:, 0] - sums[:, 1]) / np.maximum(1, sums[:, 0] + sums[:, 1])
    spread = (ask - bid).astype(np.float64)
    weighted_mid = imbalance[:, 0] * spread / 2
    steps = np.array(WINDOW_STEPS)
    ofi = 2 * steps * windows[:, :, OFI] / np.maximum(1, windows[:, :, DEPTH])
    buys, sells = windows[:, :, BUYS], windows[:, :, SELLS]
    trades = (buys - sells) / np.maximum(1, buys + sells)
    moves, paths = windows[:, :, MOVE] / 2, windows[:, :, PATH] / 2
    volumes, touch = np.log1p(buys + sells), np.log1p(lots[:, :, 0])
    columns = [spread[:, np.newaxis], imbalance, weighted_mid[:, np.newaxis], ofi, trades, moves, paths, volumes, touch]
    unknown = windows[:, -1, UNKNOWN] > 0
    return np.where(unknown[:, np.newaxis], np.nan, np.concatenate(columns, axis=1))


def scaling(values: Floats) -> tuple[Floats, Floats]:
    """(centre, scale) of the columns of [n, ..] values: mean and standard deviation, 1 where it is 0."""
    scale = values.std(axis=0)
    return values.mean(axis=0), np.where(scale > 0, scale, 1.0)


def standardise(features: Floats | Singles, centre: Floats, scale: Floats) -> Floats:
    """[n, feature] standardised features, the input of models: minus the centre, divided by the scale, clipped at CLIP."""
    return np.clip((features - centre) / scale, -CLIP, CLIP)


def mirrored(features: Floats) -> Floats:
    """[n, feature] features of the same markets with buyers and sellers exchanged."""
    return features[:, _MIRROR] * _SIGNS


_SIGNS = np.where([name.startswith(SIGNED) for name in NAMES], -1.0, 1.0)
_MIRROR = np.arange(len(NAMES))
_MIRROR[-2:] = len(NAMES) - 1, len(NAMES) - 2


def day_features(grid: Grid) -> Floats:
    """[n, feature] features of a day; NaN in the first LONGEST rows, and where a book of the longest window was not known."""
    found = np.full((len(grid.time_ns), len(NAMES)), np.nan)
    if len(grid.time_ns) > LONGEST:
        sums = np.zeros((len(grid.time_ns), UNKNOWN + 1), np.int64)
        np.cumsum(changes(grid.ticks, grid.lots, grid.buys, grid.sells), axis=0, out=sums[1:])
        now = sums[LONGEST:]
        windows = np.stack([now - sums[LONGEST - steps : len(sums) - steps] for steps in WINDOW_STEPS], axis=1)
        found[LONGEST:] = assemble(grid.ticks[LONGEST:], grid.lots[LONGEST:], windows)
    return found


class FeatureStream:
    """Computes the same features step by step, in constant memory."""

    def __init__(self) -> None:
        self._sums = np.zeros((LONGEST + 1, UNKNOWN + 1), np.int64)
        self._ticks = np.zeros((2, 2, LEVELS), np.int64)
        self._lots = np.zeros((2, 2, LEVELS), np.int64)
        self._before = np.array(WINDOW_STEPS)
        #: books since the start or the last `reset`
        self.count = 0

    def reset(self) -> None:
        """Forgets the past, after times without a book."""
        self.count = 0

    def push(self, ticks: Ints, lots: Ints, buys: int, sells: int) -> Floats | None:
        """Adds the book [side, level] 100 ms after the last one, and the lots taken since. Returns the features, or None while a window is incomplete."""
        self._ticks[0], self._lots[0] = self._ticks[1], self._lots[1]
        self._ticks[1], self._lots[1] = ticks, lots
        place = self.count % len(self._sums)
        if self.count == 0:
            self._sums[:] = 0
        else:
            taken = np.array([[0, buys], [0, sells]])
            self._sums[place] = self._sums[place - 1] + changes(self._ticks, self._lots, *taken)[0]
        self.count += 1
        if self.count <= LONGEST:
            return None
        windows = self._sums[place] - self._sums[(place - self._before) % len(self._sums)]
        found = assemble(self._ticks[1:], self._lots[1:], windows[np.newaxis])[0]
        return None if np.isnan(found).any() else found
