"""The result of a backtest as tables: fills, trades, and a curve of positions and profit. docs/tables.md lists their columns."""

import numpy as np

from serl.agents.backtest.result import Result
from serl.exchange.records import EventFlag
from serl.exchange.row_tables import SIDE_NAMES
from serl.exchange.table import Column, Names, Table, prices, times


def backtest_fills(result: Result) -> Table:
    """The strategy's own fills, oldest first."""
    rows = result.fill_rows
    symbol, time_ns = rows["symbol"].astype(np.int32), rows["time_ns"].copy()
    columns: dict[str, Column] = {
        "time": times(time_ns, result.date), "time_ns": time_ns, "symbol": Names.of(symbol, _symbols(result)),
        "side": Names.of(rows["side"], SIDE_NAMES),
        "price": prices(rows["price_ticks"], [one.tick_size for one in result.symbols], symbol),
    }  # fmt: skip
    columns |= {name: rows[name].copy() for name in ("price_ticks", "qty_lots")}
    columns["fee"] = np.array(result.fill_fees, np.float64)
    columns["maker"] = rows["flags"] & EventFlag.MAKER > 0
    return Table(columns | {name: rows[name].copy() for name in ("order_id", "match_id")})


def backtest_trades(result: Result) -> Table:
    """The strategy's round trips by start; an open one has no end, and its profit is NaN."""
    trips = result.trades
    start_ns = np.array([trip.start_ns for trip in trips], np.int64)
    end_ns = np.array([trip.end_ns or 0 for trip in trips], np.int64)
    closed = np.array([trip.end_ns is not None for trip in trips], np.bool_)
    profit = [np.nan if trip.profit_ticks is None else float(result.money(trip.symbol, trip.profit_ticks)) for trip in trips]  # fmt: skip
    return Table({
        "start": times(start_ns, result.date), "end": np.where(closed, times(end_ns, result.date), np.datetime64("NaT", "ns")),
        "symbol": Names.of([trip.symbol for trip in trips], _symbols(result)),
        "side": Names.of([trip.side for trip in trips], SIDE_NAMES),
        "qty_lots": np.array([trip.qty_lots for trip in trips], np.int64),
        "fills": np.array([trip.fills for trip in trips], np.int64), "profit": np.array(profit, np.float64),
    })  # fmt: skip


def backtest_curve(result: Result) -> Table:
    """Profit over all symbols, and position and mid of each symbol, at the times at which positions were marked."""
    columns: dict[str, Column] = {
        "time": times(result.times_ns, result.date), "time_ns": result.times_ns, "pnl": np.array(result.pnl, np.float64)
    }  # fmt: skip
    for place, reference in enumerate(result.symbols):
        code = np.zeros(len(result.times_ns), np.int64)
        columns[f"position_lots_{reference.name}"] = result.positions[:, place]
        columns[f"mid_{reference.name}"] = prices(result.mids[:, place], [reference.tick_size], code) / 2
    return Table(columns)


def _symbols(result: Result) -> list[str]:
    return [one.name for one in result.symbols]
