"""Replies that clients do not read hold little memory, and do not keep others from theirs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from serl.exchange.open_sockets import COUNTS_BYTES
from serl.exchange.peer import Peer
from serl.exchange.unread_replies import LOOK_S, SLOW_S, STALLED_S, UnreadReplies
from tests.exchange.test_hostile import ask, resident_bytes
from tests.exchange.test_limits import bulk, limited
from tests.server_fixture import RawClient, Served

pytestmark = pytest.mark.skipif(not COUNTS_BYTES, reason="only Linux tells what a connection has received")


def peer(number: int) -> Peer:
    """With its number as descriptor."""
    return Peer("", "", str(number), number)


class Clients:
    """What each has received, at a time that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.received = dict.fromkeys(range(1, 9), 1000)
        self.closed: list[int] = []
        self.now_s = 100.0
        monkeypatch.setattr("serl.exchange.unread_replies.time.monotonic", lambda: self.now_s)
        self.replies = UnreadReplies(200, self.closed.append, lambda descriptor: self.received.get(descriptor, -1))

    def wait(self, seconds: float = 2 * LOOK_S) -> None:
        self.now_s += seconds


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Clients:
    return Clients(monkeypatch)


def test_who_has_not_read_gets_no_more_until_it_has(clients: Clients) -> None:
    replies = clients.replies
    replies.add(peer(1), 60)
    assert replies.admits(peer(1)), "there is room"
    replies.add(peer(1), 60)
    assert not replies.admits(peer(1))
    clients.received[1] += 30
    clients.wait()
    assert replies.admits(peer(1)), "90 bytes are unread"
    replies.add(peer(1), 50)
    clients.wait()
    assert not replies.admits(peer(1)) and not clients.closed
    clients.received[1] += 140
    clients.wait()
    assert replies.admits(peer(1)) and not replies._connections


def test_others_get_the_room_of_who_does_not_read(clients: Clients) -> None:
    replies = clients.replies
    for number, size in ((1, 30), (2, 90), (3, 95)):
        assert replies.admits(peer(number)), "the second half is for those who have read everything"
        replies.add(peer(number), size)
    assert not replies.admits(peer(4)), "all may be reading"
    clients.wait(STALLED_S + 0.1)
    clients.received[2] += 1
    assert replies.admits(peer(4)) and clients.closed == [3], "2 reads, and 3 has more than 1"
    replies.add(peer(4), 100)
    clients.wait(SLOW_S)
    clients.received[2] += 1
    assert replies.admits(peer(5)) and clients.closed == [3, 4], "100 bytes beside 88"
    replies.add(peer(5), 100)
    assert replies.admits(peer(6)) and clients.closed == [3, 4, 2], "a byte now and then is not enough"


def test_a_descriptor_of_another_connection_begins_anew(clients: Clients) -> None:
    replies = clients.replies
    replies.add(peer(1), 120)
    assert not replies.admits(peer(1))
    clients.received[1] = 10  # a new connection with the descriptor of one that is gone
    clients.wait()
    assert replies.admits(Peer("", "", "a later one", 1)) and not replies._connections and not clients.closed


ORDERS, ASKED = 50_000, 90


@contextmanager
def full_book(folder: Path, bytes_max: int) -> Iterator[Served]:
    """An exchange with so many open orders that the reply to L3 has 300 kB."""
    with limited(folder, limits={"replies_unread_bytes_max": bytes_max}) as served:
        with RawClient(served.endpoint) as raw:
            raw.login("builder")
            for first in range(0, ORDERS, 1000):
                raw.socket.send(bulk(1 + first, 1000, 50))
            while raw.receive(80)[2][-1][2] < ORDERS:
                pass
        yield served


def grown_bytes(served: Served, mute: RawClient) -> int:
    """How much memory takes what a client asks for and does not read."""
    before = resident_bytes(served)
    for request in range(ASKED):
        mute.send(130, request, 0)
    for _ in range(200):
        statistics = ask(served, "queries", 132, 1)[5]
        if statistics["errors"].get("replies_unread", 0) > ASKED / 2:
            break
        time.sleep(0.01)
    return resident_bytes(served) - before


def test_a_client_that_never_reads_snapshots_holds_little_memory(tmp_path: Path) -> None:
    with full_book(tmp_path, 1 << 20) as served:
        with RawClient(served.endpoint, "queries", slow=True) as mute:
            assert grown_bytes(served, mute) < 20_000_000
            for _ in range(3):  # the mute one makes room
                assert len(ask(served, "queries", 130, 1, 0)[5]) == ORDERS
        with RawClient(served.endpoint, "queries") as reader:
            for request in range(ASKED):
                reader.send(130, request, 0)
                assert reader.receive(146)[1] == request, "whoever reads gets any number"


@pytest.mark.long
def test_without_the_limit_it_holds_all_of_them(tmp_path: Path) -> None:
    with full_book(tmp_path, 1 << 30) as served, RawClient(served.endpoint, "queries", slow=True) as mute:
        assert grown_bytes(served, mute) > 30_000_000
