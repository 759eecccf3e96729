"""What a market maker observes: the book, how it moved, its inventory and its quotes. All values are clipped to [-10, 10]."""

from typing import Any

import numpy as np

from serl.agents.making.config import MakingConfig
from serl.exchange.kernel.state import ASK, BID
from serl.exchange.records import Rows

FEATURES = (
    "share of the window that is left",
    "inventory / its limit",
    "spread / offset_ticks",
    "log(bid lots / ask lots) at the touch",
    "(bid lots - ask lots) / their sum, of five levels",
    "change of the mid in the last interval, ticks",
    "change of the mid in the last ten intervals, ticks",
    "root of the mean squared change of the mid, with a memory of fifty intervals, ticks",
    "lots bought minus sold by takers in the last interval / quote_lots",
    "log(1 + lots traded in the last interval / quote_lots)",
    "distance of our bid from the mid / offset_ticks, 0 without one",
    "distance of our ask from the mid / offset_ticks, 0 without one",
)
WINDOW, MEMORY, LEVELS = 10, 50, 5


class Observer:
    """Makes the observations of N environments; keeps what they need of the past."""

    def __init__(self, count: int, config: MakingConfig) -> None:
        self._config = config
        self._mids = np.zeros((count, WINDOW + 1))
        self._variance = np.zeros(count)

    def begin(self, which: Any, mid: Any) -> None:
        """Forgets the past of environments `which`."""
        self._mids[which] = mid[which, None]
        self._variance[which] = 0.0

    def record(self, frames: Rows, mid: Any) -> None:
        """Takes a step in."""
        self._mids = np.concatenate([self._mids[:, 1:], mid[:, None]], 1)
        change = self._mids[:, -1] - self._mids[:, -2]
        self._variance += (change**2 - self._variance) / MEMORY

    def observe(self, frames: Rows, positions: Rows, mid: Any, share_left: Any) -> Any:
        """(N, FEATURES) float32."""
        config = self._config
        bid_lots, ask_lots = frames["bid_lots"].astype(float), frames["ask_lots"].astype(float)
        bids, asks = bid_lots[:, :LEVELS].sum(1), ask_lots[:, :LEVELS].sum(1)
        spread = np.maximum(0, frames["ask_ticks"][:, 0] - frames["bid_ticks"][:, 0])
        quoted = positions["price_ticks"] > 0
        distances = np.stack([mid - positions["price_ticks"][:, BID], positions["price_ticks"][:, ASK] - mid], 1)
        values = [
            share_left,
            positions["lots"] / config.inventory_lots_max,
            spread / config.offset_ticks,
            np.log((1 + bid_lots[:, 0]) / (1 + ask_lots[:, 0])),
            (bids - asks) / np.maximum(1.0, bids + asks),
            self._mids[:, -1] - self._mids[:, -2],
            self._mids[:, -1] - self._mids[:, 0],
            np.sqrt(self._variance),
            frames["signed_lots"] / config.quote_lots,
            np.log1p(frames["traded_lots"] / config.quote_lots),
            *(np.where(quoted, distances, 0.0) / config.offset_ticks).T,
        ]
        return np.clip(np.stack(values, 1), -10.0, 10.0).astype(np.float32)
