"""IEX DEEP: the rules of docs/history.md, damaged captures, and random days against a book of dictionaries."""

import gzip
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from serl.history import decompress
from serl.history.day import Day
from serl.history.errors import IexError
from serl.history.iex import packets
from serl.history.importing import detect_format, import_day
from serl.history.source import Options
from serl.history.verify import market_of
from tests.history.sample import commands_of_row
from tests.history.samples import Levels, replay_to_rows, top

MIDNIGHT_NS = 1_598_918_400_000_000_000
Message = bytes


def level(ns: int, side: str, price: float, shares: int, *, last: bool = True, symbol: str = "SPY") -> Message:
    kind = {"buy": b"8", "sell": b"5"}[side]
    return _message(kind, int(last), ns, symbol) + struct.pack("<Iq", shares, round(price * 10_000))


def trade(ns: int, price: float, shares: int) -> Message:
    return _message(b"T", 0, ns, "SPY") + struct.pack("<Iqq", shares, round(price * 10_000), ns)


def status(ns: int, value: str) -> Message:
    return _message(b"H", ord(value), ns, "SPY") + b"    "


def _message(kind: bytes, flag: int, ns: int, symbol: str) -> Message:
    return struct.pack("<cBq8s", kind, flag, MIDNIGHT_NS + ns, symbol.ljust(8).encode())


def segment(messages: Sequence[Message], sequence: int, protocol: int = packets.DEEP) -> bytes:
    """An IEX-TP segment in UDP, IP and Ethernet."""
    payload = b"".join(struct.pack("<H", len(message)) + message for message in messages)
    transport = struct.pack("<BxHIIHHqqq", 1, protocol, 1, 7, len(payload), len(messages), 0, sequence, 0)
    udp = struct.pack(">HHHH", 1, 2, 8 + len(transport) + len(payload), 0)
    internet = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp) + len(transport) + len(payload), 0, 0, 64, 17, 0, bytes(4), bytes(4))  # fmt: skip
    return bytes(12) + b"\x08\x00" + internet + udp + transport + payload


def pcap(frames: Sequence[bytes], link: int = 1) -> bytes:
    records = b"".join(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame for frame in frames)
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link) + records


def pcapng(frames: Sequence[bytes], link: int = 1) -> bytes:
    def block(kind: int, body: bytes) -> bytes:
        size = 12 + len(body)
        return struct.pack("<II", kind, size) + body + struct.pack("<I", size)

    head = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(1, struct.pack("<HHI", link, 0, 65535))
    return head + b"".join(
        block(6, struct.pack("<IIIII", 0, 0, 0, len(frame), len(frame)) + frame + bytes(-len(frame) % 4))
        for frame in frames
    )


def frames_of(messages: Sequence[Message], each: int = 3) -> list[bytes]:
    return [segment(messages[at : at + each], 1 + at) for at in range(0, len(messages), each)]


def imported(folder: Path, data: bytes, **options: str) -> Day:
    path = folder / "20200901_IEXTP1_DEEP1.0.pcap"
    path.write_bytes(data)
    return import_day(path, Options(symbols=("SPY",), **options))


OPENING = [level(1, "buy", 100.0, 500), level(2, "buy", 99.5, 200), level(3, "sell", 100.5, 300)]


def test_a_trade_at_a_best_price_takes_from_it(tmp_path: Path) -> None:
    day = imported(tmp_path, pcap(frames_of([*OPENING, trade(4, 100.0, 100), trade(5, 100.5, 300)])))
    assert commands_of_row(day, 3) == [("NEW", 0, 1, 100, 10_000)]
    assert commands_of_row(day, 4) == [("NEW", 0, 0, 300, 10_050)]
    assert (day.reference.first_time_ns, day.reference.last_time_ns) == (1, 5)


def test_the_levels_of_an_event_are_set_together(tmp_path: Path) -> None:
    """What an event removes goes first: its last message completes it."""
    event = [level(4, "buy", 100.5, 40, last=False), level(4, "sell", 100.5, 0, last=False), level(4, "sell", 101.0, 7)]
    day = imported(tmp_path, pcap(frames_of([*OPENING, level(3, "buy", 1.0, 9, symbol="SPYG"), *event])))
    assert commands_of_row(day, 5) == [("CANCEL", 3, 1, 0, 10050), ("NEW", 0, 0, 40, 10050), ("NEW", 0, 1, 7, 10100)]
    assert day.commands["time_ns"].tolist() == [1, 2, 3, 4, 4, 4]
    reference = day.reference
    assert (reference.symbols[0].name, reference.symbols[0].tick_size, reference.date) == ("SPY", "0.01", "2020-09-01")
    assert reference.counts["messages"] == 7 and reference.source_rows == 6


def test_trades_take_what_is_displayed_and_others_are_printed(tmp_path: Path) -> None:
    messages = [
        *OPENING, trade(5, 100.5, 100), level(5, "sell", 100.5, 200), trade(6, 100.25, 30), trade(7, 100.125, 10),
        trade(8, 99.5, 600), level(8, "buy", 100.0, 0, last=False), level(8, "buy", 99.5, 100),
    ]  # fmt: skip
    day = imported(tmp_path, pcap(frames_of(messages)))
    assert commands_of_row(day, 3) == [("NEW", 0, 0, 100, 10050)] and commands_of_row(day, 4) == []
    assert commands_of_row(day, 5) == [("PRINT", 0, 0, 30, 10025)]
    assert commands_of_row(day, 6) == [("PRINT", 0, 0, 10, 10012)], "half a tick, to the even one"
    assert commands_of_row(day, 7) == [("NEW", 0, 1, 600, 9950)] and commands_of_row(day, 9) == []
    counts = day.reference.counts
    assert (counts["trades"], counts["trades_unfilled"], counts["prints"], counts["prints_rounded"]) == (2, 0, 2, 1)


def test_a_halt_holds_the_levels_until_trading_resumes(tmp_path: Path) -> None:
    messages = [
        status(0, "T"), *OPENING, status(4, "H"), level(5, "buy", 100.0, 100), trade(5, 100.5, 9), level(6, "sell", 100.5, 0), status(7, "P"), status(8, "T"),
    ]  # fmt: skip
    day = imported(tmp_path, pcap(frames_of(messages)))
    assert commands_of_row(day, 4) == [("HALT", 0, 0, 0, 0)]
    assert commands_of_row(day, 9) == [("RESUME", 0, 0, 0, 0), ("REDUCE", 1, 0, 400, 10000), ("CANCEL", 3, 1, 0, 10050)]
    assert day.reference.counts["halts"] == 1 and day.reference.counts["prints"] == 1


def test_missing_and_repeated_messages_are_counted(tmp_path: Path) -> None:
    first, second, third = (segment([message], number) for number, message in zip((1, 2, 5), OPENING, strict=True))
    day = imported(tmp_path, pcapng([first, second, second, third, b"\0" * 60]))
    counts = day.reference.counts
    assert (counts["messages_missing"], counts["messages_repeated"], counts["other_packets"]) == (2, 1, 1)
    assert len(day) == 3


@pytest.mark.parametrize("capture", [pcap, pcapng])
@pytest.mark.parametrize("block_bytes", [1 << 20, 97])
def test_damaged_captures(capture: Callable[..., bytes], block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(decompress.read_blocks, "__defaults__", (block_bytes,))
    whole = capture(frames_of(OPENING))
    with pytest.raises(IexError, match="expected a whole packet, got the end of the file"):
        imported(tmp_path, whole[:-3])
    with pytest.raises(IexError, match="expected packets of Ethernet"):
        imported(tmp_path, capture(frames_of(OPENING), 101))
    with pytest.raises(IexError, match=r"expected messages of DEEP 1\.0 \(a file of TOPS"):
        imported(tmp_path, capture([segment(OPENING, 1, 0x8003)]))
    with pytest.raises(IexError, match="expected whole messages"):
        imported(tmp_path, capture([segment([OPENING[0][:-1]], 1)]))
    with pytest.raises(IexError, match=f"byte {len(whole)}: expected a packet after its length, got ffff"):
        imported(tmp_path, whole + b"\xff" * 40)


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([level(1, "buy", 100.005, 1)], "expected a level at a multiple of the tick, got 100.0050; give --tick-size"),
        ([level(1, "buy", -1.0, 1)], "expected a price above 0"),
        ([level(1, "buy", 2.0**48, 2**32 - 1)], "at most 2.53 ticks x shares"),
        ([level(2, "buy", 1.0, 1), level(1, "buy", 1.0, 1)], "message 1 of the symbol, .* expected a time not before"),
        ([level(1, "buy", 1.0, 1, symbol="SPYG")], "got 'SPY', which none of its 1 messages has"),
    ],
)
def test_invalid_messages(messages: list[Message], error: str, tmp_path: Path) -> None:
    with pytest.raises(IexError, match=error):
        imported(tmp_path, pcap(frames_of(messages)))


def test_one_symbol_must_be_named(tmp_path: Path) -> None:
    imported(tmp_path, pcap(frames_of(OPENING)))
    with pytest.raises(IexError, match="expected `--symbols NAME`, one of the many in the file, got ''"):
        import_day(tmp_path / "20200901_IEXTP1_DEEP1.0.pcap")


def random_day(seed: int) -> tuple[list[Message], dict[int, tuple[Levels, Levels]]]:
    """(messages, time: the book after the event that ends then), of a source whose book never crosses."""
    chance = random.Random(seed)
    books: tuple[Levels, Levels] = ({}, {})
    messages: list[Message] = []
    expected = {}

    def set_level(ns: int, side: int, ticks: int, shares: int, last: bool) -> None:
        messages.append(level(ns, ("buy", "sell")[side], ticks / 100, shares, last=last))
        books[side].pop(ticks, None)
        if shares:
            books[side][ticks] = shares

    for side, ticks in ((0, 9990), (1, 10010)):
        set_level(1, side, ticks, 500, True)
    for ns in range(2, 80):
        bid, ask = max(books[0]), min(books[1])
        messages.append(level(ns, "buy", 55.0, 7, symbol="OTHER"))
        if chance.random() < 0.3:
            side = chance.randrange(2)
            touch, left = (bid, ask)[side], books[side][(bid, ask)[side]]
            shares = chance.randint(1, left - 1) if left > 1 else 0
            if shares:
                messages.append(trade(ns, touch / 100, shares))
                set_level(ns, side, touch, left - shares, True)
        else:
            changes: list[tuple[int, int, int]] = []
            for _ in range(chance.randint(1, 3)):
                side = chance.randrange(2)
                ticks = chance.randint(bid - 6, ask - 1) if side == 0 else chance.randint(bid + 1, ask + 6)
                is_touch = ticks in (bid, ask)
                if side == 0 and any(s == 1 and t <= ticks for s, t, _ in changes):
                    continue
                if side == 1 and any(s == 0 and t >= ticks for s, t, _ in changes):
                    continue
                changes.append((side, ticks, chance.choice([10, 40] if is_touch else [0, 10, 40])))
            for number, change in enumerate(changes):
                set_level(ns, *change, number == len(changes) - 1)
        expected[ns] = (dict(books[0]), dict(books[1]))
    return messages, expected


@pytest.mark.parametrize("seed", range(20))
def test_random_days_equal_a_book_of_dictionaries_after_each_event(seed: int, tmp_path: Path) -> None:
    messages, expected = random_day(seed)
    day = imported(tmp_path, (pcap, pcapng)[seed % 2](frames_of(messages, 1 + seed % 5)))
    market, commands = market_of(day)
    at = 0
    for ns, book in expected.items():
        stop = int(np.searchsorted(commands["time_ns"], ns, side="right"))
        market.submit(commands[at:stop])
        at = stop
        assert top(market, 99) == book, ns
    assert day.reference.counts["levels_crossed"] == 0


def test_compressed_files_and_small_blocks_are_the_same_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pcap(frames_of(random_day(3)[0]))
    whole = imported(tmp_path, data)
    assert detect_format(tmp_path / "20200901_IEXTP1_DEEP1.0.pcap").name == "IEX DEEP"
    monkeypatch.setattr(decompress.read_blocks, "__defaults__", (333,))
    assert imported(tmp_path, gzip.compress(data)).commands.tobytes() == whole.commands.tobytes()
    assert next(replay_to_rows(whole, [0]))


def test_an_operational_halt_halts_too(tmp_path: Path) -> None:
    """Until both kinds of halt have ended."""
    messages = [
        status(0, "T"), *OPENING, _message(b"O", ord("O"), 4, "SPY"), status(5, "H"), status(6, "T"), level(7, "buy", 99.0, 1),
        _message(b"O", ord("N"), 8, "SPY"),
    ]  # fmt: skip
    day = imported(tmp_path, pcap(frames_of(messages)))
    assert day.rows[3:].tolist() == [4, 8, 8] and day.reference.counts["halts"] == 1
    assert commands_of_row(day, 8) == [("RESUME", 0, 0, 0, 0), ("NEW", 0, 0, 1, 9_900)]
