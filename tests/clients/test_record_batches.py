"""The journal of an exchange is copied in batches: the day file does not depend on their size."""

import threading
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.clients.blocking import connect
from serl.clients.errors import Rejected, RequestRejected
from serl.clients.record_accounts import accounts_recorder
from serl.clients.replay_news import publish
from serl.exchange.news import News
from serl.exchange.records import COMMAND, CommandKind, TimeInForce
from serl.exchange.request import request_socket
from serl.exchange.wire import Kind
from serl.history.accounts import verify_accounts
from serl.history.day import day_writer, read_day
from tests.clients.test_record_accounts import record
from tests.server_fixture import Served, free_endpoint, start_exchange

CONFIG: dict[str, Any] = {
    "symbols": [{"name": "AMZN", "tick_size": "0.05", "lot_size": "10"}],
    "accounts": {"bob": {"order_lots_max": 5}},
}
IN_BATCHES = "import serl.exchange.admin as admin\nadmin.DROP_COPY_ROWS = {}"


def trade(exchange: Served) -> None:
    """Orders that trade, rest, end and are rejected."""
    with ExitStack() as stack:
        alice, bob = (stack.enter_context(connect(exchange.endpoint, who)) for who in ("alice", "bob"))
        for lots in (3, 2, 1):
            alice.sell("AMZN", lots, 1000)
        bob.buy("AMZN", 5, 1000)
        for lots in (6, 7):
            with pytest.raises(Rejected):
                bob.buy("AMZN", lots, 990)
        bob.buy("AMZN", 5, 1001, time_in_force=TimeInForce.IOC)
        alice.mass_cancel("AMZN")
        alice.buy("AMZN", 1, 940)


@pytest.mark.parametrize("size", [1, pytest.param(4, marks=pytest.mark.long)])
def test_batches_of_any_size_make_the_same_file(size: int, tmp_path: Path) -> None:
    """Events of a command that is in a later batch are kept for it, and the events of one command come in several batches."""
    with start_exchange(symbols="", config=CONFIG, folder=tmp_path, prelude=IN_BATCHES.format(size)) as exchange:
        trade(exchange)
        day = record(exchange.endpoint, tmp_path / "day.parquet", exchange.operator)
        with request_socket(exchange.endpoint, "admin") as ask:
            commands = np.zeros(0, COMMAND)
            while data := ask(Kind.COMMAND_COPY, exchange.operator, len(commands))[5][0]:
                commands = np.concatenate([commands, np.frombuffer(data, COMMAND)])
    recorded, replayed = verify_accounts(day)
    assert recorded == replayed
    reference, orders = day.reference, day.commands[day.commands["kind"] == CommandKind.NEW]
    assert orders["qty_lots"].tolist() == [3, 2, 1, 5, 5, 1], "without those that were rejected"
    kept = commands[day.rows]
    assert kept["kind"].tolist() == day.commands["kind"].tolist() and (np.diff(day.rows) > 0).all()
    midnight_ns = set((kept["time_ns"] - day.commands["time_ns"]).tolist())
    assert midnight_ns == {int(datetime.fromisoformat(f"{reference.date}T00:00Z").timestamp()) * 10**9}
    times = day.commands["time_ns"]
    assert (reference.first_time_ns, reference.last_time_ns) == (times[0], times[-1])
    assert reference.source_rows == len(commands)
    assert [(one.name, one.tick_size, one.lot_size) for one in reference.symbols] == [("AMZN", "0.05", "10")]


def test_an_exchange_that_stops_leaves_a_whole_file(tmp_path: Path) -> None:
    """Participants are numbered after the exchange, also one that has sent no command; news of each symbol is kept."""
    path, news = (
        tmp_path / "day.parquet",
        [News(0, 0, 1, symbol, "Of note", "", None, "") for symbol in ("AMZN", "GOOG", "")],
    )
    with (
        start_exchange() as exchange,
        day_writer(path, accounts=True) as writer,
        accounts_recorder(exchange.endpoint, writer) as recorder,
    ):
        for number, who in enumerate(("alice", "bob"), 1):
            with connect(exchange.endpoint, who) as client:
                client.buy("GOOG", number, 1000)
        with request_socket(exchange.endpoint, "admin") as ask:
            published = [publish(ask, "", message) for message in news]
        while recorder.copy_batch():
            pass
        recorder.copy_news()
        exchange.kill()
        assert recorder.run(threading.Event(), lambda _: None) == "the exchange stopped"
        recorder.finish()
    day = read_day(path, accounts=True)
    names = [day.reference.participants[number] for number in day.commands["participant"]]
    assert list(zip(names, day.commands["qty_lots"].tolist(), strict=True)) == [("alice", 1), ("bob", 2)]
    assert [(one.symbol, one.sequence) for one in day.news] == [("AMZN", 1), ("GOOG", 2), ("", 3)]
    midnight_ns = int(datetime.fromisoformat(f"{day.reference.date}T00:00Z").timestamp()) * 10**9
    assert [one.time_ns for one in day.news] == [one.time_ns - midnight_ns for one in published]
    recorded, replayed = verify_accounts(day)
    assert recorded == replayed


def test_another_journal_that_is_longer_ends_the_recording(tmp_path: Path) -> None:
    """A file had the first commands of one journal and the later ones of the other, if the restart took no longer than the wait between two batches."""
    options: dict[str, Any] = {"symbols": "", "config": CONFIG, "folder": tmp_path, "endpoint": free_endpoint()}
    with ExitStack() as stack:
        with start_exchange(**options) as exchange:
            trade(exchange)
            writer = stack.enter_context(day_writer(tmp_path / "day.parquet", accounts=True))
            recorder = stack.enter_context(accounts_recorder(exchange.endpoint, writer, exchange.operator))
            assert recorder.copy_batch()
            copied = writer.commands
        with start_exchange(**options) as exchange:
            trade(exchange)
            trade(exchange)
            recorder._token = recorder._drop_copy._token = exchange.operator
            with pytest.raises(RequestRejected, match="restarted with another journal"):
                recorder.copy_batch()
        recorder.finish()
    assert len(read_day(tmp_path / "day.parquet", accounts=True)) == copied > 0
