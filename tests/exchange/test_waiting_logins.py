"""Logins that wait, for the disk or for missed reports, and sessions that replace another: nobody is undone, ended or left without a turn."""

import time
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import yaml
import zmq

from serl.exchange.config import socket_endpoints
from serl.exchange.records import COMMAND, TimeInForce
from serl.exchange.wire import Kind
from tests.server_fixture import WAIT_MS, RawClient, launch, start_exchange

HOLD = """
import time
from pathlib import Path
def hold(folder=Path({folder!r})):
    while (folder / "hold").exists():
        (folder / "held").touch()
        time.sleep(0.005)
"""
HELD_SAVES = """
from serl.exchange.journal.participants_file import ParticipantsFile
save = ParticipantsFile._save
def held(self, entries):
    hold()
    save(self, entries)
ParticipantsFile._save = held
"""
HELD_FILES = """
from serl.exchange.journal.event_store import EventStore
in_files = EventStore.in_files
def held(self, before):
    hold()
    yield from in_files(self, before)
EventStore.in_files = held
"""
HELD_LOOP = """
from serl.exchange import server
serve_orders = server.Exchange._serve_orders
def held(self):
    if self.inbound.next_ns - self.clock.now_ns() < 100_000_000:
        hold()
        while self.clock.now_ns() < self.inbound.next_ns:
            time.sleep(0.005)
    return serve_orders(self)
server.Exchange._serve_orders = held
"""
"""The loop stands still before an order is due, some time after it came, and until then: the order, a query and a command of an operator are served in one turn."""
HELLO, ORDER, BYE, PROMISE = 64, 1, 65, 67


class Holding:
    """Holds up a part of an exchange."""

    def __init__(self, folder: Path) -> None:
        self._hold, self._held = folder / "hold", folder / "held"
        self.prelude = HOLD.format(folder=str(folder))

    def begin(self) -> None:
        self._hold.touch()

    def wait(self) -> None:
        """Returns once the part stands still."""
        deadline_s = time.monotonic() + WAIT_MS / 1000
        while not self._held.exists():
            assert time.monotonic() < deadline_s
            time.sleep(0.005)

    def end(self) -> None:
        self._hold.unlink()


def test_two_logins_that_wait_do_not_undo_each_other(tmp_path: Path) -> None:
    """Each changed the option of the other, had it saved, and waited again."""
    holding = Holding(tmp_path)
    with (
        start_exchange(journal=tmp_path / "journal", prelude=holding.prelude + HELD_SAVES) as exchange,
        RawClient(exchange.endpoint) as first,
        RawClient(exchange.endpoint) as second,
    ):
        with RawClient(exchange.endpoint) as known:
            known.login("ann")
            known.send(BYE)
            known.receive(Kind.GOODBYE)
        holding.begin()
        first.send(HELLO, 1, 1, "ann", "", -1, {"cancel_on_disconnect": True})
        holding.wait()
        second.send(HELLO, 1, 1, "ann", "", -1, {"cancel_on_disconnect": False})
        assert first.receive()[:2] == [Kind.ERROR, "duplicate_login"]
        holding.end()
        assert second.receive()[0] == Kind.WELCOME


def orders(count: int) -> bytes:
    rows = np.zeros(count, COMMAND)
    rows["kind"], rows["qty_lots"], rows["price_ticks"], rows["time_in_force"] = ORDER, 1, 100, TimeInForce.IOC
    rows["command_id"] = np.arange(1, count + 1)
    return rows.tobytes()


def test_a_login_that_waits_does_not_end_a_newer_session(tmp_path: Path) -> None:
    """Its client may have given up."""
    path = tmp_path / "exchange.yaml"
    path.write_text(yaml.safe_dump({"symbols": [{"name": "A"}], "journal": {"segment_rows": 8192}}))
    holding = Holding(tmp_path)
    exchange = launch("--config", str(path), prelude=holding.prelude + HELD_FILES)
    try:
        with RawClient(exchange.endpoint) as away:
            away.login("away")
            rows = orders(30_000)
            for first in range(0, len(rows), 1000 * COMMAND.itemsize):
                away.send(32, rows[first : first + 1000 * COMMAND.itemsize])
                away.receive(Kind.REPORTS)
            away.send(BYE)
            away.receive(Kind.GOODBYE)
        with RawClient(exchange.endpoint) as old, RawClient(exchange.endpoint) as new:
            holding.begin()
            old.send(HELLO, 1, 1, "away", "", 10, {"replace": True, "cancel_on_disconnect": True})
            holding.wait()
            new.login("away", replace=True)
            assert old.receive()[:2] == [Kind.ERROR, "duplicate_login"]
            holding.end()
            new.send(ORDER, 40_000, 0, 0, 5, 90, 0, 0, 0)
            assert new.receive(Kind.REPORTS)[2][0][0] == 1
            with RawClient(exchange.endpoint) as later:  # the search of the first would be over before this one
                later.send(HELLO, 1, 1, "away", "", 10, {"replace": True})
                assert later.receive(Kind.WELCOME)[4] == 11
                assert new.receive(Kind.GOODBYE)[1] == "replaced"
    finally:
        exchange.stop()


def test_in_lockstep_a_session_that_replaces_another_gets_its_turn() -> None:
    """The one before had the turn of the same time, in the same place."""
    with (
        start_exchange(clock="lockstep") as exchange,
        RawClient(exchange.endpoint) as ann,
        RawClient(exchange.endpoint) as bob,
        RawClient(exchange.endpoint) as again,
    ):
        time_ns = ann.login("ann")[7][2] + 1000
        bob.login("bob")
        for client in (ann, bob):
            client.send(PROMISE, time_ns)
        assert ann.receive(Kind.GRANT)[1] == bob.receive(Kind.GRANT)[1] == time_ns
        # bob promises nothing more: after the end of the other session, time would go on without the new one
        assert again.login("ann", replace=True)[7][2] == time_ns
        again.send(PROMISE, time_ns)
        assert again.receive(Kind.GRANT)[1] == time_ns


def test_a_snapshot_is_not_within_a_batch(tmp_path: Path) -> None:
    """An order that arrives late and a halt are published together; a snapshot between them would have the order already."""
    latency = {"orders": {"kind": "constant", "delay_us": 400_000}}
    path = tmp_path / "exchange.yaml"
    path.write_text(yaml.safe_dump({"symbols": [{"name": "A"}], "accounts": {"slow": {"latency": latency}}}))
    holding = Holding(tmp_path)
    exchange = launch("--config", str(path), prelude=holding.prelude + HELD_LOOP)
    feed = zmq.Context.instance().socket(zmq.SUB)
    try:
        feed.linger = 0
        feed.connect(socket_endpoints(exchange.endpoint)["feed"])
        feed.subscribe(b"l3/A/")
        with (
            RawClient(exchange.endpoint) as slow,
            RawClient(exchange.endpoint, "queries") as queries,
            RawClient(exchange.endpoint, "admin") as admin,
        ):
            slow.login("slow")
            queries.send(130, 1, 0)
            queries.receive(146)
            admin.send(163, 1, exchange.operator, 18, 0)
            admin.receive(179, 97)
            assert feed.poll(WAIT_MS) and feed.recv_multipart(), "the subscription has arrived: its topic is repeated"
            holding.begin()
            slow.send(ORDER, 1, 0, 0, 5, 100, 0, 0, 0)
            holding.wait()
            queries.send(130, 2, 0)
            admin.send(163, 2, exchange.operator, 17, 0)
            time.sleep(0.1)  # both are to be there when the loop goes on; if they are not, this tests less
            holding.end()
            snapshot = queries.receive(146)
            admin.receive(179, 97)
            message: list[Any] = []
            while not message or not message[5]:  # topics are repeated without items
                assert feed.poll(WAIT_MS), "the order was not published"
                message = msgpack.unpackb(feed.recv_multipart()[1])
            is_applied = message[2] <= snapshot[3] < message[3]  # as docs/protocol.md says
            assert is_applied != bool(snapshot[5]), (
                "the order is in the snapshot or in what is applied to it, not in both"
            )
    finally:
        feed.close()
        exchange.stop()


def test_bulk_messages_in_other_encodings_of_msgpack() -> None:
    """The compiled loop reads the shortest form alone; Python passes the others on in it."""
    with start_exchange() as exchange, RawClient(exchange.endpoint) as client:
        client.login("ann")
        rows = np.zeros(1, COMMAND)
        rows["kind"], rows["qty_lots"], rows["price_ticks"], rows["time_in_force"] = ORDER, 1, 100, TimeInForce.IOC
        for command_id, head in enumerate((b"\xdc\x00\x02\x20", b"\x92\xcc\x20", b"\x92\x20"), 1):
            rows["command_id"] = command_id
            client.socket.send(head + msgpack.packb(rows.tobytes()))
            assert client.receive(Kind.REPORTS, Kind.ERROR)[:2] == [Kind.REPORTS, 2 * command_id - 1]
