"""Days with the commands of all participants: their replay reproduces every event of the full rule book."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from serl.exchange.market import Market
from serl.exchange.records import (
    COMMAND,
    CommandFlag,
    CommandKind,
    EventKind,
    Phase,
    Rows,
    Setting,
    Side,
    Term,
    TimeInForce,
    command,
)
from serl.exchange.terms import Terms, order, replacement
from serl.history.accounts import effective_commands, events_of, put_exchange_first, to_time_of_day, verify_accounts
from serl.history.day import read_day, write_day
from serl.history.errors import DayOfAccounts
from tests.exchange.generate import PROFILES
from tests.history.accounts_sample import random_batches, recorded_day

COMMANDS = 8_000
COUNTERS = ("sequence", "command_sequence", "report")
"""Event fields that also count rejected commands, which a recorded day drops."""


@pytest.mark.parametrize("profile", PROFILES)
def test_a_replay_reproduces_every_event_but_rejections(profile: str, tmp_path: Path) -> None:
    """Streams of the differential test: every kind of order, term, phase, rule and setting, in random states."""
    market, parts = random_batches(profile, COMMANDS)
    day = recorded_day(market, parts)
    assert 0 < COMMANDS - len(day) < COMMANDS / 2, "rejected commands are dropped"
    write_day(day, tmp_path / "a.parquet")
    read = read_day(tmp_path / "a.parquet", accounts=True)
    day.commands["sequence"] = 0
    assert read.reference == day.reference and np.array_equal(read.commands, day.commands)
    original = without_rejections(np.concatenate([events for _, events in parts]))
    again = without_rejections(np.concatenate(list(events_of(read))))
    assert np.array_equal(original, again)
    was, replayed = verify_accounts(read)
    assert was == replayed


def without_rejections(events: Rows) -> Rows:
    rows = events[events["kind"] != EventKind.REJECTED]
    for name in COUNTERS:
        rows[name] = 0
    return rows


def new(participant: int, command_id: int, side: Side, lots: int, price: int, flags: int = 0, **values: int) -> Rows:
    return command(
        CommandKind.NEW, participant=participant, command_id=command_id, side=side, qty_lots=lots, price_ticks=price,
        flags=flags, time_in_force=values.pop("time_in_force", TimeInForce.GTC), **values,
    )  # fmt: skip


def test_a_rejected_order_still_consumes_its_terms() -> None:
    """Otherwise the next order, here without its own display, would get them."""
    market = Market(["A"])
    iceberg = command(CommandKind.TERM, participant=1, command_id=1, flags=Term.DISPLAY_LOTS, price_ticks=2)
    prevention = command(CommandKind.TERM, participant=1, command_id=3, flags=Term.SELF_TRADE, price_ticks=2)
    rows = np.concatenate([
        iceberg, new(1, 2, Side.BUY, 0, 100, CommandFlag.TERMS), prevention, new(1, 4, Side.BUY, 9, 100, CommandFlag.TERMS),
        new(1, 5, Side.BUY, 0, 100),
    ])  # fmt: skip
    day = recorded_day(market, [(rows, market.submit(rows))])
    assert day.commands["command_id"].tolist() == [1, 2, 3, 4]
    assert day.commands["qty_lots"].tolist() == [0, 0, 0, 9]
    (events,) = events_of(day)
    assert events[-1]["qty_lots"] == 9, "all of it is displayed"


def test_a_rejected_replace_still_consumes_its_terms() -> None:
    market = Market(["A"])
    open_order = new(1, 1, Side.BUY, 5, 100)
    bad = replacement(2, Terms(stop_ticks=90), participant=1, order_id=1, qty_lots=5, price_ticks=100)
    good = order(
        4,
        Terms(stop_ticks=110, expire_ns=900),
        participant=1,
        qty_lots=5,
        price_ticks=99,
        time_in_force=TimeInForce.GTT,
    )
    later = replacement(7, Terms(expire_ns=950), participant=1, order_id=6, qty_lots=5, price_ticks=99)
    rows = np.concatenate([open_order, bad, good, later])
    day = recorded_day(market, [(rows, market.submit(rows))])
    assert day.commands["command_id"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert day.commands["qty_lots"].tolist() == [5, 0, 0, 0, 0, 5, 0, 5]
    (events,) = events_of(day)
    assert [EventKind(event["kind"]).name for event in events[-2:]] == ["ACCEPTED", "REDUCED"]


def test_a_stale_id_is_dropped_but_its_terms_stay() -> None:
    market = Market(["A"])
    iceberg = command(CommandKind.TERM, participant=1, command_id=5, flags=Term.DISPLAY_LOTS, price_ticks=2)
    late = new(1, 4, Side.BUY, 9, 100, CommandFlag.TERMS)
    rows = np.concatenate([iceberg, late, new(1, 6, Side.BUY, 9, 100, CommandFlag.TERMS)])
    day = recorded_day(market, [(rows, market.submit(rows))])
    assert day.commands["command_id"].tolist() == [5, 6]
    assert next(events_of(day))[-1]["qty_lots"] == 2


def test_a_rejected_command_still_makes_orders_expire() -> None:
    market = Market(["A"])
    ends = command(CommandKind.TERM, participant=1, command_id=1, flags=Term.EXPIRE_NS, price_ticks=500)
    good_till = new(1, 2, Side.BUY, 9, 100, CommandFlag.TERMS, time_in_force=TimeInForce.GTT)
    cancel = command(CommandKind.CANCEL, participant=2, command_id=1, order_id=7, time_ns=600)
    rows = np.concatenate([ends, good_till, cancel, new(2, 2, Side.SELL, 9, 100, time_ns=700)])
    day = recorded_day(market, [(rows, market.submit(rows))])
    assert day.commands["kind"].tolist() == [CommandKind.TERM, CommandKind.NEW, CommandKind.TIME, CommandKind.NEW]
    expired = next(events_of(day))[1]
    assert (expired["kind"], expired["time_ns"]) == (EventKind.CANCELLED, 600)


def test_times_and_expiries_become_times_of_day() -> None:
    rows = np.concatenate([
        command(CommandKind.TERM, flags=Term.EXPIRE_NS, price_ticks=1_700, time_ns=1_500),
        command(CommandKind.TERM, flags=Term.EXPIRE_NS, price_ticks=-(1 << 63), time_ns=1_500),
        command(CommandKind.TERM, flags=Term.MIN_LOTS, price_ticks=1_700, time_ns=1_501),
    ])  # fmt: skip
    to_time_of_day(rows, 1_000)
    assert rows["time_ns"].tolist() == [500, 500, 501]
    assert rows["price_ticks"].tolist() == [700, 0, 1_700]


@pytest.mark.parametrize(
    ("own", "participants", "others"), [(0, [0, 1, 2], [1, 2]), (1, [1, 0, 2], [0, 2]), (9, [1, 2, 3], [2, 3])]
)
def test_the_exchange_itself_is_participant_0(own: int, participants: list[int], others: list[int]) -> None:
    rows = np.zeros(3, COMMAND)
    rows["participant"], rows["order_id"] = [0, 1, 2], [7, 1, 2]
    rows["kind"] = [CommandKind.CANCEL, CommandKind.ACCOUNT, CommandKind.PURGE]
    put_exchange_first(rows, own)
    assert rows["participant"].tolist() == participants
    assert rows["order_id"].tolist() == [7, *others], "in a CANCEL it is an order id"


def test_phases_but_not_repeated_ones_are_on_the_tape() -> None:
    def tape_of(*phases: Phase) -> str:
        market = Market(["A"])
        market.grant_operator(0)
        rows = np.concatenate([command(CommandKind.PHASE, flags=phase) for phase in phases])
        return str(recorded_day(market, [(rows, market.submit(rows))]).reference.parameters["tape_sha256"])

    opening = tape_of(Phase.OPENING, Phase.CONTINUOUS)
    assert opening == tape_of(Phase.OPENING, Phase.OPENING, Phase.CONTINUOUS, Phase.CONTINUOUS)
    assert len({opening, tape_of(Phase.OPENING), tape_of(Phase.INTRADAY, Phase.CONTINUOUS)}) == 3


def test_both_sides_of_an_auction_are_on_the_tape() -> None:
    """The tapes differ only if the fills of displayed orders differ."""

    def tape_of(*buys: tuple[int, int]) -> str:
        market = Market(["A"])
        market.grant_operator(0)
        orders = [new(1, place, Side.BUY, lots, 100, flags) for place, (lots, flags) in enumerate(buys, 1)]
        rows = np.concatenate([
            command(CommandKind.PHASE, flags=Phase.OPENING), *orders, new(2, 1, Side.SELL, 4, 100),
            command(CommandKind.PHASE, flags=Phase.CONTINUOUS),
        ])  # fmt: skip
        return str(recorded_day(market, [(rows, market.submit(rows))]).reference.parameters["tape_sha256"])

    hidden = int(CommandFlag.HIDDEN)
    assert tape_of((3, 0), (3, hidden)) == tape_of((3, 0), (2, hidden)), "hidden before and after"
    assert tape_of((3, 0), (3, hidden)) != tape_of((3, 0), (3, 0))


def test_a_day_of_accounts_is_refused_where_one_participant_is_expected(tmp_path: Path) -> None:
    market = Market(["A"])
    rows = command(CommandKind.ACCOUNT, participant=0, order_id=1, flags=Setting.SELF_TRADE, price_ticks=1)
    market.grant_operator(0)
    day = recorded_day(market, [(rows, market.submit(rows))])
    write_day(day, tmp_path / "a.parquet")
    with pytest.raises(DayOfAccounts, match="got the commands of 3, for `serl replay`"):
        read_day(tmp_path / "a.parquet")
    one = dataclasses.replace(day, reference=dataclasses.replace(day.reference, participants=()))
    write_day(one, tmp_path / "b.parquet")
    assert read_day(tmp_path / "b.parquet").commands["participant"].tolist() == [0]


def test_without_rejections_nothing_is_dropped() -> None:
    market = Market(["A"])
    rows = np.concatenate([new(1, 1, Side.BUY, 5, 100), new(2, 1, Side.SELL, 5, 100)])
    rows["sequence"] = [1, 2]
    assert np.array_equal(effective_commands(rows, market.submit(rows)), rows)
