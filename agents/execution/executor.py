"""Executes a parent order on a served exchange with any policy, through the same environment as in training."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from serl.agents.execution.environment.forecasts import Forecasts, ServedForecasts
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.environment.windows import check_multiples
from serl.agents.execution.order import ParentOrder
from serl.agents.execution.policies.policy import Policy, environment_settings, require_mode
from serl.agents.execution.progress import OrderFlowLog, ProgressFile
from serl.agents.execution.served import PRINT, ServedMarket
from serl.clients.blocking import Exchange
from serl.exchange.records import Rows


@dataclasses.dataclass
class Execution:
    """Everything that happened in the window. Prices are in ticks, times are exchange time."""

    order: ParentOrder
    policy: str
    mode: str
    arrival_mid_ticks: float | None = None
    fills: list[tuple[int, int, int, int]] = dataclasses.field(default_factory=list)  # time, price, qty, match id
    children: list[tuple[int, int]] = dataclasses.field(default_factory=list)  # time, qty
    mids: list[tuple[int, float]] = dataclasses.field(default_factory=list)
    trades: list[tuple[int, int, int, int]] = dataclasses.field(default_factory=list)  # match id, time, price, qty
    steps: list[tuple[int, int]] = dataclasses.field(default_factory=list)  # lots and ticks x lots of each decision
    unfilled_lots: int = 0  # at the end of the window, before forced completion
    rejected: dict[str, int] = dataclasses.field(default_factory=dict)  # child orders, by reason
    throttled: int = 0  # commands that were beyond the account's rate and were sent again

    @property
    def filled_lots(self) -> int:
        """Total quantity traded for the parent order."""
        return sum(qty for _, _, qty, _ in self.fills)


def in_the_book(
    trades: Sequence[tuple[int, int, int, int, int, int]], start_ns: int, end_ns: int
) -> list[tuple[int, int, int, int]]:
    """(match id, time, price, qty) of the trades from the start on and before the end, without prints: as in the VWAP of the in-process markets."""
    return [trade[:4] for trade in trades if start_ns <= trade[1] < end_ns and trade[5] != PRINT]


@dataclasses.dataclass(frozen=True)
class FixedSampler:
    """Always returns the same episodes."""

    episodes: Rows

    def sample(self, random: np.random.Generator, count: int) -> Rows:
        """The fixed episodes."""
        return self.episodes


def execute_order(
    market: ExecutionMarket, order: ParentOrder, policy: Policy, mode: str, forecasts: Forecasts | None = None
) -> tuple[ExecutionVectorEnv, list[tuple[int, int]]]:
    """Works one parent order in a market with one environment. Returns (the environment at the end, (lots, ticks x lots) of each decision). Raises
    ConfigError if the policy observes other forecasts."""
    settings = environment_settings(policy, mode)
    env = ExecutionVectorEnv(market, FixedSampler(order.episode), forecasts=forecasts, **settings)
    env.reset()
    steps, last = [], np.zeros(1, bool)
    while not last[0]:
        fills, last = env.step_without_reset(policy.actions(env))
        steps.append((int(fills["lots"][0]), int(fills["notional"][0])))
    return env, steps


class Executor:
    """Works one parent order; `run` returns after its window, when the exchange has answered all orders."""

    def __init__(
        self, client: Exchange, order: ParentOrder, policy: Policy, mode: str = "market", progress: ProgressFile | None = None,
        order_flow_log: OrderFlowLog | None = None, forecasts: ServedForecasts | None = None,
    ) -> None:  # fmt: skip
        """Raises ConfigError for a quantity that does not fit the symbol's rules."""
        require_mode(policy, mode)
        check_multiples(order.episode, client.rules(order.symbol).lot_multiple)
        self.order, self.policy, self.mode = order, policy, mode
        if forecasts is not None:
            forecasts.require_sizes(client.instrument(order.symbol))
        self.market = ServedMarket(client, order.symbol)
        self.market.require_not_started(order.start_ns)
        self._forecasts = forecasts
        if forecasts is not None:
            self.market.follow(forecasts.look)
        self._progress = progress
        if progress is not None:
            self.market.on_fill = progress.fill
        self._order_flow_log = order_flow_log
        if order_flow_log is not None:
            self.market.on_order_flow = order_flow_log.record

    def run(self) -> Execution:
        """Works the whole window and completes the remaining quantity."""
        market, order = self.market, self.order
        env, steps = execute_order(market, order, self.policy, self.mode, self._forecasts)
        start, end = order.start_ns, order.end_ns
        unfilled_lots = int(env.accounts.parents["unfilled_lots"][0])
        if self._progress is not None:
            self._progress.end(unfilled_lots)
        if self._order_flow_log is not None:
            self._order_flow_log.close()
        arrival = float(env.accounts.parents["arrival_mid"][0])
        return Execution(
            order, self.policy.name, self.mode, None if np.isnan(arrival) else arrival, market.own_fills, market.children,
            sorted(mid for mid in market.mids if start <= mid[0] <= end),
            in_the_book(market.trades, start, end),
            steps, unfilled_lots, dict(market.rejected), market.throttled,
        )  # fmt: skip
