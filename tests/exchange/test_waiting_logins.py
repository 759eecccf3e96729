"""Logins that wait, for the disk or for missed reports, and sessions that replace another: nobody is undone, ended or left without a turn."""

from pathlib import Path

import msgpack
import numpy as np
import yaml
import zmq

from serl.exchange.config import socket_endpoints
from serl.exchange.records import COMMAND, TimeInForce
from serl.exchange.wire import Kind
from tests.server_fixture import RawClient, launch, start_exchange

SLOW_SAVES = """
import time
from serl.exchange.journal.participants_file import ParticipantsFile
save = ParticipantsFile._save
def slowly(self, entries):
    time.sleep(0.05)
    save(self, entries)
ParticipantsFile._save = slowly
"""
SLOW_FILES = """
import time
from serl.exchange.journal.event_store import EventStore
in_files = EventStore.in_files
def slowly(self, before):
    time.sleep(0.5)
    yield from in_files(self, before)
EventStore.in_files = slowly
"""
LATE_LOOP = """
import time
from serl.exchange import server
serve_orders = server.Exchange._serve_orders
def late(self):
    if 0 < self.inbound.next_ns - self.clock.now_ns() < 100_000_000:
        time.sleep(0.15)
    return serve_orders(self)
server.Exchange._serve_orders = late
"""
"""The loop is not run for a while just before an order arrives: the order, a query and a command of an operator are served in one turn."""
HELLO, ORDER, BYE, PING, PROMISE = 64, 1, 65, 66, 67


def test_two_logins_that_wait_do_not_undo_each_other(tmp_path: Path) -> None:
    """Each changed the option of the other, had it saved, and waited again."""
    with (
        start_exchange(journal=tmp_path / "journal", prelude=SLOW_SAVES) as exchange,
        RawClient(exchange.endpoint) as first,
        RawClient(exchange.endpoint) as second,
    ):
        with RawClient(exchange.endpoint) as known:
            known.login("ann")
            known.send(BYE)
            known.receive(Kind.GOODBYE)
        first.send(HELLO, 1, 1, "ann", "", -1, {"cancel_on_disconnect": True})
        assert not first.socket.poll(20), "it waits"
        second.send(HELLO, 1, 1, "ann", "", -1, {"cancel_on_disconnect": False})
        assert first.receive()[:2] == [Kind.ERROR, "duplicate_login"]
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
    exchange = launch("--config", str(path), prelude=SLOW_FILES)
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
            old.send(HELLO, 1, 1, "away", "", 10, {"replace": True, "cancel_on_disconnect": True})
            assert not old.socket.poll(50), "it waits for its reports"
            new.login("away", replace=True)
            assert old.receive()[:2] == [Kind.ERROR, "duplicate_login"]
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
        bob.send(PROMISE, time_ns + 5000)
        bob.send(PING, 1)
        bob.receive(Kind.PONG)  # his promise has arrived: after the login of the other, time would go on without that one
        assert again.login("ann", replace=True)[7][2] == time_ns
        again.send(PROMISE, time_ns)
        assert again.receive(Kind.GRANT)[1] == time_ns


def test_a_snapshot_is_not_within_a_batch(tmp_path: Path) -> None:
    """An order that arrives late and a halt are published together; a snapshot between them would have the order already."""
    latency = {"orders": {"kind": "constant", "delay_us": 400_000}}
    path = tmp_path / "exchange.yaml"
    path.write_text(yaml.safe_dump({"symbols": [{"name": "A"}], "accounts": {"slow": {"latency": latency}}}))
    exchange = launch("--config", str(path), prelude=LATE_LOOP)
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
            slow.send(ORDER, 1, 0, 0, 5, 100, 0, 0, 0)
            assert not slow.socket.poll(370)
            queries.send(130, 2, 0)
            admin.send(163, 2, exchange.operator, 17, 0)
            snapshot = queries.receive(146)
            admin.receive(179, 97)
            while feed.poll(1000):
                _, data = feed.recv_multipart()
                message = msgpack.unpackb(data)
                assert not message[2] < snapshot[3] < message[3], "a part of the batch is in the snapshot"
                if message[3] >= snapshot[3] and message[5]:
                    break
            else:
                raise AssertionError("the order was not published")
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
