"""The calendar together with interruptions by price bands, across days, restarts and summer time."""

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from serl.exchange.calendar import Calendar, daily_times_ns
from serl.exchange.clock import Clock
from serl.exchange.config import ExchangeConfig, time_of_day_ns
from serl.exchange.gateway.loop import journal_rows
from serl.exchange.inbound import Inbound
from serl.exchange.records import CommandFlag, CommandKind, Phase, Side, Term, TimeInForce, command
from tests.exchange.offline_exchange import (
    ANN,
    BAND,
    BOB,
    DAY_NS,
    EXCHANGE,
    MONDAY_NS,
    SECOND_NS,
    OfflineExchange,
    at,
    entries,
    exchange,
)

NEW_YORK = ZoneInfo("America/New_York")


def test_the_end_of_an_interruption_does_not_shorten_the_closing_auction(tmp_path: Path) -> None:
    day = entries("09:30 continuous", "15:55 closing", "16:00 closed")
    with exchange(tmp_path, at("10:00"), {"day": day, **BAND}) as served:
        served.trade(at("15:53"), 106)
        served.schedule.run(at("15:54"))
        assert served.phase() == Phase.VOLATILITY
        served.schedule.run(at("17:00"))
        assert served.phases()[-2:] == [(at("15:55"), Phase.CLOSING), (at("16:00"), Phase.CLOSED)]


def test_an_interruption_ends_after_its_duration_and_can_recur(tmp_path: Path) -> None:
    with exchange(tmp_path, at("10:00"), {"day": entries("09:30 continuous"), **BAND}) as served:
        for began in ("11:00", "12:00"):
            served.trade(at(began), 106)
            served.schedule.run(at(began) + 299 * SECOND_NS)
            assert served.phase() == Phase.VOLATILITY
            served.schedule.run(at(began) + 300 * SECOND_NS)
            assert served.phases()[-1] == (at(began) + 300 * SECOND_NS, Phase.CONTINUOUS)
            assert served.phase() == Phase.CONTINUOUS


def test_cancelling_a_gtt_order_removes_its_expiry(tmp_path: Path) -> None:
    with exchange(tmp_path, 0, {}) as served:
        served.send(CommandKind.TERM, 1, ANN, flags=Term.EXPIRE_NS, price_ticks=500)
        gtt = {"qty_lots": 1, "price_ticks": 100, "time_in_force": TimeInForce.GTT, "flags": int(CommandFlag.TERMS)}
        served.send(CommandKind.NEW, 1, ANN, **gtt)
        order_id = served.core.command_sequence
        served.schedule.run(600, lambda time_ns: served.send(CommandKind.CANCEL, time_ns - 1, ANN, order_id=order_id))
        assert not len(served.core.market.orders()) and not len(served.core.market.specials())
        assert not len(served.sent(CommandKind.TIME)), "it was cancelled, and did not expire"


def test_an_operator_can_end_an_interruption_early(tmp_path: Path) -> None:
    with exchange(tmp_path, at("10:00"), BAND) as served:
        served.trade(at("11:00"), 106)
        served.schedule.run(at("11:01"))
        served.send(CommandKind.PHASE, at("11:02"), EXCHANGE, flags=Phase.CLOSED)
        served.schedule.run(at("12:00"))
        assert served.phase() == Phase.CLOSED


def test_a_volatility_phase_of_the_calendar_lasts_until_its_next_entry(tmp_path: Path) -> None:
    day = entries("09:30 continuous", "12:00 volatility", "12:30 continuous")
    with exchange(tmp_path, at("11:00"), {"day": day}) as served:
        served.schedule.run(at("12:15"))
        assert served.phase() == Phase.VOLATILITY
        served.schedule.run(at("13:00"))
        assert served.phases() == [(at("12:00"), Phase.VOLATILITY), (at("12:30"), Phase.CONTINUOUS)]
    with exchange(tmp_path, at("13:00"), {"day": day}) as served:
        assert not served.phases()


def test_a_restart_does_not_end_a_volatility_phase_of_the_calendar(tmp_path: Path) -> None:
    day = entries("09:30 continuous", "12:00 volatility", "12:30 continuous")
    for start in ("12:00", "12:10"):
        with exchange(tmp_path, at(start), {"day": day}) as served:
            served.schedule.run(at("12:29"))
            assert served.phase() == Phase.VOLATILITY


def test_a_restart_does_not_end_an_interruption(tmp_path: Path) -> None:
    """It lasts as long again; an entry that was due meanwhile ends it."""
    symbol = {"day": entries("09:30 continuous", "12:00 continuous", "16:00 closed"), **BAND}
    with exchange(tmp_path, at("10:00", MONDAY_NS), symbol, clock={"kind": "live"}) as served:
        served.trade(at("10:00", MONDAY_NS), 106)
    with exchange(tmp_path, at("10:01", MONDAY_NS), symbol, clock={"kind": "live"}) as served:
        served.schedule.run(at("10:04:59", MONDAY_NS))
        assert served.phase() == Phase.VOLATILITY and not served.phases()
        served.schedule.run(at("10:06", MONDAY_NS))
        assert served.phase() == Phase.CONTINUOUS
        served.trade(at("11:58", MONDAY_NS), 106)
        assert served.phase() == Phase.VOLATILITY
    with exchange(tmp_path, at("12:01", MONDAY_NS), symbol, clock={"kind": "live"}) as served:
        assert served.phases() == [(at("12:01", MONDAY_NS), Phase.CONTINUOUS)]


def test_every_entry_repeats_daily_despite_interruptions(tmp_path: Path) -> None:
    day = entries("09:30 continuous", "12:00 volatility", "12:30 continuous", "16:00 closed")
    with exchange(tmp_path, at("10:00", MONDAY_NS), {"day": day, **BAND}, clock={"kind": "live"}) as served:
        served.schedule.run(at("12:28", MONDAY_NS))
        assert served.phase() == Phase.VOLATILITY
        tuesday_ns, wednesday_ns = MONDAY_NS + DAY_NS, MONDAY_NS + 2 * DAY_NS
        served.schedule.run(at("11:58", tuesday_ns))
        served.trade(at("11:58", tuesday_ns), 106)
        before = len(served.phases())
        served.schedule.run(at("10:00", wednesday_ns))
        assert served.phases()[before:] == [
            (at("12:00", tuesday_ns), Phase.VOLATILITY),
            (at("12:30", tuesday_ns), Phase.CONTINUOUS),
            (at("16:00", tuesday_ns), Phase.CLOSED),
            (at("09:30", wednesday_ns), Phase.CONTINUOUS),
        ]


@pytest.mark.parametrize(("clock", "midnight_ns"), [("scaled", 0), ("lockstep", 0), ("live", MONDAY_NS)])
def test_a_day_starts_in_the_last_phase_of_the_previous_day(tmp_path: Path, clock: str, midnight_ns: int) -> None:
    day = entries("09:25 pre_open", "09:30 continuous", "16:00 closed")
    with exchange(
        tmp_path, at("08:00", midnight_ns), {"day": day}, {"day": day[:2]}, {}, clock={"kind": clock}
    ) as served:
        assert [served.phase(symbol) for symbol in range(3)] == [Phase.CLOSED, Phase.CONTINUOUS, Phase.CONTINUOUS]
        served.schedule.run(at("09:26", midnight_ns))
        assert [served.phase(symbol) for symbol in range(3)] == [Phase.PRE_OPEN, Phase.PRE_OPEN, Phase.CONTINUOUS]


@pytest.mark.parametrize("now", ["09:26", "09:30", "12:00", "17:00"])
def test_a_restart_during_a_day_applies_the_current_phase(tmp_path: Path, now: str) -> None:
    day = entries("09:25 pre_open", "09:30 continuous", "16:00 closed")
    with exchange(tmp_path, at("08:00"), {"day": day}) as served:
        served.schedule.run(at(now))
        phase = served.phase()
    with exchange(tmp_path, at(now), {"day": day}) as served:
        assert served.phase() == phase and not served.phases()


def rest(served: OfflineExchange, time_ns: int) -> None:
    """Orders with each time in force that ends with the day, and one that stays, in both symbols."""
    for symbol in range(2):
        for time_in_force in (TimeInForce.DAY, TimeInForce.AT_CLOSE, TimeInForce.GTC):
            served.send(
                CommandKind.NEW, time_ns, ANN, symbol=symbol, qty_lots=1, price_ticks=90, time_in_force=time_in_force
            )


def open_orders(served: OfflineExchange) -> list[int]:
    market = served.core.market
    return sorted([*market.orders()["time_in_force"].tolist(), *market.specials()["time_in_force"].tolist()])


SESSIONS: list[dict[str, object]] = [
    {"day": entries("09:30 continuous", "12:00 closed", "13:00 continuous", "16:00 closed")},
    {"day": entries("09:30 continuous", "15:30 closed")},
]


@pytest.mark.parametrize(("clock", "midnight_ns"), [("scaled", 0), ("live", MONDAY_NS)])
def test_the_day_ends_when_the_last_symbol_closes(tmp_path: Path, clock: str, midnight_ns: int) -> None:
    with exchange(tmp_path, at("10:00", midnight_ns), *SESSIONS, clock={"kind": clock}) as served:
        rest(served, at("10:00", midnight_ns))
        served.schedule.run(at("15:59", midnight_ns))
        assert len(open_orders(served)) == 6
        served.schedule.run(at("16:01", midnight_ns))
        assert open_orders(served) == 2 * [TimeInForce.GTC]
        assert served.sent(CommandKind.END_DAY)["time_ns"].tolist() == [at("16:00", midnight_ns)]


def test_a_closing_auction_is_held_before_the_day_ends(tmp_path: Path) -> None:
    with exchange(
        tmp_path, at("10:00"), {"day": entries("09:30 continuous", "15:55 closing", "16:00 closed")}
    ) as served:
        for participant, side in ((ANN, Side.SELL), (BOB, Side.BUY)):
            served.send(
                CommandKind.NEW, at("11:00"), participant, side=side, qty_lots=1, price_ticks=90,
                time_in_force=TimeInForce.AT_CLOSE,
            )  # fmt: skip
        served.schedule.run(at("16:00"))
        assert served.core.market.account(BOB).position_lots == 1


def test_a_day_that_ended_while_the_exchange_was_stopped_ends_at_the_start(tmp_path: Path) -> None:
    live = {"kind": "live"}
    with exchange(tmp_path, at("14:00", MONDAY_NS), *SESSIONS, clock=live) as served:
        rest(served, at("14:00", MONDAY_NS))
    with exchange(tmp_path, at("15:00", MONDAY_NS), *SESSIONS, clock=live) as served:
        assert len(open_orders(served)) == 6
    with exchange(tmp_path, at("10:00", MONDAY_NS + DAY_NS), *SESSIONS, clock=live) as served:
        assert open_orders(served) == 2 * [TimeInForce.GTC]
        rest(served, at("10:00", MONDAY_NS + DAY_NS))
    with exchange(tmp_path, at("11:00", MONDAY_NS + DAY_NS), *SESSIONS, clock=live) as served:
        assert len(open_orders(served)) == 8


def test_no_closing_auction_is_held_after_its_day(tmp_path: Path) -> None:
    live, symbol = {"kind": "live"}, {"day": entries("09:30 continuous", "15:55 closing", "16:00 closed")}
    with exchange(tmp_path, at("15:57", MONDAY_NS), symbol, clock=live) as served:
        served.trade(at("15:57", MONDAY_NS), 100)
    with exchange(tmp_path, at("10:00", MONDAY_NS + DAY_NS), symbol, clock=live) as served:
        assert served.phase() == Phase.CONTINUOUS and served.core.market.account(BOB).position_lots == 0
        assert not open_orders(served)


def test_without_a_closing_the_day_does_not_end(tmp_path: Path) -> None:
    with exchange(tmp_path, at("10:00"), {"day": entries("09:30 continuous")}, {}) as served:
        rest(served, at("10:00"))
        served.schedule.run(at("23:59"))
        assert len(open_orders(served)) == 6


@pytest.mark.parametrize(
    ("eve", "text", "hours_of_utc"),
    [
        (datetime(2026, 3, 7, 15), "09:30", [14, 13, 13]),
        (datetime(2026, 3, 7, 15), "02:30", [7, 7, 6]),  # on 8 March there is no 02:30
        (datetime(2026, 10, 31, 15), "09:30", [13, 14, 14]),
        (datetime(2026, 10, 31, 15), "02:30", [6, 7, 7]),
        (datetime(2026, 10, 31, 15), "01:30", [5, 5, 6]),  # on 1 November there are two
    ],
)
def test_summer_time_keeps_phases_at_their_local_time(eve: datetime, text: str, hours_of_utc: list[int]) -> None:
    eve_ns = int(eve.replace(tzinfo=UTC).timestamp()) * SECOND_NS
    times = [
        datetime.fromtimestamp(time_ns / SECOND_NS, UTC)
        for time_ns in islice(daily_times_ns(eve_ns, time_of_day_ns(text), NEW_YORK), 1, 4)
    ]
    assert [(time.day, time.hour, time.minute) for time in times] == [
        ((eve.day + later - 1) % 31 + 1, hour, 30) for later, hour in enumerate(hours_of_utc)
    ]


def test_a_phase_waits_for_a_halt_that_is_not_on_the_disk_yet(tmp_path: Path) -> None:
    """With `batch`, a command is journaled first and executed later. The PHASE came in between, was rejected, and the symbol did not open any more."""
    with exchange(tmp_path, at("09:26"), {"day": entries("09:25 pre_open", "09:30 continuous")}) as served:
        core = served.core
        inbound = Inbound(core, Clock(core.gateway, core.config.clock, lambda: 0))
        halt = command(CommandKind.HALT, participant=EXCHANGE, time_ns=at("09:29:59"), command_id=90)
        journal_rows(core.gateway, *core.arrays[:2], halt)
        served.schedule.run(at("09:31"), inbound.execute_before)
        assert served.phase() == Phase.PRE_OPEN and core.market.state.halted[0]
        core.submit(command(CommandKind.RESUME, participant=EXCHANGE, time_ns=at("09:32"), command_id=91))
        served.schedule.run(at("09:32"), inbound.execute_before)
        assert served.phase() == Phase.CONTINUOUS


def test_the_day_ends_after_a_closing_that_summer_time_delays() -> None:
    """02:30 does not exist on that day and becomes 03:30; the day ended at the other symbol's 03:00."""
    days = [entries("09:30 continuous", f"{closed} closed") for closed in ("02:30", "03:00")]
    symbols = [{"name": f"S{number}", "day": day} for number, day in enumerate(days)]
    config = ExchangeConfig.model_validate({"symbols": symbols, "time_zone": "America/New_York"})
    midnight = datetime(2026, 3, 8, tzinfo=NEW_YORK)
    calendar = Calendar(config, int(midnight.timestamp()) * SECOND_NS)
    due = list(calendar.pop_until(int(midnight.timestamp()) * SECOND_NS + 4 * 3600 * SECOND_NS))
    assert due[-1].kind == CommandKind.END_DAY and due[-1].time_ns == due[-2].time_ns > due[-3].time_ns


def test_a_phase_that_waits_for_a_halt_is_due_again_after_the_clock_went_back(tmp_path: Path) -> None:
    day = entries("08:00 pre_open", "09:30 continuous", "16:00 closing", "17:00 closed")
    with exchange(tmp_path, at("09:00"), {"day": day}) as served:
        served.send(CommandKind.HALT, at("09:20"), EXCHANGE, symbol=0)
        served.schedule.run(at("09:31"))
        served.schedule.set_back(at("09:22"))
        served.send(CommandKind.RESUME, at("09:25"), EXCHANGE, symbol=0)
        served.schedule.run(at("09:29"))
        assert served.phase() == Phase.PRE_OPEN
        served.schedule.run(at("16:30"))
        served.send(CommandKind.HALT, at("16:40"), EXCHANGE, symbol=0)
        served.schedule.run(at("18:00"))
        served.schedule.set_back(at("17:30"))  # after the time of the waiting phase, which therefore still waits
        served.send(CommandKind.RESUME, at("17:40"), EXCHANGE, symbol=0)
        served.schedule.run(at("17:40"))
        expected = [
            ("09:00", Phase.PRE_OPEN),
            ("09:30", Phase.CONTINUOUS),
            ("16:00", Phase.CLOSING),
            ("17:40", Phase.CLOSED),
        ]
        assert served.phases() == [(at(text), phase) for text, phase in expected]
