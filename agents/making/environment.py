"""The gymnasium VectorEnv of market making: N market makers, each alone among the simulated traders of its market.

Each decision sets a bid and an ask for the next interval. An action in [-1, 1] for each side is a distance from the mid, from 0 to `offset_ticks`
ticks. A side that would take the inventory beyond its limit is not quoted; the limit applies to the inventory when a quote arrives. The unit of
rewards and inventories is a quote (`quote_lots`).
"""

from typing import Any

import gymnasium
import numpy as np

from serl.agents.execution.environment.vector import Sampler, numbers_of
from serl.agents.making.config import MakingConfig
from serl.agents.making.observation import FEATURES, MakingObserver
from serl.agents.positions.environment import PositionVectorEnv
from serl.agents.positions.market import AgentMarket
from serl.agents.positions.records import DECISION
from serl.exchange.kernel.state import ASK, BID
from serl.exchange.records import Rows


class MakingVectorEnv(PositionVectorEnv):
    """See the module and `PositionVectorEnv`. Units of observations are those of `observation.py`."""

    def __init__(self, market: AgentMarket, sampler: Sampler, config: MakingConfig, closing_steps: int = 0) -> None:
        actions = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        super().__init__(
            market, sampler, config, MakingObserver(market.count, config), FEATURES, actions, closing_steps
        )
        self.config = config

    def quotes(self, offsets_ticks: Any) -> Rows:
        """DECISION rows for (N, 2) distances of bid and ask from the mid. Prices are rounded to whole ticks away from the mid, and never go beyond the
        other side's best price. Quotes have no lots before the book has had a price."""
        config, frames, mid = self.config, self.market.frames, self.ledger.mid
        rows = np.zeros(self.num_envs, DECISION)
        best_bid, best_ask = frames["bid_ticks"][:, 0], frames["ask_ticks"][:, 0]
        bid, ask = np.floor(mid - offsets_ticks[:, BID]), np.ceil(mid + offsets_ticks[:, ASK])
        bid = np.where(best_ask > 0, np.minimum(bid, best_ask - 1), bid)
        ask = np.where(best_bid > 0, np.maximum(ask, best_bid + 1), ask)
        rows["price_ticks"][:, BID] = np.minimum(bid, ask - 1)
        rows["price_ticks"][:, ASK] = ask
        held = self.market.positions["lots"]
        room = np.stack([config.inventory_lots_max - held, config.inventory_lots_max + held], 1)
        quoted = (rows["price_ticks"] > 0) & (mid > 0)[:, None]
        rows["lots"] = np.where(quoted, np.clip(room, 0, config.quote_lots), 0)
        rows["limit_lots"] = config.inventory_lots_max
        return rows

    def offsets(self, actions: Any) -> Any:
        """(N, 2) distances from the mid in ticks, for (N, 2) actions."""
        actions = np.clip(numbers_of(actions, (self.num_envs, 2)), -1.0, 1.0)
        return (actions + 1) / 2 * self.config.offset_ticks

    def actions_of(self, offsets_ticks: Any) -> Any:
        """(N, 2) actions for distances from the mid, at most `offset_ticks`."""
        return np.clip(2 * np.asarray(offsets_ticks) / self.config.offset_ticks - 1, -1.0, 1.0)

    def decisions(self, actions: Any) -> Rows:
        """DECISION rows with the quotes of (N, 2) actions."""
        return self.quotes(self.offsets(actions))
