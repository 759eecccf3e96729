"""The observations of an agent that trades a pair: both markets, its position, and the spread. All values are clipped to [-10, 10]."""

from typing import Any

import numpy as np

from serl.agents.pairs.market import SYMBOLS
from serl.agents.pairs.spread import Spread
from serl.agents.positions.observation import Observer, market_features
from serl.agents.positions.targets import SPREAD_TICKS
from serl.exchange.records import Rows

SHARED = 1
"""Number of features that are the same in both markets: the time."""
_MARKET = market_features(f"{SPREAD_TICKS:g} ticks", "inventory_lots_max")
FEATURES = (
    *_MARKET[:SHARED],
    *(f"{symbol}: {name}" for symbol in ("first", "second") for name in _MARKET[SHARED:]),
    "deviation of the spread of the mids from its mean / its standard deviation",
    "change of the same in the last ten intervals",
)


class PairObserver:
    """See `Observing`. `z` is the observed deviation of the spread."""

    def __init__(self, count: int, inventory_lots_max: int, spread: Spread) -> None:
        self._spread = spread
        self._symbols = [Observer(count, inventory_lots_max, SPREAD_TICKS, inventory_lots_max) for _ in range(SYMBOLS)]
        self.z = np.zeros(count)

    def begin(self, which: Any, mid: Any) -> None:
        """Forgets the past of environments `which`."""
        for symbol, observer in enumerate(self._symbols):
            observer.begin(which, mid[:, symbol])
        self.z[which] = self._spread.z(mid[which])

    def record(self, mid: Any) -> None:
        """Records a step."""
        for symbol, observer in enumerate(self._symbols):
            observer.record(mid[:, symbol])
        self.z = self._spread.z(mid)

    def observe(self, frames: Rows, positions: Rows, mid: Any, share_left: Any) -> Any:
        """(N, features) float32."""
        parts = [
            one.observe(frames[:, symbol], positions[:, symbol], mid[:, symbol], share_left)
            for symbol, one in enumerate(self._symbols)
        ]
        moves = np.stack([one.moves_ticks for one in self._symbols], 1)
        change = (moves[:, 1] - self._spread.hedge_ratio * moves[:, 0]) / self._spread.deviation_ticks
        spread = np.clip(np.stack([self.z, change], 1), -10.0, 10.0)
        return np.concatenate([parts[0], parts[1][:, SHARED:], spread], 1, dtype=np.float32)
