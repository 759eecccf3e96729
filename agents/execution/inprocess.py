"""Works a parent order on a historical day without a server. A lockstep exchange must give the same result."""

import numpy as np

from serl.agents.execution.environment.forecasts import RecordedForecasts
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.executor import execute_order
from serl.agents.execution.order import ParentOrder, twap_targets
from serl.agents.execution.policies.policy import Policy
from serl.agents.signals.forecaster import Forecaster
from serl.exchange.market import Market
from serl.exchange.records import CommandFlag, CommandKind, EventFlag, EventKind, Rows, TimeInForce, command
from serl.exchange.symbol_rules import SymbolRules
from serl.history.day import Day, select_symbol
from serl.history.limits import limits_for

EXECUTOR, HISTORY = 0, 1
"""Participant numbers: the executor logs in first, so its orders precede those of history with the same arrival time."""


def replay_with(
    day: Day, order: ParentOrder, policy: Policy, mode: str, forecasting: tuple[Forecaster, str] | None = None
) -> list[tuple[int, int]]:
    """(lots, ticks x lots) of each decision of any policy in the replay market without latency; the last includes forced completion.

    forecasting: the forecaster whose forecasts the policy observes, and its name.
    """
    own = select_symbol(day, order.symbol)
    forecasts = None if forecasting is None else RecordedForecasts(forecasting[0], [own], forecasting[1])
    return execute_order(ReplayMarket([own], 1, latency_ns=0), order, policy, mode, forecasts)[1]


def replay_with_twap(day: Day, order: ParentOrder) -> list[tuple[int, int, int]]:
    """The fills of a TWAP as (time_ns, price_ticks, qty_lots), forced completion included."""
    names = [symbol.name for symbol in day.reference.symbols]
    symbol = names.index(order.symbol)
    market = Market(names, limits=limits_for([day.commands], participants_max=2))
    market.grant_operator(HISTORY)
    rows = day.commands.copy()
    rows["participant"] = HISTORY
    times = order.slice_times_ns
    fills: list[tuple[int, int, int]] = []
    cursor = 0
    for number, (time_ns, target) in enumerate(
        [*zip(times, twap_targets(order.qty_lots, len(times)), strict=True), (order.end_ns, order.qty_lots)], start=1
    ):
        stop = int(np.searchsorted(rows["time_ns"], time_ns, side="left"))
        _append_own_fills(market.submit(rows[cursor:stop]), fills)
        cursor = stop
        rules = SymbolRules.of_row(market.state.symbols[symbol])
        qty_lots = rules.whole_lots(target - sum(qty for _, _, qty in fills))
        if qty_lots > 0:
            child = command(
                CommandKind.NEW, symbol=symbol, side=order.side, qty_lots=qty_lots, time_in_force=TimeInForce.IOC,
                flags=CommandFlag.MARKET, command_id=number, participant=EXECUTOR, time_ns=time_ns,
            )  # fmt: skip
            _append_own_fills(market.submit(child), fills)
    return fills


def _append_own_fills(events: Rows, fills: list[tuple[int, int, int]]) -> None:
    own = events[(events["kind"] == EventKind.FILL) & (events["participant"] == EXECUTOR)]
    own = own[own["flags"] & EventFlag.MAKER == 0]
    fills.extend(zip(own["time_ns"].tolist(), own["price_ticks"].tolist(), own["qty_lots"].tolist(), strict=True))
