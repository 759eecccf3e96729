"""A parent order on a served exchange: any policy decides, the rest is as in the execution environments."""

import dataclasses

import numpy as np

from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.order import ParentOrder
from serl.agents.execution.order_flow_log import SentFile
from serl.agents.execution.policies.policy import Policy, check_mode, environment_of
from serl.agents.execution.progress import ProgressFile
from serl.agents.execution.served import ServedMarket
from serl.clients.blocking import Exchange
from serl.exchange.records import Rows


@dataclasses.dataclass
class Execution:
    """What happened in the window. Prices in ticks, times as the exchange's."""

    order: ParentOrder
    policy: str
    mode: str
    arrival_mid_ticks: float | None = None
    fills: list[tuple[int, int, int, int]] = dataclasses.field(default_factory=list)  # time, price, qty, match id
    children: list[tuple[int, int]] = dataclasses.field(default_factory=list)  # time, qty
    mids: list[tuple[int, float]] = dataclasses.field(default_factory=list)
    trades: list[tuple[int, int, int, int]] = dataclasses.field(default_factory=list)  # match id, time, price, qty
    steps: list[tuple[int, int]] = dataclasses.field(default_factory=list)  # qty and ticks x lots of each decision
    unfilled_lots: int = 0  # at the end of the window, before forced completion

    @property
    def filled_lots(self) -> int:
        """Everything that was traded for the parent order."""
        return sum(qty for _, _, qty, _ in self.fills)


@dataclasses.dataclass(frozen=True)
class Given:
    """A sampler that knows its episodes."""

    episodes: Rows

    def sample(self, random: np.random.Generator, count: int) -> Rows:
        """The episodes given, whatever the randomness."""
        return self.episodes


def work(
    market: ExecutionMarket, order: ParentOrder, policy: Policy, mode: str
) -> tuple[ExecutionVectorEnv, list[tuple[int, int]]]:
    """Works one parent order in any market of one: (the environment at its end, (lots, ticks x lots) of each decision)."""
    env = ExecutionVectorEnv(market, Given(order.episode), **environment_of(policy, mode))
    env.reset()
    steps, last = [], np.zeros(1, bool)
    while not last[0]:
        fills, last = env.decide(policy.actions(env))
        steps.append((int(fills["lots"][0]), int(fills["notional"][0])))
    return env, steps


class Executor:
    """Runs one parent order; `run` returns when its window is over and everything is answered."""

    def __init__(
        self, client: Exchange, order: ParentOrder, policy: Policy, mode: str = "market", progress: ProgressFile | None = None,
        sent: SentFile | None = None,
    ) -> None:  # fmt: skip
        check_mode(policy, mode)
        self.order, self.policy, self.mode = order, policy, mode
        self.market = ServedMarket(client, order.symbol)
        self.market.check_in_time(order.start_ns)
        self._progress = progress
        if progress is not None:
            self.market.on_fill = progress.fill
        self._sent = sent
        if sent is not None:
            self.market.on_sent = sent.sent

    def run(self) -> Execution:
        """The whole window and the forced completion."""
        market, order = self.market, self.order
        env, steps = work(market, order, self.policy, self.mode)
        start, end = order.start_ns, order.end_ns
        unfilled_lots = int(env.accounts.parents["unfilled_lots"][0])
        if self._progress is not None:
            self._progress.end(unfilled_lots)
        if self._sent is not None:
            self._sent.close()
        arrival = float(env.accounts.parents["arrival_mid"][0])
        return Execution(
            order, self.policy.name, self.mode, None if np.isnan(arrival) else arrival, market.own, market.children,
            sorted(mid for mid in market.mids if start <= mid[0] <= end),
            [trade[:4] for trade in market.trades if start <= trade[1] <= end],
            steps, unfilled_lots,
        )  # fmt: skip
