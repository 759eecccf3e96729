"""CURVE: only known keys connect, and a participant's key is part of its credential. Before there was a ZAP handler, any key pair that knew
the server's public key was let in, as any participant."""

import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from serl.clients.blocking import connect
from serl.clients.drop_copy import drop_copy
from serl.clients.errors import ExchangeUnreachable, LoginRefused, RequestRejected
from serl.clients.sockets import Sockets
from serl.exchange.config import load_config
from serl.exchange.errors import ConfigError
from serl.exchange.keys import new_client_keys, new_keys, read_keys
from serl.exchange.request import request_socket
from serl.exchange.wire import Kind
from tests.server_fixture import Served, start_exchange


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the folders of the server, of participants, and of a stranger who knows the server's public key."""
    folder = tmp_path_factory.mktemp("keys")
    new_keys(folder / "server")
    for name in ("alice", "bob", "trader", "root", "stranger"):
        new_client_keys(folder / "server", folder / name)
    (folder / "shared").mkdir()
    for name in ("server.public", "client.key", "client.public"):
        shutil.copy(folder / "server" / name, folder / "shared")
    return folder


@pytest.fixture(scope="module")
def served(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An exchange that admits alice by her key, bob by key and token, carol by a token over the shared key."""
    participants: dict[str, Any] = {
        "alice": {"client_key": read_keys(keys / "alice").client_public},
        "bob": {"client_key_file": str(keys / "bob" / "client.public"), "token": "word"},
        "trader": {"client_key": read_keys(keys / "trader").client_public, "permissions": ["trade"]},
        "root": {"client_key": read_keys(keys / "root").client_public, "permissions": ["operate", "drop_copy"]},
        "carol": {"token": "carol's"},
    }
    login = {"participants": participants, "curve_keys": str(keys / "server")}
    with start_exchange(config={"login": login}, folder=tmp_path_factory.mktemp("curve")) as exchange:
        yield exchange


def test_a_key_or_a_key_and_a_token_or_a_token_log_a_participant_in(served: Served, keys: Path) -> None:
    for name, token, own in (("alice", "", "alice"), ("bob", "word", "bob"), ("carol", "carol's", "shared")):
        with connect(served.endpoint, name, token, curve=keys / own) as client:
            assert client.follow("AMZN").levels(0, 1) == []
            client.subscribe("trade", "AMZN")
            while client.core.feed_sequence < 0:  # `time/` arrives
                client.wait(0.1)


@pytest.mark.parametrize(
    ("name", "token", "own"),
    [
        ("bob", "", "bob"), ("bob", "word", "alice"), ("bob", "word", "shared"), ("alice", "", "bob"), ("alice", "", "shared"),
        ("carol", "", "alice"), ("carol", "", "shared"), ("root", "", "root"), ("nobody", "", "alice"),
    ],
)  # fmt: skip
def test_a_name_needs_its_own_credential(served: Served, keys: Path, name: str, token: str, own: str) -> None:
    with pytest.raises(LoginRefused, match="login"), connect(served.endpoint, name, token, curve=keys / own):
        pass


def test_an_unknown_key_gets_no_connection_and_is_logged(served: Served, keys: Path, tmp_path: Path) -> None:
    stranger = read_keys(keys / "stranger")
    for socket in ("queries", "admin"):
        with pytest.raises(ExchangeUnreachable), request_socket(served.endpoint, socket, keys / "stranger") as ask:
            ask(Kind.INFO)
    login = {"curve_keys": str(keys / "server")}
    with start_exchange(config={"login": login}, folder=tmp_path) as other:
        with pytest.raises(ExchangeUnreachable), request_socket(other.endpoint, "queries", keys / "stranger") as ask:
            ask(Kind.INFO)
        with connect(other.endpoint, "anybody", curve=keys / "shared") as friend:
            assert not friend.session.operator and friend.book("AMZN") == ([], [])
        with request_socket(other.endpoint, "admin", keys / "shared") as ask:
            assert ask(Kind.SNAPSHOT, "")[0] == Kind.SNAPSHOT + 16, "with the credential of this machine's exchange"
            with pytest.raises(RequestRejected, match="operator's token"):
                ask(Kind.SNAPSHOT, "guess")
        output = other.stop()
    assert f"refused from 127.0.0.1: CURVE key {stranger.client_public}" in output


def test_keys_have_their_permissions_on_every_socket(served: Served, keys: Path) -> None:
    def request(own: str, socket: str, kind: Kind, *values: Any) -> bool:
        with request_socket(served.endpoint, socket, keys / own) as ask:
            try:
                ask(kind, *values)
            except RequestRejected:
                return False
        return True

    assert [own for own in ("alice", "trader", "root", "shared") if request(own, "queries", Kind.INFO)] == ["alice"]
    assert [own for own in ("alice", "trader", "root", "shared") if request(own, "admin", Kind.SNAPSHOT, "")] == [
        "root"
    ]
    with drop_copy(served.endpoint, curve=keys / "root") as copy:
        assert list(copy.batches()) == []


@pytest.mark.parametrize("own", ["shared", *(pytest.param(own, marks=pytest.mark.long) for own in ("trader", "root"))])
def test_the_feed_needs_a_key_that_may_read_data(served: Served, keys: Path, own: str) -> None:
    refused, permitted = (Sockets(served.endpoint, keys / name) for name in (own, "alice"))
    for sockets in (refused, permitted):
        sockets.subscribe(b"time/")
    for _ in range(3):
        permitted.feed.recv_multipart()
    assert not list(refused.feed_messages(1))
    refused.close()
    for _ in range(3):
        permitted.feed.recv_multipart()
    permitted.close()


def test_keys_are_their_owners_alone(keys: Path, caplog: pytest.LogCaptureFixture) -> None:
    for path in (keys / "server", keys / "server" / "server.key", keys / "alice", keys / "alice" / "client.key"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077
    shared = keys / "wide"
    shutil.copytree(keys / "alice", shared)
    (shared / "client.key").chmod(0o640)
    read_keys(shared)
    assert f"chmod -R go= {shared / 'client.key'}" in caplog.text


@pytest.mark.parametrize(
    ("login", "text"),
    [
        ({"participants": {"alice": {}}}, "expected a token .* got neither"),
        ({"participants": {"alice": {"token": "a", "token_env": "X"}}}, "expected one of .* got token and token_env"),
        (
            {"participants": {"alice": {"token_env": "SERL_NO_SUCH_VARIABLE"}}},
            "variable SERL_NO_SUCH_VARIABLE, which is not set; ",
        ),
        ({"participants": {"alice": {"token_file": "/no/such/file"}}}, "expected a file with a token"),
        ({"participants": {"alice": {"client_key": "short"}}, "curve_keys": "keys"}, "client_key"),
        ({"participants": {"alice": {"client_key": "x" * 40}}}, "expected curve_keys with the client_key of 'alice'"),
        ({"participants": {"alice": {"token": "hidden", "permissions": ["fly"]}}}, "permissions"),
        ({"participants": {"a\nb": {"token": "hidden"}}}, "printable"),
        ({"tokens": {"alice": ""}}, r"login\.participants\.alice\.token: .* at least 1 character"),
    ],
)
def test_a_wrong_login_is_a_configuration_error_that_prints_no_token(login: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text) as error:
        load_config(overrides={"login": login})
    assert "hidden" not in str(error.value)


def test_tokens_and_operators_are_the_older_form_of_participants() -> None:
    old = load_config(overrides={"login": {"tokens": {"alice": "a", "root": "r"}, "operators": ["root"]}})
    everything = ["trade", "data", "drop_copy", "operate"]
    participants = {"alice": {"token": "a"}, "root": {"token": "r", "permissions": everything}}
    assert old == load_config(overrides={"login": {"participants": participants}})


def test_a_token_comes_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text("from a file\n")
    monkeypatch.setenv("ALICE", "from the environment")
    participants = {"alice": {"token_env": "ALICE"}, "bob": {"token_file": str(path)}}
    found = load_config(overrides={"login": {"participants": participants}}).login
    assert {name: own.token for name, own in found.participants.items()} == {
        "alice": "from the environment",
        "bob": "from a file",
    }
    assert not found.has_inline_tokens and "from a file" not in repr(found)


def test_no_handshake_means_no_connection(served: Served) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    plain = context.socket(zmq.DEALER)
    plain.immediate = True
    plain.connect(served.endpoint)
    assert not plain.poll(500, zmq.POLLOUT)
    context.destroy(0)
