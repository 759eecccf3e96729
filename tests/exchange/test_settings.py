"""Rules and limits are those of the configuration at every start, also where it says less than the last time."""

from pathlib import Path

import pytest

from serl.exchange.errors import ConfigError
from serl.exchange.records import HIGH_TICKS, LAST_TICKS, LOT, LOW_TICKS, TICKS, CommandKind, Setting, Side
from tests.exchange.clockwork import ANN, BAND, BOB, OWN, at, exchange

RULED: dict[str, object] = {
    "tick_table": {0: 2, 100: 5},
    "lot_multiple": 10,
    "matching": "pro-rata",
    "band_low_ticks": 10,
    "fees": {"taker_ppm": 50, "maker_microticks": -3},
    **BAND,
}
LIMITED: dict[str, object] = {"order_lots_max": 5, "collar_ticks": 7, "self_trade": "oldest"}


def test_what_the_configuration_says_no_more_is_no_more(tmp_path: Path) -> None:
    accounts = {"ann": LIMITED, "bob": {"orders_open_max": 9}}
    with exchange(tmp_path, at("10:00"), RULED, accounts=accounts) as served:
        state = served.core.market.state
        ruled = state.symbols[0].copy()
        assert state.accounts[ANN].any() and state.accounts[BOB].any() and len(served.sent(CommandKind.RULE)) == 9
        served.send(CommandKind.ACCOUNT, at("10:00"), OWN, order_id=BOB, flags=Setting.KILLED, price_ticks=1)
    with exchange(tmp_path, at("11:00"), RULED, accounts=accounts) as served:
        assert not len(served.sent(CommandKind.RULE)) and not len(served.sent(CommandKind.ACCOUNT)), "as it was"
    with exchange(tmp_path, at("12:00"), {}, accounts={"ann": {"collar_ticks": 8}}) as served:
        state = served.core.market.state
        assert dict(enumerate(state.accounts[ANN])) == dict.fromkeys(Setting, 0) | {Setting.COLLAR_TICKS: 8}
        assert dict(enumerate(state.accounts[BOB])) == dict.fromkeys(Setting, 0) | {Setting.KILLED: 1}
        assert state.symbols[0, :TICKS].tolist() == [*[0] * LOT, 1, *[0] * (TICKS - LOT - 1)]
        assert state.symbols[0, TICKS : TICKS + 6].tolist() == [0, 1, 100, 1, 0, 0]
        served.trade(at("12:00"), 107)
        assert served.core.market.account(BOB).position_lots == 0, "killed"
        served.send(CommandKind.NEW, at("12:00"), OWN, side=Side.BUY, qty_lots=1, price_ticks=107)
        assert served.core.market.account(OWN).position_lots == 1, "no lots, no ticks, no band"
    with exchange(tmp_path, at("13:00"), RULED) as served:
        known = served.core.market.state.symbols[0].copy()
        known[LAST_TICKS], known[HIGH_TICKS], known[LOW_TICKS] = ruled[[LAST_TICKS, HIGH_TICKS, LOW_TICKS]]
        assert known.tolist() == ruled.tolist()


def test_a_shorter_tick_table_holds_from_the_same_prices(tmp_path: Path) -> None:
    for table, known in (
        ({0: 1, 100: 5, 200: 10}, [0, 1, 100, 5, 200, 10]),
        ({50: 2, 200: 20}, [0, 1, 50, 2, 100, 2, 200, 20]),
        ({0: 3}, [0, 3, 50, 3, 100, 3, 200, 3]),
    ):
        with exchange(tmp_path, at("10:00"), {"tick_table": table}) as served:
            assert served.core.market.state.symbols[0, TICKS : TICKS + len(known)].tolist() == known


def test_a_tick_table_without_room_is_told(tmp_path: Path) -> None:
    with exchange(tmp_path, at("10:00"), {"tick_table": dict.fromkeys(range(0, 50, 10), 5)}):
        pass
    with (
        pytest.raises(ConfigError, match=r"S0\.tick_table.*8.*journal"),
        exchange(tmp_path, at("10:00"), {"tick_table": dict.fromkeys(range(5, 45, 10), 5)}),
    ):
        pass
