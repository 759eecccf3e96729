"""Cboe PITCH, captured packets and text: books of random sessions, the specification's own messages, gaps, halts, broken files."""

import gzip
from pathlib import Path

import pytest

from serl.history import order_writer
from serl.history.day import Day
from serl.history.errors import PitchError, SourceError
from serl.history.importing import detect_format, import_file
from serl.history.source import Options
from tests.history.pitch_sample import (
    SECOND,
    Session,
    add,
    base_36,
    capture,
    deleted,
    executed,
    executed_at,
    frame,
    imported,
    message,
    modified,
    packet,
    pcap,
    reduced,
    status,
    time,
    traded,
)
from tests.history.sample import commands_of_row
from tests.history.samples import replay_to_rows

BID = add(1, 7, "B", 100, "AAA", 10_000)
NEW_BID = [("NEW", 0, 0, 100, 100)]
Command = tuple[str, int, int, int, int]


def require_books(day: Day, session: Session, every: int = 1) -> None:
    """The book of a market that plays the day, after every message, equals that of the session."""
    names = [symbol.name for symbol in day.reference.symbols]
    rows = list(range(0, len(session.books), every))
    for row, market in zip(rows, replay_to_rows(day, rows), strict=True):
        for number, name in enumerate(names):
            sides = market.book(number, 1_000)
            shown = tuple({int(one["price_ticks"]): int(one["qty_lots"]) for one in side} for side in sides)
            assert shown == session.books[row][name], f"{name}, row {row}"


@pytest.mark.parametrize("seed", range(2))
def test_the_books_of_a_capture(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several messages a packet, two feeds with the same packets, which come in either order; the events reach the book in batches."""
    monkeypatch.setattr(order_writer, "BATCH_RECORDS", 50)
    session = Session(seed).run(500)
    messages, frames, sequence = [time(SECOND), *session.binary], [], 1
    while messages:
        payload = packet(sequence, *messages[: 1 + sequence % 5])
        frames += [frame(payload, 30_501 + sequence % 2), frame(payload, 30_502 - sequence % 2)]
        sequence, messages = sequence + len(messages[: 1 + sequence % 5]), messages[1 + sequence % 5 :]
    day = imported(tmp_path, pcap(frames))
    require_books(day, session, every=3)
    counts = day.reference.counts
    assert counts["messages"] == counts["messages_repeated"] == sequence - 1 == len(session.binary) + 1
    wrong = (
        "missing_lots",
        "executions_other_head",
        "executions_unfilled",
        "executions_behind_best",
        "orders_out_of_date",
    )
    unread = ("orders_unknown", "messages_without_effect", "messages_missing", "times_raised")
    assert not any(counts[name] for name in (*wrong, *unread))
    assert min(counts[name] for name in ("executions", "executions_other_price", "modifies", "trades_hidden", "prints_rounded")) > 15  # fmt: skip
    assert day.reference.date == "2020-09-24" and day.commands["time_ns"][0] == SECOND * 10**9 + 1_000


@pytest.mark.parametrize("seed", range(2))
def test_the_books_of_a_text(seed: int, tmp_path: Path) -> None:
    session = Session(seed, is_text=True).run(500)
    lines = "\r\n".join(session.text)
    day = imported(tmp_path, gzip.compress(lines.encode()), date="2020-09-24")
    require_books(day, session, every=3)
    assert day.reference.counts["executions"] > 50 and day.reference.counts["executions_other_head"] == 0
    assert day.reference.source_rows == 500 and day.commands["time_ns"][0] == (SECOND * 1_000 + 1) * 10**6


def test_one_symbol_of_several(tmp_path: Path) -> None:
    session = Session(3).run(200)
    day = imported(tmp_path, capture(*session.binary), symbols=("BBB.WS",))
    assert [symbol.name for symbol in day.reference.symbols] == ["BBB.WS"]
    require_books(day, session, every=7)
    assert day.reference.counts["messages_left_out"] > 50
    with pytest.raises(PitchError, match="expected orders of CCC, got 200 messages without"):
        imported(tmp_path, capture(*session.binary), symbols=("CCC",))


SPECIFIED = [
    "22 21 18d20600 05405b778f561d0b 42 204e0000 5a565a5a5420 5a23000000000000 01",
    "26 24 18d20600 05405b778f561d0b 64000000 bc4d0000 342b46e0bb000000 e8a30f0000000000",
    "1b 27 18d20600 05405b778f561d0b f8240100 e8a30f0000000000 03",
    "13 28 18d20600 05405b778f561d0b 6400 0a28 03",
]
"""20,000 of ZVZZT at .9050 (447 us after the second), of which 100 trade at 102.50 and 19,900 stay; then 75,000 at 102.50, then 100 there."""


def test_the_messages_of_the_specification(tmp_path: Path) -> None:
    day = imported(tmp_path, capture(*(bytes.fromhex(text) for text in SPECIFIED)), tick_size="0.0001")
    assert [commands_of_row(day, row) for row in range(4)] == [
        [("NEW", 0, 0, 20_000, 9_050)],
        [("PRINT", 0, 0, 100, 1_025_000), ("REDUCE", 1, 0, 100, 9_050)],
        [("CANCEL", 1, 0, 0, 9_050), ("NEW", 0, 0, 75_000, 1_025_000)],
        [("REDUCE", 5, 0, 74_900, 1_025_000)],
    ]
    assert set(day.commands["time_ns"].tolist()) == {SECOND * 10**9 + 447_000}
    assert day.reference.symbols[0].name == "ZVZZT"


RECORDED = [
    ("S28800011AAK27GA0000DTS000100SH    0000619200Y", [("NEW", 0, 1, 100, 6_192)]),
    ("S28800012ABK27GA00000KB001000SSO   0000763800Y", [("NEW", 0, 0, 1_000, 7_638)]),
    ("S28800168XBK27GA00000K000100", [("REDUCE", 2, 0, 100, 7_638)]),
    ("S28800318EAK27GA0000DT00004000001AQ00001", [("NEW", 0, 0, 40, 6_192)]),
    ("S28858232XAK27GA0000DT000060", [("CANCEL", 1, 1, 0, 6_192)]),
    ("S28880387P4K27GA0000EZB000100DRYS  0001074900000A001NJEPR", [("PRINT", 0, 0, 100, 10_749)]),
]
"""Lines as they are on BATS's feed."""


def test_recorded_lines(tmp_path: Path) -> None:
    day = imported(tmp_path, "\n".join(line for line, _ in RECORDED).encode())
    assert [commands_of_row(day, row) for row in range(len(RECORDED))] == [commands for _, commands in RECORDED]
    assert [symbol.name for symbol in day.reference.symbols] == ["SH", "SSO", "DRYS"]
    assert day.commands["time_ns"][0] == 28_800_011 * 10**6


@pytest.mark.parametrize(
    ("one", "commands", "counts"),
    [
        (add(2, 8, "S", 30, "AAA", 10_050), [("NEW", 0, 1, 30, 101)], {"prices_rounded": 1}),
        (executed(2, 7, 40), [("NEW", 0, 1, 40, 100)], {"executions": 1}),
        (executed_at(2, 7, 40, 60, 10_000), [("NEW", 0, 1, 40, 100)], {"executions_other_price": 0}),
        (executed_at(2, 7, 40, 10, 10_000), [("NEW", 0, 1, 40, 100), ("REDUCE", 1, 0, 50, 100)], {}),
        (executed_at(2, 7, 100, 0, 9_930), [("PRINT", 0, 0, 100, 99), ("CANCEL", 1, 0, 0, 100)], {"prints_rounded": 1}),
        (executed_at(2, 7, 100, 80, 10_000), [("NEW", 0, 1, 100, 100), ("NEW", 0, 0, 80, 100)], {}),
        (executed_at(2, 7, 40, 80, 10_000), [("NEW", 0, 1, 40, 100), ("CANCEL", 1, 0, 0, 100), ("NEW", 0, 0, 80, 100)], {}),
        (reduced(2, 7, 100), [("CANCEL", 1, 0, 0, 100)], {"cancels": 1}),
        (modified(2, 7, 60, 10_000, True), [("REDUCE", 1, 0, 40, 100)], {"modifies": 1}),
        (modified(2, 7, 60, 10_000, False), [("CANCEL", 1, 0, 0, 100), ("NEW", 0, 0, 60, 100)], {"modifies": 1}),
        (modified(2, 7, 160, 10_000, True), [("CANCEL", 1, 0, 0, 100), ("NEW", 0, 0, 160, 100)], {}),
        (deleted(2, 7), [("CANCEL", 1, 0, 0, 100)], {}),
        (deleted(2, 8), [], {"orders_unknown": 1}),
        (traded(2, "S", 5, "AAA", 10_150), [("PRINT", 0, 1, 5, 102)], {"trades_hidden": 1, "prints_rounded": 1}),
        (add(2, 8, "S", 30, "AAA", 9_900), [("CANCEL", 1, 0, 0, 100), ("NEW", 0, 1, 30, 99)], {"orders_out_of_date": 1}),
        (status(2, "AAA", "H"), [("HALT", 0, 0, 0, 0)], {"halts": 1}),
        (status(2, "AAA", "Q"), [("HALT", 0, 0, 0, 0)], {"halts": 1}),
        (status(2, "AAA", "T"), [], {"halts": 0, "resumes": 0}),
        (message(0x97, bytes(4)), [("CANCEL", 1, 0, 0, 100)], {}),
        (message(0x2C, bytes(4), bytes(8)), [], {"broken_trades": 1}),
        (message(0x96, bytes(4), b"AAA     O", bytes(12)), [], {"auctions": 1}),
    ],
)  # fmt: skip
def test_one_message(one: bytes, commands: list[Command], counts: dict[str, int], tmp_path: Path) -> None:
    day = imported(tmp_path, capture(BID, one.replace(bytes(4), b"\2\0\0\0", 1) if one[2:6] == bytes(4) else one))
    assert commands_of_row(day, 0) == NEW_BID and commands_of_row(day, 1) == commands
    assert counts.items() <= day.reference.counts.items()


def test_unknown_and_longer_messages_are_read_past(tmp_path: Path) -> None:
    longer = bytes([len(BID) + 3]) + BID[1:] + b"new"
    day = imported(tmp_path, capture(message(0xE5, b"later"), longer))
    assert commands_of_row(day, 0) == NEW_BID and day.reference.counts["messages_without_effect"] == 1


def test_orders_held_in_a_halt(tmp_path: Path) -> None:
    """A status before the first order counts too; what trades in a halt is printed."""
    day = imported(
        tmp_path, capture(status(1, "AAA", "A"), BID, add(2, 8, "S", 20, "AAA", 10_100), reduced(3, 8, 5), executed(4, 7, 10), status(5, "AAA", "T"))
    )  # fmt: skip
    assert [commands_of_row(day, row) for row in range(1, 6)] == [
        [("HALT", 0, 0, 0, 0)], [], [], [("PRINT", 0, 0, 10, 100)],
        [("RESUME", 0, 0, 0, 0), ("NEW", 0, 0, 90, 100), ("NEW", 0, 1, 15, 101)],
    ]  # fmt: skip


def test_a_clear_is_of_its_unit_and_a_symbol_clear_of_its_symbol(tmp_path: Path) -> None:
    one = [time(SECOND), BID, message(0x97, b"\2\0\0\0")]
    other = [time(SECOND), add(1, 9, "B", 5, "BBB", 10_000)]
    day = imported(tmp_path, pcap([frame(packet(1, *other, unit=2)), frame(packet(1, *one))]))
    assert commands_of_row(day, 2) == [("CANCEL", 2, 0, 0, 100)] and len(day) == 3
    lines = [f"28800011A{base_36(order)}B000100{name:<6}0000010000Y" for order, name in ((1, "AAA"), (2, "BBB"))]
    text = imported(tmp_path, "\n".join([*lines, "28800012sBBB     "]).encode())
    assert commands_of_row(text, 2) == [("CANCEL", 2, 0, 0, 100)]


def test_gaps_and_units(tmp_path: Path) -> None:
    """A lost packet is counted; so is what came before the first Time of a unit. Units may be a little apart in time."""
    frames = [
        packet(5, deleted(1, 1), time(SECOND), BID), packet(9, deleted(2, 7)), packet(9, deleted(2, 7)), packet(10),
        packet(1, time(SECOND), add(1, 9, "B", 5, "BBB", 10_000), unit=2), packet(0, unit=2),
    ]  # fmt: skip
    other = frame(b"a query of names", 53)
    day = imported(tmp_path, pcap([other, *(frame(one) for one in frames)]))
    counts = day.reference.counts
    assert (counts["gaps"], counts["messages_missing"], counts["messages_repeated"]) == (1, 1, 1)
    assert (counts["messages_untimed"], counts["other_packets"], counts["times_raised"]) == (1, 1, 1)
    assert day.commands["time_ns"].tolist() == [SECOND * 10**9 + ns for ns in (1, 2, 2)]


def test_captures_of_every_kind(tmp_path: Path) -> None:
    frames = [frame(packet(1, time(SECOND), BID))]
    block = len(frames[0]).to_bytes(4, "little")
    padded = frames[0] + bytes(-len(frames[0]) % 4)
    size = (32 + len(padded)).to_bytes(4, "little")
    ng = b"\x0a\x0d\x0d\x0a\x1c\0\0\0M<+\x1a\x01\0\0\0" + b"\xff" * 8 + b"\x1c\0\0\0" + b"\1\0\0\0\x14\0\0\0\1\0\0\0\xff\xff\0\0\x14\0\0\0"  # fmt: skip
    ng += b"\6\0\0\0" + size + bytes(12) + block + block + padded + size
    vlan = frames[0][:12] + b"\x81\0\0\5" + frames[0][12:]
    for data in (pcap(frames), pcap(frames, "big"), pcap(frames, magic=0xA1B23C4D), pcap([vlan]), ng):
        assert len(imported(tmp_path, data)) == 1 and detect_format(tmp_path / "sample.pitch").name == "Cboe PITCH"


def at(message_bytes: bytes) -> bytes:
    """A capture whose third packet, at byte 196, has this message."""
    return capture(BID, message_bytes)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (at(add(2, 7, "B", 1, "AAA", 9_000)), r"byte 262: expected an order id that is not open yet \(message add order \(long\)\), got 2221"),
        (at(add(2, 0, "B", 1, "AAA", 9_000)), "byte 262: expected an order id above 0"),
        (at(add(2, 8, "X", 1, "AAA", 9_000)), "byte 262: expected side B or S"),
        (at(add(2, 8, "B", 0, "AAA", 9_000)), "byte 262: expected a quantity above 0"),
        (at(add(2, 8, "B", 1, "AAA", 0)), "byte 262: expected a price above 0"),
        (at(add(2, 8, "B", 1 << 31, "AAA", 1 << 62)), "byte 262: expected a price above 0, and at most 2.53 ticks x lots"),
        (at(add(2, 8, "B", 1, "", 9_000)), "byte 262: expected a symbol"),
        (at(add(10**9, 8, "B", 1, "AAA", 9_000)), "byte 262: expected a time offset below a second"),
        (at(add(0, 8, "B", 1, "AAA", 9_000)), "byte 262: expected a time not before 34200000000001 ns"),
        (at(time(SECOND - 1)), "byte 262: expected seconds after midnight, not before"),
        (at(executed(2, 7, 101)), "byte 262: expected at most the 100 open lots of the order"),
        (at(reduced(2, 7, 0)), "byte 262: expected a quantity above 0"),
        (at(executed(2, 7, 0)), "byte 262: expected a quantity above 0"),
        (at(executed_at(2, 7, 0, 100, 10_000)), "byte 262: expected a quantity above 0"),
        (at(reduced(2, 7, 101)), "byte 262: expected at most the 100 open lots of the order"),
        (at(status(2, "AAA", "Z")), "byte 262: expected a trading status"),
        (at(b"\x05\x29abc"), "byte 262: expected a message delete order of 14 bytes, got length 5"),
        (at(deleted(2, 7))[:-3], "byte 196: expected a whole packet, got the end of the file"),
        (at(deleted(2, 7))[:-14] + b"\x01" + bytes(13), r"byte 262: expected message 1 of 1 of a packet, got 0100"),
        (at(deleted(2, 7))[:-14] + b"\x0f" + bytes(13), r"byte 262: expected message 1 of 1 of a packet"),
        (at(deleted(2, 7))[:-14] + b"\x08\xe5" + bytes(12), r"byte 270: expected the end of a packet, got 0000"),
        (at(deleted(2, 7))[:-22] + b"\xff\xff" + bytes(20), r"byte 254: expected a sequenced unit header"),
        (at(deleted(2, 7))[:196] + b"\xff" * 90, r"byte 196: expected a packet after its length, got ffff"),
        (pcap([frame(packet(1, message(0x2D, bytes(4))))] + [frame(packet(1, time(SECOND), BID))] * 2), "expected orders of any symbol"),
    ],
)  # fmt: skip
def test_broken_captures(data: bytes, error: str, tmp_path: Path) -> None:
    with pytest.raises(PitchError, match=error):
        imported(tmp_path, data)


def test_a_second_day_in_a_capture(tmp_path: Path) -> None:
    day = [frame(packet(1, time(SECOND), BID, message(0x2D, b"\2\0\0\0")))]
    with pytest.raises(
        PitchError, match="expected one trading day, got the first messages of unit 1 again after its end"
    ):
        imported(tmp_path, pcap([*day, frame(packet(1, time(SECOND), BID, BID))]))


def test_a_capture_that_cuts_packets(tmp_path: Path) -> None:
    whole = pcap([frame(packet(1, time(SECOND), BID)), frame(packet(3, deleted(2, 7)))])
    kept = len(frame(packet(3, deleted(2, 7))))
    cut = whole[: -kept - 8] + (kept - 5).to_bytes(4, "little") + whole[-kept - 4 : -5]
    with pytest.raises(PitchError, match="expected a whole packet, got 17 of its 22 bytes; capture whole packets"):
        imported(tmp_path, cut)


LINE = f"S28800011A{base_36(7)}B000100AAA   0000010000Y"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (f"28800012E{base_36(7)}000101{base_36(1)}", "line 2: expected at most the 100 open lots"),
        (f"28800012E{base_36(7)}00010", "line 2: expected a message order executed of 39 characters"),
        (f"28800012X{base_36(7)}0001xx", "line 2: expected shares of 6 digits"),
        ("28800012X!00000000000000100", "line 2: expected an order id of 12 digits to base 36"),
        (f"28800010X{base_36(7)}000100", "line 2: expected a time not before 28800011 ms"),
        (f"2880001xX{base_36(7)}000100", "line 2: expected milliseconds after midnight"),
        ("28800012", "line 2: expected milliseconds after midnight"),
        (f"28800012A{base_36(8)}Z000100AAA   0000010000Y", "line 2: expected side B or S"),
        ("\0" * 5_000, "line 2: expected milliseconds after midnight"),
    ],
)
def test_broken_lines(line: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(PitchError, match=error):
        imported(tmp_path, f"{LINE}\n{line}\n".encode())


def test_options_and_the_verdict(tmp_path: Path) -> None:
    path = tmp_path / "pitch_20200924.txt"
    path.write_text("\n".join(line for line, _ in RECORDED))
    reference, verdict = import_file(path, tmp_path / "day.parquet")
    assert reference.date == "2020-09-24" and verdict.rejected == {} and verdict.rows == len(RECORDED)
    with pytest.raises(SourceError, match="Cboe PITCH accepts --symbols, --tick-size, --date, got --lot-size"):
        import_file(path, tmp_path / "day.parquet", Options(lot_size="1"))


@pytest.mark.parametrize(("offset_ns", "second", "inferred"), [(200_000_000, SECOND + 1, 1), (950_000_000, SECOND, 0)])
def test_a_gap_may_hold_the_time_message(offset_ns: int, second: int, inferred: int, tmp_path: Path) -> None:
    """Its second is inferred: time within a unit never runs backwards."""
    frames = [packet(1, time(SECOND)), packet(2, add(900_000_000, 1, "B", 5, "AAA", 10_000)), packet(4, add(offset_ns, 2, "B", 5, "AAA", 10_000))]  # fmt: skip
    day = imported(tmp_path, pcap([frame(one) for one in frames]))
    assert day.commands["time_ns"].tolist() == [SECOND * 10**9 + 900_000_000, second * 10**9 + offset_ns]
    assert day.reference.counts["seconds_inferred"] == inferred


def test_a_gap_is_bridged_by_the_time_of_the_other_units(tmp_path: Path) -> None:
    frames = [
        packet(1, time(SECOND), add(1, 1, "B", 5, "AAA", 10_000)), packet(1, time(SECOND + 90), add(5, 9, "B", 5, "BBB", 10_000), unit=2),
        packet(4, add(7, 2, "B", 5, "AAA", 10_000)),
    ]  # fmt: skip
    day = imported(tmp_path, pcap([frame(one) for one in frames]))
    assert (day.commands["time_ns"] - SECOND * 10**9).tolist() == [1, 90 * 10**9 + 5, 90 * 10**9 + 7]


def test_units_one_after_the_other_are_refused(tmp_path: Path) -> None:
    """All of the second were given the last time of the first."""
    frames = [
        packet(1, time(SECOND + 61), add(0, 1, "B", 5, "AAA", 10_000)), packet(1, time(SECOND), add(0, 9, "B", 5, "BBB", 10_000), unit=2)
    ]  # fmt: skip
    with pytest.raises(
        PitchError, match=r"byte \d+: expected a time at most a minute before .* it is 61\.000 s before it; sort them"
    ):
        imported(tmp_path, pcap([frame(one) for one in frames]))
