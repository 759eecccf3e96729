"""The messages of a tape, and the books before and after them."""

import numpy as np
import pytest

from serl.agents.realism.days import cut_window, parse_window, window_text
from serl.agents.realism.errors import EmptyWindow, NoSuchSymbol, NoTrades, NoTwoSidedBook, RealismError
from serl.agents.realism.messages import CANCEL, LIMIT, MARKET, mark_messages
from serl.agents.realism.scores import spread
from serl.agents.realism.tape import SECOND_NS, build_tape
from serl.exchange.errors import ConfigError
from serl.exchange.records import CommandKind, Phase, Rows, command
from serl.history.generate import generate_day
from tests.agents.realism.sample import BUY, MILLISECOND_NS, SELL, TEN_NS, change, day_of, five_messages, generated, new


def test_five_messages() -> None:
    tape = five_messages()
    assert tape.kind.tolist() == [LIMIT, LIMIT, MARKET, CANCEL, CANCEL]
    assert tape.side.tolist() == [BUY, SELL, BUY, BUY, BUY]
    assert tape.price_ticks.tolist() == [100, 101, 103, 100, 98]
    assert tape.qty_lots.tolist() == [5, 5, 20, 5, 5]
    assert (tape.time_ns - TEN_NS).tolist() == [
        0,
        MILLISECOND_NS,
        MILLISECOND_NS,
        4 * MILLISECOND_NS,
        1004 * MILLISECOND_NS,
    ]
    assert tape.entered_ns.tolist() == [-1, -1, -1, TEN_NS, -1], "arrivals of the opening book's orders are unknown"
    assert tape.first_cancel.tolist() == [False, False, False, True, True]
    assert tape.bid.tolist() == [99, 100, 100, 100, 99, 99]
    assert tape.ask.tolist() == [101, 101, 101, 103, 103, 103]
    assert tape.book_lots[:, 0].tolist() == [[10, 20], [5, 10], [5, 10], [5, 10], [10, 20], [10, 15]]
    assert tape.book_lots[:, 1].tolist() == [[10, 30], [10, 30], [15, 30], [25, 0], [25, 0], [25, 0]]


def test_changes_out_of_view_are_not_messages() -> None:
    opening = new(BUY, 99, 1), new(BUY, 98, 1), new(SELL, 101, 1), new(BUY, 90, 1)
    tape = build_tape(
        day_of(*opening, new(BUY, 95, 7, 1), change(CommandKind.CANCEL, 4, 2), new(BUY, 99, 2, 3), opening=4), 2
    )
    assert tape.price_ticks.tolist() == [99]
    assert tape.book_lots[0].tolist() == [[1, 1], [1, 0]]


def test_executions_with_the_same_time_and_side_are_one_message() -> None:
    asks = new(SELL, 101, 1), new(SELL, 102, 1), new(SELL, 103, 5), new(BUY, 99, 5)
    takes = new(BUY, 101, 1, 5, ioc=True), new(BUY, 102, 1, 5, ioc=True)
    tape = build_tape(day_of(*asks, *takes, new(SELL, 99, 1, 5, ioc=True), new(BUY, 103, 1, 6, ioc=True), opening=4))
    assert tape.kind.tolist() == [MARKET] * 3
    assert tape.sign.tolist() == [1, -1, 1]
    assert tape.qty_lots.tolist() == [2, 1, 1]
    assert tape.ask.tolist() == [101, 103, 103, 103]


def test_a_marketable_limit_order_is_a_market_and_a_limit_message() -> None:
    tape = build_tape(day_of(new(BUY, 99, 5), new(SELL, 101, 3), new(SELL, 102, 9), new(BUY, 101, 8, 1), opening=3))
    assert tape.kind.tolist() == [MARKET, LIMIT]
    assert tape.qty_lots.tolist() == [3, 5]
    assert tape.bid.tolist() == [99, 99, 101], "between the two messages only the opposite side has changed"
    assert tape.ask.tolist() == [101, 102, 102]


def test_a_replacement_is_a_cancellation_and_a_limit_message() -> None:
    opening = new(BUY, 99, 5), new(SELL, 101, 3), new(BUY, 98, 4)
    tape = build_tape(day_of(*opening, change(CommandKind.REPLACE, 1, 2, lots=6, price=100), opening=3))
    assert tape.kind.tolist() == [CANCEL, LIMIT]
    assert tape.qty_lots.tolist() == [5, 6]
    assert tape.bid.tolist() == [99, 98, 100]


def test_an_ioc_order_without_a_counterparty_is_not_a_message() -> None:
    with pytest.raises(EmptyWindow, match="expected visible messages, got none in the whole day"):
        build_tape(day_of(new(BUY, 99, 5), new(BUY, 100, 5, 1, ioc=True), opening=1))


def test_commands_inferred_from_a_partial_source_are_not_messages() -> None:
    """Two levels: an order; a cancellation in two commands, after which a level comes into view; a last order."""
    day = day_of(
        new(BUY, 99, 5),
        new(SELL, 101, 3),
        new(BUY, 99, 4),
        new(BUY, 98, 1, 1),
        change(CommandKind.CANCEL, 1, 2, price=99, side=BUY),
        change(CommandKind.CANCEL, 3, 2, price=99, side=BUY),
        new(BUY, 97, 7, 2),
        new(BUY, 97, 3, 3),
        rows=[-1, -1, -1, 0, 1, 1, 1, 2],
        levels=2,
        partial=True,
    )
    tape = build_tape(day)
    assert tape.kind.tolist() == [LIMIT, CANCEL, LIMIT]
    assert tape.qty_lots.tolist() == [1, 9, 3]
    assert tape.book_lots[2, 0].tolist() == [1, 7], "the book includes the level that came into view"
    assert tape.book_lots[3, 0].tolist() == [1, 10]


def test_reductions_before_an_arrival_in_a_partial_source_are_not_messages() -> None:
    commands = np.concatenate(
        [
            change(CommandKind.REDUCE, 7, 1, price=97, side=BUY, lots=2),
            new(BUY, 97, 3, 1),
            new(BUY, 90, 1, 1),
            change(CommandKind.CANCEL, 7, 2, price=97, side=BUY),
            new(SELL, 97, 3, 2),
            new(BUY, 97, 1, 3, ioc=True),
            change(CommandKind.CANCEL, 8, 3, price=97, side=SELL),
        ]
    )
    rows = np.array([0, 0, 0, 1, 1, 2, 2])
    assert mark_messages(commands, rows, True).tolist() == [False, True, False, True, False, True, False]
    assert mark_messages(commands, rows, False).all()


def test_a_generated_day_has_one_message_for_each_visible_command() -> None:
    day = generate_day(3, start_ns=TEN_NS, end_ns=TEN_NS + 600 * SECOND_NS)
    tape = build_tape(day, 500)
    takes = day.commands["time_in_force"] == 2
    assert len(tape) == (day.rows >= 0).sum(), "with this many levels everything is visible"
    assert (tape.kind == MARKET).sum() == takes.sum()
    assert ((tape.bid < tape.ask) & tape.two_sided).all()
    assert (np.diff(tape.book_ticks[:, 0, :10]) < 0).all() and (np.diff(tape.book_ticks[:, 1, :10]) > 0).all()
    few = build_tape(day, 2)
    assert 0 < len(few) < len(tape)
    assert np.isin(few.time_ns, tape.time_ns).all()


def test_the_arrays_grow_with_the_messages() -> None:
    """Marketable limit orders make two messages each: more messages than commands."""
    orders = [new(SELL, 101, 10**6), new(BUY, 99, 1)]
    for step in range(400):
        orders += [new(BUY, 100, 1, 4 * step + 1), new(SELL, 100, 2, 4 * step + 2), new(BUY, 100, 1, 4 * step + 3)]
    tape = build_tape(day_of(*orders, opening=2), 1)
    assert len(tape) == 400 * 4


def test_windows() -> None:
    tape = five_messages()
    cut = tape.window(TEN_NS + MILLISECOND_NS, TEN_NS + SECOND_NS)
    assert cut.kind.tolist() == [LIMIT, MARKET, CANCEL]
    assert cut.bid.tolist() == [100, 100, 100, 99]
    with pytest.raises(
        EmptyWindow, match=r"10:01:40-10:03:20: expected visible messages, got none; the day has messages in 10:00:00"
    ):
        tape.window(TEN_NS + 100 * SECOND_NS, TEN_NS + 200 * SECOND_NS)
    with pytest.raises(NoTrades, match="expected trades, got 2 messages and no trade"):
        tape.window(TEN_NS + 2 * MILLISECOND_NS, TEN_NS + 2 * SECOND_NS)
    with pytest.raises(NoTwoSidedBook):
        one_sided = build_tape(day_of(new(SELL, 101, 1), new(BUY, 101, 1, 1, ioc=True), opening=1))
        one_sided.window(TEN_NS, TEN_NS + SECOND_NS)


def test_invalid_symbols_levels_and_windows_are_refused() -> None:
    day = day_of(new(BUY, 9, 1), new(BUY, 7, 1, symbol=1), new(BUY, 6, 1, 1, symbol=1), symbols=("ONE", "TWO"))
    assert build_tape(day, symbol="TWO").price_ticks.tolist() == [7, 6]
    assert build_tape(day).price_ticks.tolist() == [9]
    with pytest.raises(NoSuchSymbol, match="expected one of ONE, TWO, got SIX"):
        build_tape(day, symbol="SIX")
    with pytest.raises(RealismError, match="levels: expected 1 to 1000"):
        build_tape(day, -1)
    few = day_of(new(BUY, 9, 1), new(SELL, 10, 1), new(BUY, 10, 1, 1, ioc=True), levels=2)
    assert cut_window(few, "few.day", None, 1, None).tape.levels == 1
    with pytest.raises(RealismError, match=r"few\.day: levels: expected at most the 2 that the day shows, got 3"):
        cut_window(few, "few.day", None, 3, None)
    for text in ("13:00", "14:00-13:00", "13:00-13:00"):
        with pytest.raises(RealismError, match="window"):
            parse_window(text)


def test_a_window_may_go_on_after_midnight_as_recorded_days_do() -> None:
    start_ns, end_ns = parse_window("23:30-24:30")
    assert (start_ns, end_ns) == (23.5 * 3600 * SECOND_NS, 24.5 * 3600 * SECOND_NS)
    assert window_text((start_ns, end_ns)) == "23:30:00-24:30:00"
    with pytest.raises(ConfigError, match="expected a time of day like 10:30 or 10:30:15, got '48:00'"):
        parse_window("23:30-48:00")


def test_a_source_without_a_window_is_the_whole_day_in_minutes() -> None:
    day = generate_day(3, start_ns=TEN_NS, end_ns=TEN_NS + 90 * SECOND_NS)
    source = cut_window(day, "x.day", None, 5, None)
    assert source.window == "10:00:00-10:02:00"
    assert len(source.tape) == len(build_tape(day, 5))
    first, second = source.halves()
    assert len(first.tape) + len(second.tape) == len(source.tape)
    assert "'seed': 3" in source.origin


def test_the_same_day_gives_the_same_tape() -> None:
    one, two = generated(4), generated(4)
    assert one.time_ns.tolist() == two.time_ns.tolist() and (one.book_lots == two.book_lots).all()


def test_an_auction_is_no_market_order() -> None:
    """Its trade was a buy of the whole auction, and the crossed book before it had a mid and a negative spread."""

    def operate(kind: CommandKind, ms: int, phase: Phase = Phase.CONTINUOUS) -> Rows:
        return command(kind, flags=phase, time_ns=TEN_NS + ms * MILLISECOND_NS)

    tape = build_tape(
        day_of(
            operate(CommandKind.PHASE, 0, Phase.INTRADAY), new(BUY, 101, 5, 10), new(SELL, 99, 5, 20), new(SELL, 103, 2, 20), new(BUY, 98, 3, 30),
            operate(CommandKind.UNCROSS, 150), operate(CommandKind.PHASE, 250), new(BUY, 103, 1, 350, ioc=True),
        )
    )  # fmt: skip
    assert tape.kind.tolist() == [LIMIT] * 4 + [MARKET] and tape.qty_lots[tape.trades].tolist() == [1]
    assert tape.two_sided.tolist() == [False] * 4 + [True, True] and spread(tape).tolist() == [5, 5]


def test_a_window_ends_with_the_day() -> None:
    """Minutes before and after the day were minutes without a move: returns with a kurtosis of 30 instead of -.4."""
    day = generate_day(8, start_ns=TEN_NS, end_ns=TEN_NS + 1800 * SECOND_NS)
    cut = cut_window(day, "x.day", parse_window("09:00-16:00"), 0, None)
    assert cut.window == "10:00:00-10:30:00" and cut.tape.span()[1] == build_tape(day).span()[1]
    assert cut_window(day, "x.day", parse_window("10:05-10:10"), 0, None).window == "10:05:00-10:10:00"
    with pytest.raises(EmptyWindow, match="11:00:00-12:00:00: expected visible messages"):
        cut_window(day, "x.day", parse_window("11:00-12:00"), 0, None)
