"""The accounts of the agents of N environments: wealth at the mid, inventory and drawdown over an episode. Amounts are in ticks x lots."""

from typing import Any

import numpy as np

from serl.exchange.records import MICRO, Rows

SECOND_NS = 1_000_000_000


def two_sided_mids(frames: Rows) -> Any:
    """Mids in ticks, in the shape of the frames; NaN where a side is empty."""
    bid, ask = frames["bid_ticks"][..., 0], frames["ask_ticks"][..., 0]
    return np.where((bid > 0) & (ask > 0), (bid + ask) / 2.0, np.nan)


def known_mids(frames: Rows) -> Any:
    """Like `two_sided_mids`, but the only price where one side is empty, and 0 where both are."""
    only = frames["bid_ticks"][..., 0] + frames["ask_ticks"][..., 0]  # an empty side is 0
    two_sided = two_sided_mids(frames)
    return np.where(np.isnan(two_sided), only, two_sided)


def _total(values: Any) -> Any:
    """(N,) sums over symbols."""
    return values.reshape(len(values), -1).sum(1)


class Ledger:
    """Follows the wealth of each agent over its episode.

    Frames, positions and lots are of shape (N,), or (N, S) if agents trade S symbols; lots are added over symbols.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        count = shape[0]
        self.mid = np.zeros(shape)
        self.wealth, self.peak, self.drawdown = (np.zeros(count) for _ in range(3))
        self.turnover, self.absolute, self.squared_change, self.steps = (np.zeros(count) for _ in range(4))
        self.inventory_most = np.zeros(count)

    def begin(self, which: Any, frames: Rows) -> None:
        """Starts episodes without position or profit."""
        self.mid[which] = known_mids(frames[which])
        for values in (
            self.wealth, self.peak, self.drawdown, self.turnover, self.absolute, self.squared_change, self.steps, self.inventory_most,
        ):  # fmt: skip
            values[which] = 0.0

    def record(self, frames: Rows, positions: Rows, lots: Any) -> Any:
        """Records a step; returns the (N,) changes of wealth. lots: lots that we traded. Where there is no mid, the last one counts."""
        now = two_sided_mids(frames)
        last = np.where(self.mid > 0, self.mid, known_mids(frames))
        self.mid = np.where(np.isnan(now), last, now)
        wealth = _total(positions["cash"] + positions["lots"] * self.mid - positions["fee_microticks"] / MICRO)
        change = wealth - self.wealth
        self.wealth = wealth
        self.peak = np.maximum(self.peak, wealth)
        self.drawdown = np.maximum(self.drawdown, self.peak - wealth)
        self.turnover += _total(lots)
        self.absolute += _total(np.abs(positions["lots"]))
        self.hold(positions)
        self.squared_change += change**2
        self.steps += 1
        return change

    def hold(self, positions: Rows) -> None:
        """Records positions as they are before the trades that end a window."""
        self.inventory_most = np.maximum(self.inventory_most, _total(np.abs(positions["lots"])))

    def results(self, positions: Rows) -> dict[str, Any]:
        """(N,) values of each episode so far: profit and drawdown (ticks x lots); turnover, mean and largest inventory, and what is left (lots); the
        Sharpe ratio of the steps times the root of their number."""
        steps = np.maximum(1.0, self.steps)
        mean = self.wealth / steps
        deviation = np.sqrt(np.maximum(0.0, self.squared_change / steps - mean**2))
        sharpe = np.divide(mean, deviation, out=np.zeros_like(mean), where=deviation > 0) * np.sqrt(steps)
        return {
            "profit": self.wealth.copy(), "drawdown": self.drawdown.copy(), "turnover_lots": self.turnover.copy(),
            "inventory_mean_lots": self.absolute / steps, "inventory_most_lots": self.inventory_most.copy(),
            "left_lots": _total(np.abs(positions["lots"])).astype(float), "sharpe": sharpe,
        }  # fmt: skip
