"""The exchange's own participant, whose commands must not depend on what clients leave it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from serl.exchange.records import CommandFlag, CommandKind, EventKind, Term, TimeInForce
from serl.exchange.wire import Kind
from tests.server_fixture import RawClient, start_exchange

ORDER = (1, 1, 0, 0, 1, 100, 1, 0, 0)


@contextmanager
def few_names(folder: Path) -> Iterator[tuple[RawClient, RawClient, RawClient]]:
    """Three clients of an exchange with room for two names besides its own."""
    config: dict[str, object] = {"limits": {"participants_max": 3, "new_names_per_s_max": 0}}
    with (
        start_exchange(journal=folder / "journal", config=config, folder=folder) as served,
        RawClient(served.endpoint) as first,
        RawClient(served.endpoint) as second,
        RawClient(served.endpoint) as third,
    ):
        yield first, second, third


def test_clients_that_use_all_names_do_not_end_the_exchange(tmp_path: Path) -> None:
    """The first command of the exchange's own found no name left: it ended, and so did every start on its journal."""
    with few_names(tmp_path) as (ann, bob, last):
        for name, client in (("ann", ann), ("bob", bob)):
            assert client.login(name)[0] == Kind.WELCOME
            client.send(*ORDER)
            client.receive(Kind.REPORTS)
        assert last.login("last")[:2] == [Kind.ERROR, "login"]
        ann.send(int(CommandKind.TERM), 2, int(Term.EXPIRE_NS), time.time_ns() + 500_000_000, 0)
        ann.send(1, 3, 0, 0, 1, 100, int(TimeInForce.GTT), int(CommandFlag.TERMS), 0)
        assert ann.receive(Kind.REPORTS)[2][0][0] == EventKind.ACCEPTED
        assert ann.receive(Kind.REPORTS)[2][0][0] == EventKind.CANCELLED
        ann.send(66, 7)
        assert ann.receive(98)[1] == 7


def test_two_new_names_do_not_take_the_last_number_from_each_other(tmp_path: Path) -> None:
    """Each took the number of the other, whose name was still being saved, for unused; neither was ever answered."""
    with few_names(tmp_path) as (first, ann, bob):
        first.login("first")
        first.send(*ORDER)
        first.receive(Kind.REPORTS)
        for name, client in (("ann", ann), ("bob", bob)):
            client.send(64, 1, 1, name, "", -1, {})
        answers = sorted(client.receive(Kind.WELCOME, Kind.ERROR)[0] for client in (ann, bob))
        assert answers == [Kind.WELCOME, Kind.ERROR]


@pytest.mark.parametrize("durability", ["interval", pytest.param("batch", marks=pytest.mark.long)])
def test_orders_that_expire_a_nanosecond_apart_keep_nobody_waiting(tmp_path: Path, durability: str) -> None:
    """Each expiry was a command, and in batch mode a sync, of its own: two thousand took 4.7 s, in which no order was read."""
    config: dict[str, object] = {"journal": {"durability": durability}}
    with (
        start_exchange(journal=tmp_path / "journal", config=config, folder=tmp_path) as served,
        RawClient(served.endpoint) as client,
        RawClient(served.endpoint, "queries") as query,
    ):
        client.login("ann")
        due_ns = time.time_ns() + 2_000_000_000
        for number in range(2000):
            client.send(int(CommandKind.TERM), 2 * number + 1, int(Term.EXPIRE_NS), due_ns + number, 0)
            client.send(1, 2 * number + 2, 0, 0, 1, 100, int(TimeInForce.GTT), int(CommandFlag.TERMS), 0)
        last = before = 0
        while last < 4000:
            last = client.receive(Kind.REPORTS)[2][-1][2]
        query.send(Kind.HASH, 1)
        before = query.receive()[5][0]
        cancelled = 0
        while cancelled < 2000:
            cancelled += sum(event[0] == EventKind.CANCELLED for event in client.receive(Kind.REPORTS)[2])
        query.send(Kind.HASH, 1)
        assert query.receive()[5][0] - before < 200, "commands of the exchange for the expiries"


def test_a_bulk_message_that_fits_no_command_file_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    """It waited for room for ever, and all others behind it."""
    config: dict[str, object] = {
        "journal": {"segment_rows": 8192},
        "limits": {"bulk_rows_max": 8192, "message_bytes_max": 1 << 20},
    }
    with pytest.raises(AssertionError, match=r"journal.segment_rows: expected at least 9216"):
        start_exchange(journal=tmp_path / "journal", config=config, folder=tmp_path).__enter__()
