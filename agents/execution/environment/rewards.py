"""Rewards of execution, in bps of the parent order; positive is good.

`PriceAdvantage` sums over an order to its price advantage over the market's VWAP (to first order, after fees); nearly all of it comes at the
end. `ScheduleAdvantage` sums to the advantage over even slices at the mid, and gives as much credit as possible at each decision:

    r_k = s (n_k - q_k m_k) / (Q m_0) + s (x_{k+1} - y_{k+1}) (m_{k+1} - m_k) / (Q m_0) - c (x_{k+1} - y_{k+1})² / Q²

with s = +1 for a sell and -1 for a buy, q_k lots traded for n_k ticks x lots, the mid m_k and the remaining quantity x_k at decision k, y_k the
remaining quantity with even slices, Q the quantity and c the cost of deviating from the schedule. The first term is the cost of trading, the
second the market move on the quantity held above or below the schedule. The move on the rest is left out; without its noise, learning needs
far fewer orders. Summation by parts shows that the first two terms sum to s Σ q_k (n_k/q_k - m_0) minus the same for even slices at the mids.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from serl.agents.execution.environment.account import fees_of
from serl.exchange.compiling import compiled
from serl.exchange.records import Rows

if TYPE_CHECKING:
    from serl.agents.execution.environment.vector import ExecutionVectorEnv


@dataclasses.dataclass(frozen=True)
class PriceAdvantage:
    """See the module."""

    def __call__(self, env: "ExecutionVectorEnv", fills: Rows, last: Any) -> Any:
        """(N,) rewards of a step. fills: (N,) FILL rows of the step. last: (N,) whether it was the last step."""
        gain = env.accounts.shortfall_bps(fills)
        return gain - np.where(last, env.accounts.market_move_bps(), 0.0)


@compiled
def _schedule_advantage(
    episodes: Any, parents: Any, fills: Any, fee_bps: float, deviation_bps: float, unfilled_bps: float, out: Any
) -> None:
    for env in range(out.size):
        episode, parent, fill = episodes[env], parents[env], fills[env]
        qty, arrival = np.float64(episode.qty_lots), parent.arrival_mid
        traded = episode.sign * (fill.notional - fill.lots * parent.decision_mid) - fees_of(fill, fee_bps)
        deviation = parent.remaining_lots - qty * (1 - parent.step / episode.steps)
        held = episode.sign * deviation * (parent.mid - parent.decision_mid)
        forced = parent.unfilled_lots / qty  # 0 before the end
        cost = deviation_bps * (deviation / qty) ** 2 + unfilled_bps * forced
        out[env] = (traded + held) / (qty * arrival) * 1e4 - cost


@dataclasses.dataclass(frozen=True)
class ScheduleAdvantage:
    """See the module."""

    deviation_bps: float = 0.0
    """c, the cost of deviating from even slices."""
    unfilled_bps: float = 0.0
    """Cost of forced completion of the whole order."""

    def __call__(self, env: "ExecutionVectorEnv", fills: Rows, last: Any) -> Any:
        """See PriceAdvantage."""
        out, accounts = np.empty(len(fills)), env.accounts
        _schedule_advantage(
            accounts.episodes, accounts.parents, fills, accounts.fee_bps, self.deviation_bps, self.unfilled_bps, out
        )
        return out
