"""A reward for markets that react: the shortfall, without the market's own moves.

In a market that reacts, our orders move the mid. A reward measured against the mid of each decision, or against the VWAP of the same window,
charges little for this, so a policy learns to quote inside the spread and to push the price. `UndisturbedAdvantage` charges every move of the mid
on the remaining quantity, and subtracts the moves that the same market makes without us (a control variate):

    r_k = s (n_k - q_k m_k) / (Q m_0) + s (x_{k+1} (m_{k+1} - m_k) - y_{k+1} (u_{k+1} - u_k)) / (Q m_0) - c (x_{k+1} - y_{k+1})² / Q²

with u the mids without our orders, and the rest as in rewards.py. Summation by parts shows that the first two terms sum to s Σ q_k (n_k/q_k - m_0)
minus the same for even slices at the mids u. Without impact m = u, and the reward equals `ScheduleAdvantage`.
"""

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.environment.account import mids
from serl.agents.execution.environment.episodes import Hours
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.records import CHILD, EPISODE
from serl.agents.execution.environment.replay import ReplayMarket
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

if TYPE_CHECKING:
    from serl.agents.execution.environment.vector import ExecutionVectorEnv

SECOND_NS = 1_000_000_000


@dataclasses.dataclass(frozen=True)
class UndisturbedMids:
    """Mids in the market without our orders, for each stretch of hours at multiples of the decision interval after its start."""

    days: NDArray[np.int64]
    """(d,) day of each stretch, not decreasing: a day may have several stretches, whose starts need not be multiples of the interval apart."""
    starts_ns: NDArray[np.int64]
    """(d,) start of each stretch, increasing within a day."""
    interval_ns: int
    ticks: NDArray[np.float64]
    """(d, t) mids; the last known mid where a book is empty, NaN after the end of a stretch."""

    def at(self, episodes: Rows, step: Any) -> Any:
        """(n,) mids at decision `step` (n,) of EPISODE rows. Raises ConfigError for an order that does not start at an interval of its hours."""
        row, last = (np.searchsorted(self.days, episodes["day"], side) for side in ("left", "right"))
        for _ in range(self._later_stretches):
            following = np.minimum(row + 1, last - 1)
            row = np.where(self.starts_ns[following] <= episodes["start_ns"], following, row)
        first, between = np.divmod(episodes["start_ns"] - self.starts_ns[row], self.interval_ns)
        if np.any(between):
            raise ConfigError(
                f"reward undisturbed: expected orders that begin at a multiple of {self.interval_ns / SECOND_NS:g} s after their hours do, "
                f"got one {between.max() / SECOND_NS:g} s later; draw orders from the hours of the reward"
            )
        return self.ticks[row, first + step]

    @cached_property
    def _later_stretches(self) -> int:
        """Number of stretches after the first, for the day with the most stretches."""
        return int(np.unique(self.days, return_counts=True)[1].max()) - 1

    @classmethod
    def run(cls, market: ExecutionMarket, hours: Sequence[Hours], interval_s: float) -> "UndisturbedMids":
        """Runs the market through all hours without our orders, as many stretches at a time as there are books."""
        interval_ns = round(interval_s * SECOND_NS)
        stretches = sorted({(one.day, one.start_ns, one.end_ns) for one in hours})
        days, starts, ends = (np.array(column) for column in zip(*stretches, strict=True))
        episodes = np.zeros(len(days), EPISODE)
        episodes["day"], episodes["sign"], episodes["qty_lots"] = days, 1, hours[0].lot_multiple
        episodes["start_ns"], episodes["interval_ns"] = starts, interval_ns
        episodes["steps"] = (ends - starts) // interval_ns
        ticks = np.full((len(days), int(episodes["steps"].max()) + 1), np.nan)
        agents = market.agents if isinstance(market, ReplayMarket) else 1
        books = market.count // agents
        for first in range(0, len(days), books):
            rows = np.arange(first, min(first + books, len(days)))
            ticks[rows] = _run_stretches(market, agents, episodes[rows], ticks.shape[1])
        return cls(days, starts, interval_ns, ticks)


def _run_stretches(market: ExecutionMarket, agents: int, episodes: Rows, columns: int) -> NDArray[np.float64]:
    """(n, columns) mids of n stretches, at most one for each book, which `agents` share."""
    count = len(episodes)
    every = episodes[np.minimum(np.arange(market.count) // agents, count - 1)]
    market.reset(np.arange(market.count), every)
    ticks = np.full((count, columns), np.nan)
    ticks[:, 0] = mids(market.frames)[::agents][:count]
    for step in range(1, columns):
        until_ns = every["start_ns"] + np.minimum(step, every["steps"]) * every["interval_ns"]
        market.step(np.zeros(market.count, CHILD), until_ns)
        now, running = mids(market.frames)[::agents][:count], step <= episodes["steps"]
        ticks[running, step] = np.where(np.isnan(now), ticks[:, step - 1], now)[running]
    return ticks


@dataclasses.dataclass(frozen=True)
class UndisturbedAdvantage:
    """See the module. The settings are those of ScheduleAdvantage."""

    undisturbed: UndisturbedMids
    deviation_bps: float = 0.0
    unfilled_bps: float = 0.0

    def __call__(self, env: "ExecutionVectorEnv", fills: Rows, last: Any) -> Any:
        """See PriceAdvantage."""
        accounts = env.accounts
        episodes, parents = accounts.episodes, accounts.parents
        sign, qty, step = episodes["sign"], episodes["qty_lots"].astype(float), parents["step"]
        scale = 1e4 / (qty * parents["arrival_mid"])
        even = qty * (1 - step / episodes["steps"])
        own_move = parents["mid"] - parents["decision_mid"]
        move = self.undisturbed.at(episodes, step) - self.undisturbed.at(episodes, step - 1)
        traded = sign * (fills["notional"] - fills["lots"] * parents["decision_mid"])
        held = sign * (parents["remaining_lots"] * own_move - even * move)
        deviation = (parents["remaining_lots"] - even) / qty
        costs = self.deviation_bps * deviation**2 + self.unfilled_bps * parents["unfilled_lots"] / qty
        return (traded + held - accounts.fees(fills)) * scale - costs
