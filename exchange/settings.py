"""Turns the configuration of symbols and accounts into the commands that apply it; docs/orders.md explains each setting."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from serl.exchange.account_config import AccountConfig, AccountLimits
from serl.exchange.assets import Assets
from serl.exchange.config import SymbolConfig
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
"""Settings that only the configuration changes; participants or operators change the others too."""


def rule_rows(symbol: SymbolConfig, number: int, current: NDArray[np.int64], price_ticks_max: int) -> list[Rows]:
    """RULE rows for the configured rules that differ from the market's. `current`: the symbol's row of Snapshot.symbols, int64
    (SYMBOL_COLUMNS,)."""
    wanted = [
        (Rule.LOT, LOT, symbol.lot_multiple), (Rule.MATCHING, MATCHING, int(symbol.matching == "pro-rata")),
        (Rule.BAND_ACTION, BAND_ACTION, int(symbol.band_action == "auction")),
    ]  # fmt: skip
    wanted += [(rule, MAKER_FEE + offset, value) for offset, (rule, value) in enumerate(symbol.fees.rules())]
    rows = [_rule(number, rule, value) for rule, column, value in wanted if current[column] != value]
    rows += band_rows(number, current, _band_at_start(symbol, current, price_ticks_max))
    current_entries = dict(current[TICKS:].reshape(-1, 2)[current[TICKS + 1 :: 2] != 0].tolist())
    # 0 removes an entry; removals go first, because the table has little room
    entries = dict.fromkeys(sorted(current_entries), 0) | symbol.tick_table
    return rows + [
        _rule(number, Rule.TICK, value, start)
        for start, value in entries.items()
        if value != current_entries.get(start)
    ]


def band_rows(number: int, current: NDArray[np.int64], band_ticks: tuple[int, int]) -> list[Rows]:
    """RULE rows that change a symbol's band to (low, high), 0 for none, where it differs from `current` (see rule_rows)."""
    wanted = zip((Rule.BAND_LOW, Rule.BAND_HIGH), (BAND_LOW, BAND_HIGH), band_ticks, strict=True)
    rows = [_rule(number, rule, value) for rule, column, value in wanted if current[column] != value]
    # the edge that narrows the band goes first: orders that it triggers must not trade between the two bands
    return rows[::-1] if band_ticks[0] < current[BAND_LOW] else rows


def _band_at_start(symbol: SymbolConfig, current: NDArray[np.int64], price_ticks_max: int) -> tuple[int, int]:
    """The band at a start. A band that follows the market is kept if it has the configured width; otherwise its reference is the last
    trade, or the configured one."""
    if symbol.band_ppm is None:
        return symbol.band_low_ticks, symbol.band_high_ticks
    current_band = int(current[BAND_LOW]), int(current[BAND_HIGH])
    if (
        current_band
        == band_around(int(band_midpoint(*current[[BAND_LOW, BAND_HIGH]])), symbol.band_ppm, price_ticks_max)
        != (0, 0)
    ):
        return current_band
    return band_around(int(current[LAST_TICKS]) or symbol.reference_ticks or 0, symbol.band_ppm, price_ticks_max)


def _rule(symbol: int, rule: Rule, value: int, from_ticks: int = 0) -> Rows:
    return command(CommandKind.RULE, symbol=symbol, flags=rule, price_ticks=value, order_id=from_ticks)


def account_rows(accounts: Mapping[int, AccountLimits], current: NDArray[np.int64]) -> list[Rows]:
    """ACCOUNT rows for the configured settings that differ from the market's. `current`: Snapshot.accounts, int64 (participants,
    ACCOUNT_COLUMNS). A participant that is not in `accounts` has no limits and no fees of its own."""
    rows = []
    for participant in sorted(accounts.keys() | set(np.flatnonzero(current[:, CONFIGURED].any(axis=1)).tolist())):
        rows += setting_rows(participant, accounts.get(participant, AccountLimits()), current[participant])
    return rows


def setting_rows(participant: int, account: AccountLimits, current: NDArray[np.int64]) -> list[Rows]:
    """Like `account_rows`, for one participant. `current`: its row, int64 (ACCOUNT_COLUMNS,)."""
    wanted = account.settings() or [(setting, 0) for setting in CONFIGURED]
    return [
        command(CommandKind.ACCOUNT, order_id=participant, flags=setting, price_ticks=value)
        for setting, value in wanted
        if current[setting] != value
    ]


def asset_rows(assets: Assets, current: NDArray[np.int64]) -> list[Rows]:
    """RULE rows for the assets of symbols that differ from the market's. `current`: Snapshot.assets, int64 (symbols, ASSET_COLUMNS)."""
    places = np.argwhere(assets.rows != current).tolist()
    return [_rule(symbol, Rule(Rule.BASE_ASSET + place), int(assets.rows[symbol, place])) for symbol, place in places]


def deposit_rows(accounts: Mapping[int, AccountLimits], assets: Assets, deposits: NDArray[np.int64]) -> list[Rows]:
    """DEPOSIT rows of the configured balances of accounts that have no deposits. `deposits`: Snapshot.deposits. Raises ConfigError for an
    unknown asset or an invalid amount."""
    rows = []
    named = {participant: account for participant, account in accounts.items() if isinstance(account, AccountConfig)}
    for participant, account in sorted(named.items()):
        amounts = {assets.number(name): assets.amount_units(name, text) for name, text in account.balances.items()}
        if not deposits[participant].any():
            rows += [deposit_row(participant, asset, units) for asset, units in amounts.items()]
    return rows


def deposit_row(participant: int, asset: int, units: int) -> Rows:
    """A DEPOSIT row."""
    return command(CommandKind.DEPOSIT, order_id=participant, qty_lots=asset, price_ticks=units)
