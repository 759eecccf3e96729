"""What the configuration says of symbols and accounts, as the commands that make a market so; docs/orders.md explains each."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from serl.exchange.config import AccountConfig, SymbolConfig
from serl.exchange.records import (
    BAND_ACTION,
    BAND_HIGH,
    BAND_LOW,
    LAST_TICKS,
    LOT,
    MAKER_FEE,
    MATCHING,
    TICKS,
    CommandKind,
    Rows,
    Rule,
    Setting,
    command,
)  # fmt: skip
from serl.exchange.reference_price import band_around, band_midpoint

CONFIGURED = [setting for setting in Setting if setting not in (Setting.SELF_TRADE, Setting.KILLED)]
"""Settings that are the configuration's alone; the others are a participant's or an operator's as well."""


def rule_rows(symbol: SymbolConfig, number: int, known: NDArray[np.int64], price_ticks_max: int) -> list[Rows]:
    """RULE rows where the symbol's rules differ from those that the market knows: `known`, its row of Snapshot.symbols, int64
    (SYMBOL_COLUMNS,)."""
    said = [
        (Rule.LOT, LOT, symbol.lot_multiple), (Rule.MATCHING, MATCHING, int(symbol.matching == "pro-rata")),
        (Rule.BAND_ACTION, BAND_ACTION, int(symbol.band_action == "auction")),
    ]  # fmt: skip
    said += [(rule, MAKER_FEE + place, value) for place, (rule, value) in enumerate(symbol.fees.rules())]
    rows = [_rule(number, rule, value) for rule, column, value in said if known[column] != value]
    rows += band_rows(number, known, _first_band(symbol, known, price_ticks_max))
    table = dict(known[TICKS:].reshape(-1, 2)[known[TICKS + 1 :: 2] != 0].tolist())
    wanted = dict.fromkeys(sorted(table), 0) | symbol.tick_table  # 0: no entry; those go first, for room
    return rows + [
        _rule(number, Rule.TICK, value, start) for start, value in wanted.items() if value != table.get(start)
    ]


def band_rows(number: int, known: NDArray[np.int64], band_ticks: tuple[int, int]) -> list[Rows]:
    """RULE rows that give a symbol a band of (low, high), 0 for none, where it is not what the market knows (as of rule_rows)."""
    said = zip((Rule.BAND_LOW, Rule.BAND_HIGH), (BAND_LOW, BAND_HIGH), band_ticks, strict=True)
    return [_rule(number, rule, value) for rule, column, value in said if known[column] != value]


def _first_band(symbol: SymbolConfig, known: NDArray[np.int64], price_ticks_max: int) -> tuple[int, int]:
    """The band at a start. One that follows the market stays where it is; if it was none of this width, the last trade is its
    reference, or what the configuration says."""
    if symbol.band_ppm is None:
        return symbol.band_low_ticks, symbol.band_high_ticks
    known_band = int(known[BAND_LOW]), int(known[BAND_HIGH])
    if (
        known_band
        == band_around(int(band_midpoint(*known[[BAND_LOW, BAND_HIGH]])), symbol.band_ppm, price_ticks_max)
        != (0, 0)
    ):
        return known_band
    return band_around(int(known[LAST_TICKS]) or symbol.reference_ticks or 0, symbol.band_ppm, price_ticks_max)


def _rule(symbol: int, rule: Rule, value: int, from_ticks: int = 0) -> Rows:
    return command(CommandKind.RULE, symbol=symbol, flags=rule, price_ticks=value, order_id=from_ticks)


def account_rows(accounts: dict[int, AccountConfig], known: NDArray[np.int64]) -> list[Rows]:
    """ACCOUNT rows where settings differ from those that the market knows: `known`, Snapshot.accounts, int64 (participants,
    ACCOUNT_COLUMNS). `accounts` by participant; one that is not among them has no limits and no fees of its own."""
    rows = []
    for participant in sorted(accounts.keys() | set(np.flatnonzero(known[:, CONFIGURED].any(axis=1)).tolist())):
        said: Sequence[tuple[Setting, int]] = accounts[participant].settings() if participant in accounts else ()
        for setting, value in said or [(setting, 0) for setting in CONFIGURED]:
            if known[participant, setting] != value:
                rows.append(command(CommandKind.ACCOUNT, order_id=participant, flags=setting, price_ticks=value))
    return rows
