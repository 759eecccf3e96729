"""The live ITCH stream against the ITCH export of the recorded session, message by message, and over gaps."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from serl.clients.blocking import connect
from serl.clients.record_accounts import accounts_recorder
from serl.exchange.records import CommandKind, HaltReason, Phase, Side, TimeInForce
from serl.exchange.request import request_socket
from serl.exchange.terms import Terms
from serl.exchange.wire import Kind
from serl.gateways.itch.feed import frame
from serl.history.day import day_writer, read_day
from serl.history.importing import import_day
from serl.history.itch.accounts import write_itch_of_accounts
from serl.history.itch.messages import decode, encode
from tests.gateways.ouch.client import Gateway, SoupClient, cancel, enter, gateway, replace, shares
from tests.server_fixture import Served, free_endpoint, start_exchange

MAX_FLOOR = 5


def itch_client(started: Gateway, sequence: int = 1) -> SoupClient:
    client = SoupClient(started.port("ITCH"))
    client.log_in("bob", sequence)
    return client


def read_until(client: SoupClient, kind: str, **fields: Any) -> list[dict[str, Any]]:
    """Messages up to one of this type with these fields."""
    messages: list[dict[str, Any]] = []
    while True:
        messages.append(decode(client.payload()))
        if messages[-1]["type"] == kind and all(messages[-1][name] == value for name, value in fields.items()):
            return messages


def exported(endpoint: str, folder: Path) -> list[dict[str, Any]]:
    """The messages of the ITCH export of the session so far, of all accounts."""
    with day_writer(folder / "session.day", accounts=True) as writer, accounts_recorder(endpoint, writer) as recorder:
        while recorder.copy_batch():
            pass
        recorder.finish()
    write_itch_of_accounts(read_day(folder / "session.day", accounts=True), folder / "session.itch")
    data, messages, at = (folder / "session.itch").read_bytes(), [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        messages.append(decode(data[at + 2 : at + 2 + size]))
        at += 2 + size
    return messages


def trade_a_session(started: Gateway, exchange: Served) -> None:
    """Two users over OUCH: adds, executions, replacements, cancels, hidden and iceberg orders, a halt, auctions."""

    def operate(kind: CommandKind, symbol: int, flags: int = 0) -> None:
        ask(Kind.OPERATE, exchange.operator, kind, symbol, flags)

    with ExitStack() as stack:
        ask = stack.enter_context(request_socket(exchange.endpoint, "admin"))
        alice, bob = (stack.enter_context(SoupClient(started.port())) for _ in range(2))
        alice.log_in("alice", 0)
        bob.log_in("bob", 0)
        alice.send(*(enter(ref, b"B", 10 * ref, 1_000_000 - 100 * ref) for ref in range(1, 6)))
        alice.send(*(enter(ref, b"S", 10 * ref, 1_000_000 + 100 * ref) for ref in range(6, 11)))
        alice.send(
            enter(11, b"S", 50, 1_000_000, display=b"N"), enter(12, b"S", 60, 1_000_000, options=shares(MAX_FLOOR, 20))
        )
        alice.messages(12)
        bob.send(
            enter(1, b"B", 45, 1_000_000, tif=b"3"),
            enter(2, b"B", 100, 1_000_000),
            enter(3, b"B", 7, 990_000, symbol=b"GOOG"),
        )
        while bob.message()["user_ref"] != 3:
            pass
        alice.send(replace(1, 13, 5, 999_900), replace(2, 14, 30, 999_500), cancel(3), cancel(4, 15), cancel(5))
        while alice.message().get("user_ref") != 5:
            pass
        operate(CommandKind.HALT, 1, HaltReason.NEWS)
        operate(CommandKind.RESUME, 1)
        operate(CommandKind.PHASE, 0, Phase.PRE_OPEN)
        alice.send(enter(15, b"S", 25, 2_000_000_000, cross=b"O"), enter(16, b"B", 10, 1_001_000))
        while alice.message()["user_ref"] != 16:
            pass
        operate(CommandKind.PHASE, 0, Phase.CONTINUOUS)
        bob.send(enter(4, b"S", 3, 1_100_000, symbol=b"GOOG"))
        while bob.message()["user_ref"] != 4:
            pass


CONFIG: dict[str, object] = {"symbols": [{"name": "AMZN", "lot_multiple": 5}, {"name": "GOOG"}]}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A session's live messages and its exported ones."""
    folder = tmp_path_factory.mktemp("itch")
    with (
        start_exchange(symbols="", journal=folder / "journal", config=CONFIG, folder=folder) as exchange,
        gateway(exchange.endpoint, folder, "--itch", "127.0.0.1:0") as started,
    ):
        with itch_client(started) as reader:
            trade_a_session(started, exchange)
            live = read_until(reader, "A", stock="GOOG", price=1_100_000)
        with itch_client(started) as again:
            raw = [again.payload() for _ in live]
        return {"live": live, "exported": exported(exchange.endpoint, folder), "raw": raw, "folder": folder}


def test_the_live_stream_is_the_export_of_the_session(session: dict[str, Any]) -> None:
    live, expected = session["live"], session["exported"]
    begin, *rest = live
    assert (begin["type"], begin["event"]) == ("S", "O")
    lots = [[message[name] for name in ("stock", "round_lot", "round_lots_only")] for message in rest[:2]]
    assert lots == [["AMZN", 5, "Y"], ["GOOG", 100, "N"]]
    kinds = {message["type"] for message in rest}
    assert kinds >= set("RAECXDUPQH"), kinds
    assert [(message["type"], message["state"]) for message in rest[2:4]] == [("H", "T"), ("H", "T")]
    assert rest[4:] == expected[5:-1]  # the times of the directory and the first states are those of the start
    times = [message["time_ns"] for message in live]
    assert times == sorted(times)


@pytest.mark.long
def test_the_stream_is_a_file_that_serl_imports(session: dict[str, Any]) -> None:
    path = session["folder"] / "live.itch"
    path.write_bytes(b"".join(len(message).to_bytes(2, "big") + message for message in session["raw"]))
    reference = import_day(path).reference
    assert reference.source_rows == len(session["raw"])


@pytest.mark.long
def test_gaps_are_told_as_what_changed(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    options = ("--itch", "127.0.0.1:0")
    with ExitStack() as stack:
        exchange = stack.enter_context(start_exchange(journal=tmp_path / "journal", endpoint=endpoint))
        carol = stack.enter_context(connect(endpoint, "carol"))
        kept, reduced, gone = (carol.buy("AMZN", 10, price) for price in (100, 101, 102))
        with gateway(endpoint, tmp_path, *options) as first:
            with itch_client(first) as reader:
                before = read_until(reader, "A", price=10_000)
            assert [message["type"] for message in before] == ["S", "R", "R", "H", "H", "A", "A", "A"]
            first.kill()
        carol.cancel(gone)
        carol.reduce(reduced, 4)
        carol.sell("GOOG", 5, 200, terms=Terms(display_lots=2))
        with request_socket(endpoint, "admin") as ask:
            ask(Kind.OPERATE, exchange.operator, CommandKind.HALT, 1, HaltReason.NEWS)
        second = stack.enter_context(gateway(endpoint, tmp_path, *options))
        reader = stack.enter_context(itch_client(second, len(before) + 1))
        changes = read_until(reader, "A")
        assert [message["type"] for message in changes] == ["D", "X", "H", "A"]
        assert (
            changes[1]["shares"] == 4
            and (changes[2]["state"], changes[2]["reason"]) == ("H", "T1")
            and changes[3]["shares"] == 2
        )
        exchange.kill()
        stack.enter_context(start_exchange(journal=tmp_path / "journal", endpoint=endpoint))
        with connect(endpoint, "dave") as dave:
            dave.buy("AMZN", 1, 50, time_in_force=TimeInForce.GTC)
            (added,) = read_until(reader, "A")
            assert (added["price"], added["side"]) == (5000, "B") and kept.side == Side.BUY


def test_frames_have_a_type_behind_their_length() -> None:
    messages = [encode({"type": "D", "order": number}) for number in range(3)] + [encode({"type": "S", "event": "O"})]
    packets, count = frame(b"".join(messages))
    expected = b"".join(len(message[1:]).to_bytes(2, "big") + b"S" + message[2:] for message in messages)
    assert (packets, count) == (expected, 4)
