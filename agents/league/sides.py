"""The two sides of a league's markets. Each side is the market of one environment, in which a player of the other side also acts.

All windows have the same number of decisions and begin together. A maker decides at each of its intervals, an executor at every `ratio`-th.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from serl.agents.execution.environment.dynamic import TRADED_FIELDS
from serl.agents.execution.environment.records import CHILD, FILL, FRAME
from serl.agents.execution.environment.vector import ExecutionVectorEnv, Sampler
from serl.agents.execution.policies.policy import Policy
from serl.agents.league.market import ORDERS, LeagueMarket
from serl.agents.making.config import MakingConfig
from serl.agents.making.environment import MakingVectorEnv
from serl.agents.making.makers import Maker
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

FILLED_FIELDS = "lots", "notional"


def maker_windows(episodes: Rows, ratio: int) -> Rows:
    """The windows of makers for EPISODE rows of executors."""
    rows = episodes.copy()
    rows["interval_ns"] //= ratio
    rows["steps"] *= ratio
    return rows


class MakerWindows:
    """A `Sampler` of makers' windows that match parent orders from another sampler; `drawn` has the last of these orders."""

    def __init__(self, orders: Sampler, ratio: int) -> None:
        self._orders, self._ratio = orders, ratio
        self.drawn: Rows | None = None

    def sample(self, random: np.random.Generator, count: int) -> Rows:
        """See Sampler."""
        self.drawn = self._orders.sample(random, count)
        return maker_windows(self.drawn, self._ratio)


class Interval:
    """What an executor sees since its last decision: the frames with all trades of the interval, and its fills in the interval."""

    def __init__(self, market: LeagueMarket) -> None:
        self.league, self.count = market, market.count
        self.frames, self.fills = np.zeros(self.count, FRAME), np.zeros(self.count, FILL)

    def add(self, begins: bool) -> None:
        """Adds the last step of the markets. begins: starts a new interval with it."""
        market = self.league
        kept = 0 if begins else 1
        traded = {name: kept * self.frames[name] for name in TRADED_FIELDS}
        filled = {name: kept * self.fills[name] for name in FILLED_FIELDS}
        self.frames[:], self.fills[:] = market.frames, market.fills
        for name, before in traded.items():
            self.frames[name] += before
        for name, before in filled.items():
            self.fills[name] += before

    def send(self, quotes: Rows, children: Rows | None, until_ns: Any) -> None:
        """Steps all markets with the maker's quotes, and with the executor's child orders if it decides."""
        orders = np.zeros(self.count, ORDERS)
        orders["quotes"] = quotes
        if children is not None:
            orders["decides"], orders["child"] = 1, children
        self.league.step(orders, until_ns)
        self.add(begins=children is not None)

    def finish(self, which: Any, children: Rows) -> None:
        """Completes parent orders, and closes the makers' positions at the market's price."""
        orders = np.zeros(len(which), ORDERS)
        orders["decides"], orders["child"] = 1, children
        orders["quotes"]["takes"] = 1
        self.league.force(which, orders)
        self.add(begins=True)


class ExecutorSeat(Interval):
    """The market of the ExecutionVectorEnvs of a `MakerSide`, which itself does everything that they request."""

    def reset(self, which: Any, episodes: Rows) -> None:
        """See ExecutionMarket."""

    def step(self, children: Rows, until_ns: Any) -> None:
        """See ExecutionMarket."""

    def force(self, which: Any, children: Rows) -> None:
        """See ExecutionMarket."""


class MakerSide:
    """The market of a MakingVectorEnv in which executors work parent orders, one executor in each environment.

    executors: environments with the same seat, and the policies that decide in them. orders: must also be the sampler of the MakingVectorEnv.
    """

    def __init__(
        self, seat: ExecutorSeat, executors: Sequence[tuple[ExecutionVectorEnv, Policy]], ratio: int, orders: MakerWindows
    ) -> None:  # fmt: skip
        self._seat, self._executors, self._ratio, self._orders = seat, executors, ratio, orders
        market = seat.league
        self.count = market.count
        self.frames, self.fills, self.positions = market.frames, market.maker_fills, market.positions
        self._plays = np.arange(self.count) % len(executors)
        self._step = 0

    def reset(self, which: Any, episodes: Rows) -> None:
        """Starts new windows in all markets, with the parent orders that were drawn with them. Raises `ConfigError` for other windows."""
        drawn = self._orders.drawn
        if drawn is None or not np.array_equal(maker_windows(drawn, self._ratio), episodes):
            raise ConfigError(
                "league: expected the windows that the environment drew with their parent orders, got others; leave them out of reset"
            )
        self._step = 0
        self._seat.league.reset(which, drawn)
        self._seat.add(begins=True)
        for env, _ in self._executors:
            env.accounts.begin(which, drawn, self._seat.frames)
            env.observer.begin(which, self._seat.frames)

    def step(self, children: Rows, until_ns: Any) -> None:
        """See AgentMarket."""
        decided: Rows | None = None
        if self._step % self._ratio == 0:
            self._settle()
            every = [children_of(env, policy) for env, policy in self._executors]
            decided = np.stack(every)[self._plays, np.arange(self.count)]
        self._seat.send(children, decided, until_ns)
        self._step += 1

    def _settle(self) -> None:
        """Ends the executors' interval, if there was one. Each executor environment keeps the accounts of all environments, which are the same."""
        for env, _ in self._executors if self._step else ():
            env.accounts.settle(self._seat.fills, self._seat.frames)
            env.observer.record_step(self._seat.frames)
            env.accounts.parents["step"] += 1

    def flatten(self, which: Any) -> None:
        """See AgentMarket. Also completes parent orders."""
        self._settle()
        rest = np.zeros(len(which), CHILD)
        rest["market_lots"] = self._executors[0][0].accounts.parents["remaining_lots"][which]
        self._seat.finish(which, rest)

    def close(self) -> None:
        """See AgentMarket."""
        self._seat.league.close()


class MakerSeat:
    """The market of the MakingVectorEnv of an `ExecutorSide`, which itself starts and ends the windows."""

    def __init__(self, interval: Interval) -> None:
        self.interval, market = interval, interval.league
        self.count = market.count
        self.frames, self.fills, self.positions = market.frames, market.maker_fills, market.positions
        self.children: Rows | None = None

    def reset(self, which: Any, episodes: Rows) -> None:
        """Does nothing; the executor's side has already done this."""

    def step(self, children: Rows, until_ns: Any) -> None:
        """See AgentMarket."""
        self.interval.send(children, self.children, until_ns)

    def flatten(self, which: Any) -> None:
        """Does nothing; the executor's side does this."""

    def close(self) -> None:
        """See AgentMarket."""
        self.interval.league.close()


class ExecutorSide(Interval):
    """The market of an ExecutionVectorEnv in which a maker quotes."""

    def __init__(self, market: LeagueMarket, maker: Maker, config: MakingConfig, orders: Sampler, ratio: int) -> None:
        super().__init__(market)
        self._maker, self._ratio, self._seat = maker, ratio, MakerSeat(self)
        # the last step of the maker's windows closes its position, together with the executor's order
        self._making = MakingVectorEnv(self._seat, MakerWindows(orders, ratio), config, closing_steps=1)

    def reset(self, which: Any, episodes: Rows) -> None:
        """See ExecutionMarket. All windows must begin together."""
        assert len(which) == self.count, "windows begin together"
        self.league.reset(which, episodes)
        self.add(begins=True)
        windows = maker_windows(episodes, self._ratio)
        windows["steps"] += 1
        self._making.reset(options={"episodes": windows})

    def step(self, children: Rows, until_ns: Any) -> None:
        """See ExecutionMarket."""
        for number in range(self._ratio):
            self._seat.children = children if number == 0 else None
            self._making.step(self._making.actions_of(self._maker.offsets(self._making)))

    def force(self, which: Any, children: Rows) -> None:
        """See ExecutionMarket. Also closes the makers' positions."""
        ledger, market = self._making.ledger, self.league
        ledger.hold(market.positions)
        self.finish(which, children)
        ledger.record(market.frames, market.positions, market.maker_fills["lots"].astype(float))

    def maker_results(self) -> dict[str, Any]:
        """(N,) each: results of the makers' windows; see Ledger.results."""
        return self._making.ledger.results(self.league.positions)


def children_of(env: ExecutionVectorEnv, policy: Policy) -> Rows:
    """(N,) CHILD rows of a policy for the current observations of its environment."""
    return env.accounts.children(*env.split_actions(policy.actions(env)), env.market.frames)
