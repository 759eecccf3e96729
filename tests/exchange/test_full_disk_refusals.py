"""What the exchange refuses on a full disk changes nothing, and what it acknowledges then is still there after a crash."""

import time
from pathlib import Path

import msgpack
import numpy as np
import pytest

from serl.exchange.records import COMMAND, EVENT, CommandFlag, CommandKind, EventKind, Reason, Rows, Term, TimeInForce
from serl.exchange.wire import Kind
from tests.exchange.full_disk import NEEDS_MOUNTS, copy_journal, fill, fill_until_rejected, orders, send
from tests.server_fixture import RawClient, Served, launch, start_exchange

pytestmark = NEEDS_MOUNTS
LONG = pytest.mark.long


def cancels(first_id: int, count: int) -> Rows:
    rows = np.zeros(count, COMMAND)
    rows["command_id"] = first_id + np.arange(count)
    rows["kind"], rows["order_id"] = CommandKind.CANCEL, np.arange(1, count + 1)
    return rows


def restarted(journal: Path, *query: int) -> object:
    """The answer to a query of an exchange that starts on a copy of a journal."""
    again = launch("--symbols", "A", "--journal", str(journal))
    try:
        with RawClient(again.endpoint, "queries") as queries:
            queries.send(query[0], 1, *query[1:])
            return queries.receive()[5]
    finally:
        again.stop()


@LONG
def test_an_order_expires_on_a_full_disk(small: tuple[Served, Path]) -> None:
    """The exchange stopped: its own participant, which cancels the order from the reserved rows, did not exist yet and could not be saved."""
    served, disk = small
    with RawClient(served.endpoint) as ann:
        assert ann.login("ann")[0] == 96
        ann.send(int(CommandKind.TERM), 2, int(Term.EXPIRE_NS), time.time_ns() + 1_500_000_000, 0)
        ann.send(1, 3, 0, 0, 1, 100, int(TimeInForce.GTT), int(CommandFlag.TERMS), 0)
        assert ann.receive(Kind.REPORTS)[2][0][0] == EventKind.ACCEPTED
        fill(disk)
        assert ann.receive(Kind.REPORTS)[2][0][0] == EventKind.CANCELLED
        ann.send(66, 7)
        assert ann.receive(98)[1] == 7


def test_a_halt_on_a_full_disk_is_still_there_after_a_crash(small: tuple[Served, Path], tmp_path: Path) -> None:
    """The exchange's own name could not be saved; the second try was acknowledged all the same, and lost."""
    served, disk = small
    with RawClient(served.endpoint) as client, RawClient(served.endpoint, "admin") as admin:
        client.login("ann", rows=True)
        fill(disk)
        fill_until_rejected(client, 1)
        for request in (1, 2):
            admin.send(Kind.OPERATE, request, served.operator, int(CommandKind.HALT), 0)
            admin.receive()
        copy_journal(disk / "journal", tmp_path / "copy")
    served.kill()
    halted = restarted(tmp_path / "copy", Kind.STATUS, 0)
    assert isinstance(halted, list) and halted[0] == 1


@LONG
def test_an_operator_that_a_full_disk_refused_is_saved_by_the_next_login(
    small: tuple[Served, Path], tmp_path: Path
) -> None:
    """The name was an operator's already, so it was not saved again, and what it did was not permitted after a crash."""
    served, disk = small
    with RawClient(served.endpoint) as boss:
        boss.login("boss")
        boss.send(Kind.BYE)
        boss.receive(Kind.GOODBYE)
        fill(disk)
        hello = (64, 1, 1, "boss", served.operator, -1, {})
        boss.send(*hello)
        assert boss.receive(96, 97)[:2] == [97, "disk_full"]
        (disk / "filler").unlink()
        boss.send(*hello)
        assert boss.receive(96, 97)[0] == 96
        boss.send(int(CommandKind.HALT), 1, 0, 0)
        assert boss.receive(Kind.REPORTS)[2][0][0] == EventKind.HALTED
        copy_journal(disk / "journal", tmp_path / "copy")
    served.kill()
    halted = restarted(tmp_path / "copy", Kind.STATUS, 0)
    assert isinstance(halted, list) and halted[0] == 1


def test_a_client_cannot_choose_the_reason_of_a_cancellation(small: tuple[Served, Path]) -> None:
    """The path of a full disk journaled the field as the client had sent it."""
    served, disk = small
    with RawClient(served.endpoint) as client:
        client.login("ann", rows=True)
        assert send(client, orders(1, 512)) == (512, [])
        fill(disk)
        row = np.zeros(1, COMMAND)
        row["kind"], row["command_id"] = CommandKind.MASS_CANCEL, fill_until_rejected(client, 513) + 1
        row["reason"] = Reason.STALE_COMMAND_ID
        client.socket.send(msgpack.packb([Kind.BULK, row.tobytes()]))
        events = np.frombuffer(client.receive(Kind.REPORT_ROWS)[2], EVENT)
        assert set(events[events["kind"] == EventKind.CANCELLED]["reason"].tolist()) == {Reason.MASS_CANCEL}


@LONG
def test_cancellations_that_do_not_fit_change_nothing(small: tuple[Served, Path]) -> None:
    """Of a second message of 400 cancellations, those that still fitted were executed, and the message was refused."""
    served, disk = small
    with RawClient(served.endpoint) as client:
        client.login("ann", rows=True)
        fill(disk)
        last = fill_until_rejected(client, 1)
        assert send(client, cancels(last + 1, 400)) == (last + 400, [])
        answered, error = send(client, cancels(last + 401, 400))
        assert answered == 0 and error[1] == "disk_full" and "reserved for cancellations" in error[2]


def test_a_client_cannot_end_the_exchange_with_cancellations(small: tuple[Served, Path]) -> None:
    """They used up all reserved rows, and the exchange could not cancel the client's orders when it left."""
    served, disk = small
    with RawClient(served.endpoint) as client, RawClient(served.endpoint, "queries") as query:
        client.login("ann", rows=True, cancel_on_disconnect=True)
        fill(disk)
        last = fill_until_rejected(client, 1)
        for first_id in range(last + 1, last + 1025, 128):
            send(client, cancels(first_id, 128))
        client.send(Kind.BYE)
        client.receive(Kind.GOODBYE)
        orders_open = 1
        while orders_open:  # until the cancel is on the disk
            query.send(Kind.STATISTICS, 1)
            orders_open = query.receive()[5]["orders_open"]


@LONG
def test_a_login_that_is_refused_does_not_cancel_at_the_next_crash(small: tuple[Served, Path], tmp_path: Path) -> None:
    """The setting stayed, and was saved with the next name."""
    served, disk = small
    with RawClient(served.endpoint) as client, RawClient(served.endpoint) as again:
        client.login("ann", rows=True)
        assert send(client, orders(1, 100)) == (100, [])
        fill(disk)
        assert again.login("ann", replace=True, cancel_on_disconnect=True)[:2] == [Kind.ERROR, "disk_full"]
        (disk / "filler").unlink()
        with RawClient(served.endpoint) as bob:
            while bob.login("bob")[0] != Kind.WELCOME:
                time.sleep(0.01)
        copy_journal(disk / "journal", tmp_path / "copy")
    served.kill()
    with (
        start_exchange(symbols="A", journal=tmp_path / "copy") as served,
        RawClient(served.endpoint, "queries") as query,
    ):
        query.send(Kind.STATISTICS, 1)
        assert query.receive()[5]["orders_open"] == 100
