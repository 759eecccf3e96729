"""What the configuration says of symbols and accounts, as the commands that make a market so; docs/orders.md explains each."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from serl.exchange.config import AccountConfig, SymbolConfig
from serl.exchange.records import (
    BAND_ACTION,
    BAND_HIGH,
    BAND_LOW,
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

CONFIGURED = [setting for setting in Setting if setting not in (Setting.SELF_TRADE, Setting.KILLED)]
"""Settings that are the configuration's alone; the others are a participant's or an operator's as well."""


def rule_rows(symbol: SymbolConfig, number: int, known: NDArray[np.int64]) -> list[Rows]:
    """RULE rows where the symbol's rules differ from those that the market knows: `known`, its row of Snapshot.symbols, int64
    (SYMBOL_COLUMNS,)."""
    said = [
        (Rule.LOT, LOT, symbol.lot_multiple), (Rule.MATCHING, MATCHING, int(symbol.matching == "pro-rata")),
        (Rule.BAND_LOW, BAND_LOW, symbol.band_low_ticks), (Rule.BAND_HIGH, BAND_HIGH, symbol.band_high_ticks),
        (Rule.BAND_ACTION, BAND_ACTION, int(symbol.band_action == "auction")),
    ]  # fmt: skip
    said += [(rule, MAKER_FEE + place, value) for place, (rule, value) in enumerate(symbol.fees.rules())]
    rows = [_rule(number, rule, value) for rule, column, value in said if known[column] != value]
    table = dict(known[TICKS:].reshape(-1, 2)[known[TICKS + 1 :: 2] != 0].tolist())
    wanted = dict.fromkeys(sorted(table), 0) | symbol.tick_table  # 0: no entry; those go first, for room
    return rows + [
        _rule(number, Rule.TICK, value, start) for start, value in wanted.items() if value != table.get(start)
    ]


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
