"""The observations of a market maker: the market, its inventory, and its quotes. All values are clipped to [-10, 10]."""

from typing import Any

import numpy as np

from serl.agents.making.config import MakingConfig
from serl.agents.positions.observation import Observer, market_features
from serl.exchange.kernel.state import ASK, BID
from serl.exchange.records import Rows

FEATURES = (
    *market_features("offset_ticks", "quote_lots"),
    "distance of our bid from the mid / offset_ticks, 0 without one",
    "distance of our ask from the mid / offset_ticks, 0 without one",
)


class MakingObserver(Observer):
    """Observes the market's features and the distances of the quotes."""

    def __init__(self, count: int, config: MakingConfig) -> None:
        super().__init__(count, config.inventory_lots_max, config.offset_ticks, config.quote_lots)
        self._offset_ticks = config.offset_ticks

    def values(self, frames: Rows, positions: Rows, mid: Any, share_left: Any) -> list[Any]:
        """(N,) each, in the order of FEATURES."""
        quoted = positions["price_ticks"] > 0
        distances = np.stack([mid - positions["price_ticks"][:, BID], positions["price_ticks"][:, ASK] - mid], 1)
        in_offsets = np.where(quoted, distances, 0.0) / self._offset_ticks
        return [*super().values(frames, positions, mid, share_left), *in_offsets.T]
