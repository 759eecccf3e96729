"""Who gets in: tokens, permissions and the operator's credential, over real sockets. Before participants had permissions, every test of a
refusal here failed: queries and the feed needed no token, and without tokens everybody was an operator."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq

from serl.clients.blocking import connect
from serl.clients.errors import LoginRefused, Rejected, RequestRejected
from serl.clients.sockets import Sockets
from serl.exchange.config import socket_endpoints
from serl.exchange.private_files import operator_file
from serl.exchange.records import COMMAND, CommandKind
from serl.exchange.wire import Kind, subscription
from tests.server_fixture import RawClient, Served, launch, start_exchange

HALT = int(CommandKind.HALT)
PARTICIPANTS = {
    "alice": {"token": "a-secret"},
    "trader": {"token": "t-secret", "permissions": ["trade"]},
    "viewer": {"token": "v-secret", "permissions": ["data"]},
    "auditor": {"token": "c-secret", "permissions": ["drop_copy"]},
    "root": {"token": "o-secret", "permissions": ["operate"]},
}
QUERIES = [[128], [129, 0, 5], [130, 0], [131, 0, 5], [132], [133], [134, 0], [135, 0]]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An exchange with participants."""
    folder = tmp_path_factory.mktemp("guarded")
    with start_exchange(config={"login": {"participants": PARTICIPANTS}}, folder=folder) as served:
        yield served


@pytest.fixture(scope="module")
def open_to_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An exchange without participants."""
    with start_exchange() as served:
        yield served


def ask(served: Served, socket: str, kind: int, *values: Any) -> list[Any]:
    with RawClient(served.endpoint, socket) as raw:
        raw.send(kind, 7, *values)
        return raw.receive()


def hello(served: Served, name: str, token: str) -> list[Any]:
    with RawClient(served.endpoint) as raw:
        raw.send(64, 1, 1, name, token, -1, {})
        reply = raw.receive(96, 97)
        if reply[0] == 96:
            raw.send(65)
            raw.receive(100)
        return reply


@pytest.mark.parametrize("query", QUERIES)
def test_queries_need_the_token_of_one_who_may_read_data(guarded: Served, query: list[int]) -> None:
    without: list[tuple[Any, ...]] = [(), ("",), ("t-secret",), ("o-secret",), ("guess",), (5,)]
    for values in without:
        assert ask(guarded, "queries", *query, *values)[0] == 97
    for token in ("a-secret", "v-secret"):
        assert ask(guarded, "queries", *query, token)[0] == query[0] + 16


@pytest.mark.parametrize("query", QUERIES)
def test_an_open_exchange_answers_queries_with_and_without_a_token(open_to_all: Served, query: list[int]) -> None:
    for values in ((), ("anything",)):
        assert ask(open_to_all, "queries", *query, *values)[0] == query[0] + 16


def test_permissions_say_who_trades_copies_and_operates(guarded: Served) -> None:
    def refused(kind: int, *values: Any) -> bool:
        return ask(guarded, "admin", kind, *values)[:2] == [97, "not_permitted"]

    assert [name for name in PARTICIPANTS if hello(guarded, name, f"{name[0]}-secret")[0] == 96] == ["alice", "trader"]
    for token in ("", "a-secret", "v-secret", "c-secret", "guess"):
        assert refused(Kind.OPERATE, token, HALT, 0) and refused(Kind.SNAPSHOT, token) and refused(Kind.STOP, token)
    for token in ("", "a-secret", "v-secret", "o-secret"):
        assert refused(Kind.DROP_COPY, token, "", 0) and refused(Kind.COMMAND_COPY, token, 0)
    assert ask(guarded, "admin", Kind.COMMAND_COPY, "c-secret", 0)[0] == Kind.COMMAND_COPY + 16
    assert ask(guarded, "admin", Kind.SNAPSHOT, "o-secret")[0] == Kind.SNAPSHOT + 16
    assert guarded.operator == "", "an operator is configured: the exchange made no credential of its own"


def test_the_client_reads_books_and_feed_with_its_token(guarded: Served) -> None:
    with connect(guarded.endpoint, "alice", "a-secret") as alice:
        book = alice.follow("AMZN")
        assert not alice.session.operator
        alice.buy("AMZN", 5, 100)
        while not book.levels(0, 1):
            alice.wait(1)
        assert alice.book("GOOG") == ([], [])
        alice.mass_cancel()
    with (
        connect(guarded.endpoint, "trader", "t-secret") as trader,
        pytest.raises(RequestRejected, match="may read data"),
    ):
        trader.book("AMZN")


class Subscriber:
    """A raw subscriber, whose subscriptions reach the exchange as they are: an XSUB filters nothing."""

    def __init__(self, served: Served, *prefixes: bytes) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.XSUB)
        self._socket.connect(socket_endpoints(served.endpoint)["feed"])
        for prefix in prefixes:
            self.send(b"\x01" + prefix)

    def send(self, frame: bytes) -> None:
        self._socket.send(frame)

    def receive(self, timeout_ms: int) -> list[bytes] | None:
        return self._socket.recv_multipart() if self._socket.poll(timeout_ms) else None

    def close(self) -> None:
        self._context.destroy(0)


def test_the_feed_reaches_nobody_without_a_token(guarded: Served) -> None:
    strangers = [
        Subscriber(guarded, *prefixes)
        for prefixes in (
            [b""], [b"time/"], [b"\0"], [b"\0\0time/"], [b"\0\0"], [b"\0guess\0time/"], [b"\0t-secret\0time/"], [b"\0v-secret"],
        )
    ]  # fmt: skip
    viewer = Subscriber(guarded, subscription(b"time/", "v-secret"))
    for _ in range(3):
        message = viewer.receive(20_000)
        assert message is not None and message[0] == b"time/"
    assert [stranger.receive(0) for stranger in strangers] == [None] * len(strangers)
    for stranger in strangers:  # neither an unsubscription nor the end of a stranger silences the viewer
        for prefix in (b"time/", b"\0\0time/", b"\0guess\0time/"):
            stranger.send(b"\0" + prefix)
        stranger.close()
    for _ in range(3):
        assert viewer.receive(20_000)
    viewer.close()


def test_a_subscription_ends_with_its_connection_and_with_an_unsubscription(guarded: Served) -> None:
    one, two = (Subscriber(guarded, subscription(b"time/", "v-secret")) for _ in range(2))
    assert one.receive(20_000) and two.receive(20_000)
    one.send(b"\0" + subscription(b"time/", "v-secret"))
    assert two.receive(20_000) and two.receive(20_000)
    while one.receive(0):
        pass
    assert two.receive(20_000) and two.receive(20_000)
    assert one.receive(0) is None
    two.close()
    one.send(b"\x01" + subscription(b"time/", "v-secret"))
    assert one.receive(20_000)
    one.close()


def test_sockets_without_a_session_follow_the_feed_with_a_token(guarded: Served) -> None:
    sockets = Sockets(guarded.endpoint, token="v-secret")
    sockets.subscribe(b"time/")
    while not list(sockets.feed_messages(1)):
        sockets.wait(1000)
    sockets.close()


def test_a_stranger_cannot_operate_an_open_exchange(open_to_all: Served) -> None:
    for token in ("", "guess", "\0", None):
        for kind, values in ((Kind.OPERATE, (HALT, 0)), (Kind.STOP, ()), (Kind.COMMAND_COPY, (0,))):
            assert ask(open_to_all, "admin", kind, token, *values)[:2] == [97, "not_permitted"]
    with RawClient(open_to_all.endpoint) as raw:
        assert raw.login("stranger")[9] is False
        raw.send(HALT, 1, 0, 0)
        assert raw.receive(80)[2][0][0] == 2, "REJECTED"


def test_the_exchanges_user_operates_without_options(open_to_all: Served) -> None:
    path = operator_file(int(open_to_all.endpoint.rpartition(":")[2]))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    arguments = ["exchange", "operate", "halt", "--symbol", "1", "--connect", open_to_all.endpoint]
    assert run(*arguments) == "halt: done\n"
    path.rename(path.with_suffix(".away"))
    try:
        assert "not_permitted" in run(*arguments)
    finally:
        path.with_suffix(".away").rename(path)


def run(*words: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "serl", *words], capture_output=True, text=True, env={**os.environ, **environment}
    )
    return done.stdout + done.stderr


def test_the_credential_goes_with_the_exchange() -> None:
    served = launch()
    path, token = operator_file(int(served.endpoint.rpartition(":")[2])), served.operator
    assert path.read_text() == token and any(str(path) in line for line in served.banner)
    assert token not in "\n".join(served.banner)
    served.stop()
    assert not path.exists()


def test_the_credential_of_a_killed_exchange_is_not_used_for_another(tmp_path: Path) -> None:
    first = launch()
    path = operator_file(int(first.endpoint.rpartition(":")[2]))
    first.kill()
    assert first.process.stdout is not None and path.exists()
    first.process.stdout.close()
    config: dict[str, Any] = {"login": {"tokens": {"root": "key"}, "operators": ["root"]}}
    with start_exchange(config=config, folder=tmp_path, endpoint=first.endpoint) as second:
        assert not path.exists()
        status = ["exchange", "operate", "halt", "--symbol", "0", "--connect", second.endpoint]
        assert run(*status, SERL_TOKEN="key") == "halt: done\n"


def test_a_name_that_an_operator_used_stays_the_operators(tmp_path: Path) -> None:
    with start_exchange(journal=tmp_path / "journal") as served:
        with connect(served.endpoint, "boss", served.operator) as boss, connect(served.endpoint, "alice") as alice:
            assert boss.session.operator and not alice.session.operator
        stays_the_operators(served)
        served.kill()
    with start_exchange(journal=tmp_path / "journal", endpoint=served.endpoint) as served:
        stays_the_operators(served)
        with connect(served.endpoint, "boss", served.operator) as boss, connect(served.endpoint, "alice") as alice:
            assert boss.session.operator and not alice.session.operator


def stays_the_operators(served: Served) -> None:
    for token in ("", "guess"):
        assert hello(served, "boss", token)[:2] == [97, "login"]


def test_becoming_an_operator_does_not_change_what_happened_before(tmp_path: Path) -> None:
    with start_exchange(journal=tmp_path / "journal") as served:
        with connect(served.endpoint, "late") as late, pytest.raises(Rejected, match="NOT_PERMITTED"):
            halt(late)
        with connect(served.endpoint, "late", served.operator) as late:
            late.buy("AMZN", 1, 100)
        served.kill()
    with start_exchange(journal=tmp_path / "journal", endpoint=served.endpoint) as served:
        assert ask(served, "queries", Kind.STATUS, 0)[5][0] == 0, "the halt was rejected, and still is"


def halt(client: Any) -> None:
    command_id, message = client.session.command(CommandKind.HALT, 0)
    client.core.send(message)
    client._run(client.core._wait_for_reply(command_id, "HALT"))


def test_a_session_does_not_become_an_operators_because_an_operator_replays_its_name() -> None:
    rows = np.zeros(1, COMMAND)
    rows["kind"], rows["time_ns"], rows["participant"] = CommandKind.TIME, 5, 1
    with start_exchange(clock="lockstep") as served, RawClient(served.endpoint) as squatter:
        squatter.login("history/1")
        with RawClient(served.endpoint) as operator:
            operator.send(64, 1, 1, "history", served.operator, -1, {})
            operator.send(Kind.ON_BEHALF, rows.tobytes())
            assert operator.receive(97)[1] == "duplicate_login"


def test_refusals_are_logged_with_their_source_a_few_at_a_time(tmp_path: Path) -> None:
    config: dict[str, Any] = {"login": {"participants": PARTICIPANTS}}
    with start_exchange(config=config, folder=tmp_path) as served:
        assert hello(served, "alice", "guess")[:2] == [97, "login"]
        ask(served, "queries", 128)
        ask(served, "admin", Kind.STOP, "guess")
        ask(served, "queries", 159)
        with RawClient(served.endpoint) as raw:
            for _ in range(500):
                raw.send(64, 1, 1, "mallory\x1b[2J", "guess", -1, {})
                raw.send(64, 1, 1, "mallory", "guess", -1, {})
                raw.receive(97), raw.receive(97)
        output = served.stop()
    lines = [line for line in output.splitlines() if line.startswith("refused from 127.0.0.1: ")]
    assert [line.partition(": ")[2] for line in lines[:4]] == [
        "HELLO of 'alice'",
        "query INFO",
        "admin request STOP",
        "query 159",
    ]
    assert len(lines) <= 20 and "guess" not in output and "\x1b" not in output


def test_commands_take_tokens_from_files_and_the_environment(guarded: Served, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text("v-secret\n")
    words = ["exchange", "status", "--connect", guarded.endpoint]
    assert "login: " in run(*words)
    assert run(*words, "--token-file", str(path)).startswith("epoch ")
    assert run(*words, SERL_TOKEN="v-secret").startswith("epoch ")
    assert "login: " in run(*words, "--token", "guess", SERL_TOKEN="v-secret"), "an option goes before the environment"
    assert "leave one out" in run(*words, "--token", "v-secret", "--token-file", str(path))
    path.chmod(0o644)
    assert "chmod -R go= " in run(*words, "--token-file", str(path))
    path.write_text("one\ntwo\n")
    assert "expected one line with a token" in run(*words, "--token-file", str(path))


def test_the_journal_is_its_owners_alone(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    previous = os.umask(0o022)
    try:
        with start_exchange(journal=journal) as served, connect(served.endpoint, "alice") as alice:
            alice.buy("AMZN", 1, 100)
        files = [journal, *journal.rglob("*")]
        assert len(files) > 3
        assert [path.name for path in files if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
        journal.chmod(0o755)
        with start_exchange(journal=journal) as served:
            assert any(str(journal) in line and "chmod" in line for line in served.banner), served.banner
    finally:
        os.umask(previous)


def test_logins_fail_with_a_reason(guarded: Served) -> None:
    with pytest.raises(LoginRefused, match="may not trade"), connect(guarded.endpoint, "viewer", "v-secret"):
        pass


def test_messages_of_the_feed_are_those_of_an_open_exchange(guarded: Served) -> None:
    viewer = Subscriber(guarded, subscription(b"", "v-secret"))
    message = viewer.receive(20_000)
    assert message is not None
    topic, body = message
    assert topic == b"time/" and msgpack.unpackb(body)[0] == 117
    viewer.close()
