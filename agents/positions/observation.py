"""The observations of an agent with a position: the book, its moves, and the inventory. All values are clipped to [-10, 10]."""

from typing import Any, Protocol

import numpy as np

from serl.exchange.records import Rows

WINDOW, MEMORY, LEVELS = 10, 50, 5


def market_features(spread_unit: str, lots_unit: str) -> tuple[str, ...]:
    """Names of the numbers that an `Observer` returns, with the names of its units."""
    return (
        "share of the window that is left",
        "inventory / its limit",
        f"spread / {spread_unit}",
        "log(bid lots / ask lots) at the touch",
        "(bid lots - ask lots) / their sum, of five levels",
        "change of the mid in the last interval, ticks",
        "change of the mid in the last ten intervals, ticks",
        "root of the mean squared change of the mid, with a memory of fifty intervals, ticks",
        f"lots bought minus sold by takers in the last interval / {lots_unit}",
        f"log(1 + lots traded in the last interval / {lots_unit})",
    )


class Observing(Protocol):
    """Makes the observations of an environment. Mids have the shape of the frames."""

    def begin(self, which: Any, mid: Any) -> None:
        """Forgets the past of environments `which`."""

    def record(self, mid: Any) -> None:
        """Takes a step in."""

    def observe(self, frames: Rows, positions: Rows, mid: Any, share_left: Any) -> Any:
        """(N, features) float32."""


class Observer:
    """Makes the observations of N environments; keeps the past that they need."""

    def __init__(self, count: int, inventory_lots_max: int, spread_ticks: float, unit_lots: int) -> None:
        self._limit_lots, self._spread_ticks, self._unit_lots = inventory_lots_max, spread_ticks, unit_lots
        self._mids = np.zeros((count, WINDOW + 1))
        self._variance = np.zeros(count)

    def begin(self, which: Any, mid: Any) -> None:
        """Forgets the past of environments `which`."""
        self._mids[which] = mid[which, None]
        self._variance[which] = 0.0

    def record(self, mid: Any) -> None:
        """Takes a step in."""
        self._mids = np.concatenate([self._mids[:, 1:], mid[:, None]], 1)
        change = self._mids[:, -1] - self._mids[:, -2]
        self._variance += (change**2 - self._variance) / MEMORY

    @property
    def moves_ticks(self) -> Any:
        """(N,) changes of the mid in the last ten intervals, or since the window began."""
        return self._mids[:, -1] - self._mids[:, 0]

    def observe(self, frames: Rows, positions: Rows, mid: Any, share_left: Any) -> Any:
        """(N, features) float32."""
        values = self.values(frames, positions, mid, share_left)
        return np.clip(np.stack(values, 1), -10.0, 10.0).astype(np.float32)

    def values(self, frames: Rows, positions: Rows, _mid: Any, share_left: Any) -> list[Any]:
        """(N,) each, in the order of `market_features`."""
        bid_lots, ask_lots = frames["bid_lots"].astype(float), frames["ask_lots"].astype(float)
        bids, asks = bid_lots[:, :LEVELS].sum(1), ask_lots[:, :LEVELS].sum(1)
        spread = np.maximum(0, frames["ask_ticks"][:, 0] - frames["bid_ticks"][:, 0])
        return [
            share_left,
            positions["lots"] / self._limit_lots,
            spread / self._spread_ticks,
            np.log((1 + bid_lots[:, 0]) / (1 + ask_lots[:, 0])),
            (bids - asks) / np.maximum(1.0, bids + asks),
            self._mids[:, -1] - self._mids[:, -2],
            self.moves_ticks,
            np.sqrt(self._variance),
            frames["signed_lots"] / self._unit_lots,
            np.log1p(frames["traded_lots"] / self._unit_lots),
        ]
