"""Every start applies the configured rules and limits, and removes those that are no longer configured."""

from pathlib import Path

import pytest

from serl.exchange.config import load_config
from serl.exchange.errors import ConfigError
from serl.exchange.records import (
    HIGH_TICKS,
    LAST_TICKS,
    LOT,
    LOW_TICKS,
    TICK_ENTRIES_MAX,
    TICKS,
    CommandKind,
    Setting,
    Side,
)
from tests.exchange.offline_exchange import ANN, BAND, BOB, EXCHANGE, at, exchange

RULED: dict[str, object] = {
    "tick_table": {0: 2, 100: 5},
    "lot_multiple": 10,
    "matching": "pro-rata",
    "band_low_ticks": 10,
    "fees": {"taker_ppm": 50, "maker_microticks": -3},
    **BAND,
}
LIMITED: dict[str, object] = {"order_lots_max": 5, "collar_ticks": 7, "self_trade": "oldest", "fees": {"taker_ppm": 7}}


def test_settings_removed_from_the_configuration_are_removed_from_the_market(tmp_path: Path) -> None:
    accounts = {"ann": LIMITED, "bob": {"orders_open_max": 9}}
    with exchange(tmp_path, at("10:00"), RULED, accounts=accounts) as served:
        state = served.core.market.state
        ruled = state.symbols[0].copy()
        assert state.accounts[ANN].any() and state.accounts[BOB].any() and len(served.sent(CommandKind.RULE)) == 9
        served.send(CommandKind.ACCOUNT, at("10:00"), EXCHANGE, order_id=BOB, flags=Setting.KILLED, price_ticks=1)
    with exchange(tmp_path, at("11:00"), RULED, accounts=accounts) as served:
        assert not len(served.sent(CommandKind.RULE)) and not len(served.sent(CommandKind.ACCOUNT)), "nothing changed"
    with exchange(tmp_path, at("12:00"), {}, accounts={"ann": {"collar_ticks": 8}}) as served:
        state = served.core.market.state
        assert dict(enumerate(state.accounts[ANN])) == dict.fromkeys(Setting, 0) | {Setting.COLLAR_TICKS: 8}
        assert dict(enumerate(state.accounts[BOB])) == dict.fromkeys(Setting, 0) | {Setting.KILLED: 1}
        assert state.symbols[0, :TICKS].tolist() == [*[0] * LOT, 1, *[0] * (TICKS - LOT - 1)]
        assert not state.symbols[0, TICKS:].any()
        served.trade(at("12:00"), 107)
        assert served.core.market.account(BOB).position_lots == 0, "killed"
        served.send(CommandKind.NEW, at("12:00"), EXCHANGE, side=Side.BUY, qty_lots=1, price_ticks=107)
        assert served.core.market.account(EXCHANGE).position_lots == 1, "no lots, no ticks, no band"
    with exchange(tmp_path, at("13:00"), RULED) as served:
        known = served.core.market.state.symbols[0].copy()
        known[LAST_TICKS], known[HIGH_TICKS], known[LOW_TICKS] = ruled[[LAST_TICKS, HIGH_TICKS, LOW_TICKS]]
        assert known.tolist() == ruled.tolist()


def test_the_configured_tick_table_is_applied(tmp_path: Path) -> None:
    for table in (
        {0: 1, 100: 5, 200: 10},
        {50: 2, 200: 20},
        dict.fromkeys(range(0, 80, 10), 5),
        dict.fromkeys(range(5, 85, 10), 5),
        {},
    ):
        with exchange(tmp_path, at("10:00"), {"tick_table": table}) as served:
            entries = served.core.market.state.symbols[0, TICKS:].reshape(-1, 2).tolist()
            assert entries == [[start, table[start]] for start in table] + [[0, 0]] * (TICK_ENTRIES_MAX - len(table))


@pytest.mark.parametrize("table", [{-1: 5}, {0: 0}, {0: 1.5}, dict.fromkeys(range(9), 1)])
def test_an_invalid_tick_table_is_an_error(table: dict[int, object]) -> None:
    with pytest.raises(ConfigError, match=r"symbols\.0\.tick_table"):
        load_config(overrides={"symbols": [{"name": "A", "tick_table": table}]})


def test_configured_account_fees_are_applied(tmp_path: Path) -> None:
    ruled = {"fees": {"taker_ppm": 50}}
    expected = 0
    for accounts, fee in (
        ({"bob": {"fees": {"taker_ppm": 7, "maker_ppm": -1}}}, 7 * 100),
        ({"bob": {"fees": {}}}, 0),
        ({"bob": {"collar_ticks": 100}}, 50 * 100),
        ({"bob": {"fees": {"taker_microticks": 5}}}, 5),
        ({}, 50 * 100),
    ):  # fmt: skip
        with exchange(tmp_path, at("10:00"), ruled, accounts=accounts) as served:
            served.trade(at("10:00"), 100)
            expected += fee
            assert served.core.market.account(BOB).fees_microticks == expected
