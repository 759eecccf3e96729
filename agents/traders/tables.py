"""Tables of a simulated day by trader: what each sent, and its result. docs/tables.md lists their columns."""

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.traders.fees import fill_fees
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.simulate import fingerprint
from serl.exchange.errors import ConfigError
from serl.exchange.records import MICRO, CommandKind, Rows, Side
from serl.exchange.row_tables import find
from serl.exchange.table import Column, Names, Table, money
from serl.history.day import Day
from serl.history.tables import matches, orders, quotes


def order_flow(day: Day, population: PopulationConfig) -> Table:
    """The `orders` of a simulated day except the exchange's own, with the number and kind of the trader that sent each.

    ConfigError if the day was not simulated with this population.
    """
    _require_population(day, population)
    sent = _is_sent(day.commands)
    trader, columns = _senders(day.commands[sent], population), orders(day).rows(sent).columns
    first: dict[str, Column] = {name: columns[name] for name in ("time", "time_ns", "sequence")}
    kinds, names = _kinds(population)
    return Table(first | {"trader": trader, "trader_kind": Names.of(kinds[trader], names)} | columns)


def traders(day: Day, population: PopulationConfig) -> Table:
    """A row for each trader of a simulated day: what it sent, traded and holds, and its profit after fees, with the position at the last mid.

    ConfigError if the day was not simulated with this population.
    """
    _require_population(day, population)
    count, references = population.traders, day.reference.symbols
    sender, is_new = _senders(day.commands, population), day.commands["kind"] == CommandKind.NEW
    is_change = _is_sent(day.commands) & ~is_new
    totals = {name: np.zeros(count, np.int64) for name in ("fills", "traded_lots", "maker_lots", "position_lots", "cash_ticks")}  # fmt: skip
    fee_microticks = np.zeros(count, np.int64)
    for fills, name in zip(matches(day), ("maker_lots", ""), strict=True):
        _add_fills(totals, fills, day.commands, sender, name)
        owner = sender[find(day.commands["command_id"], fills["order_id"])]
        np.add.at(fee_microticks, owner, fill_fees(fills, population.market.fees))
    symbol = np.repeat([group.symbol for group in population.groups], [group.count for group in population.groups])
    units = [Decimal(one.tick_size) * Decimal(one.lot_size) for one in references]
    twice_mid = _last_twice_mids(day)[symbol]
    fee_ticks = fee_microticks / MICRO
    half_ticks = 2 * (totals["cash_ticks"] - fee_ticks) + totals["position_lots"] * twice_mid
    is_known = (twice_mid > 0) | (totals["position_lots"] == 0)
    kinds, names = _kinds(population)
    return Table({
        "trader": np.arange(count), "trader_kind": Names.of(kinds, names),
        "symbol": Names.of(symbol, [one.name for one in references]),
        "orders": np.bincount(sender[is_new], minlength=count), "cancels": np.bincount(sender[is_change], minlength=count),
        **totals, "cash": money(totals["cash_ticks"], units, symbol), "fee": money(fee_ticks, units, symbol),
        "pnl": money(np.where(is_known, half_ticks, np.nan), [unit / 2 for unit in units], symbol),
    })  # fmt: skip


def _require_population(day: Day, population: PopulationConfig) -> None:
    made, expected = day.reference.parameters.get("sha256"), fingerprint(population)
    if made != expected:
        source = day.reference.parameters.get("population", day.reference.source)
        raise ConfigError(
            f"expected a day simulated with this version of the population {population.name} ({expected}), got one of {source} "
            f"({made or 'no population'}); give the population that the day was simulated with"
        )


def _senders(commands: Rows, population: PopulationConfig) -> NDArray[np.int64]:
    """(n,) numbers of the traders that sent COMMAND rows, found from their times: each trader acts at its own residue modulo the spacing."""
    return commands["time_ns"] % population.spacing_ns


def _is_sent(commands: Rows) -> NDArray[np.bool_]:
    """(n,) whether each COMMAND row was sent by a trader; the exchange's own commands are phases, rules and the like."""
    sent: NDArray[np.bool_] = commands["kind"] < CommandKind.END_DAY
    return sent


def _kinds(population: PopulationConfig) -> tuple[NDArray[np.int64], list[str]]:
    """((traders,) indices of kinds, the kinds' names)."""
    names = list(dict.fromkeys(group.trader for group in population.groups))
    indices = [names.index(group.trader) for group in population.groups]
    return np.repeat(indices, [group.count for group in population.groups]), names


def _add_fills(totals: dict[str, Any], fills: Rows, commands: Rows, sender: NDArray[np.int64], also: str) -> None:
    """Adds FILL rows to the totals of their traders, and their lots also to the total `also`."""
    owner = sender[find(commands["command_id"], fills["order_id"])]
    lots = fills["qty_lots"]
    signed = np.where(fills["side"] == Side.BUY, lots, -lots)
    np.add.at(totals["fills"], owner, 1)
    for name in ("traded_lots", *filter(None, (also,))):
        np.add.at(totals[name], owner, lots)
    np.add.at(totals["position_lots"], owner, signed)
    np.add.at(totals["cash_ticks"], owner, -signed * fills["price_ticks"])


def _last_twice_mids(day: Day) -> NDArray[np.int64]:
    """(symbols,) best bid plus best ask in ticks when both last existed; 0 if they never did."""
    table = quotes(day)
    bid, ask, symbol = table["bid_ticks"], table["ask_ticks"], table.columns["symbol"]
    assert isinstance(symbol, Names)
    twice = np.zeros(len(day.reference.symbols), np.int64)
    both = (bid > 0) & (ask > 0)
    twice[symbol.codes[both]] = (bid + ask)[both]  # the last of several values is kept
    return twice
