"""Clients that are slow, many, wrong or hostile. The gateway stays there for the others and prints no traceback."""

import random
import socket
from pathlib import Path

import pytest

from serl.gateways.connections import SESSIONS
from serl.gateways.fix.settings import UNREAD_BYTES_MAX
from tests.gateways.fix.client import FixClient, timestamp
from tests.gateways.fix.scenarios import alive
from tests.gateways.fix.server_fixture import Gateway, launch, start_gateway, write_accounts
from tests.gateways.flood import flooded
from tests.server_fixture import Served


def test_a_message_byte_by_byte_and_many_in_one_packet(gateway: Gateway) -> None:
    with gateway.client() as client:
        client.logon()
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in client.message("1", (112, "slow")):
            client.send_raw(bytes([byte]))
        assert client.receive("0")["112"] == "slow"
        client.send_raw(b"".join(client.message("1", (112, f"t{n}")) for n in range(100)))
        assert [client.receive("0")["112"] for n in range(100)] == [f"t{n}" for n in range(100)]


def test_ten_megabytes_without_a_field_end(gateway: Gateway) -> None:
    with gateway.client() as client:
        client.logon()
        client.send_raw(b"8=FIX.4.4" + b"x" * 10_000_000)
        alive(client)
    with gateway.client() as stranger, pytest.raises((ConnectionError, AssertionError)):
        for _ in range(100):
            stranger.send_raw(b"x" * 100_000)
        assert not stranger.ended()


def test_random_damage(gateway: Gateway) -> None:
    """Messages with damaged bytes and right checksums: each is answered or ends the session, and the next logon works."""
    source = random.Random(3)
    client = gateway.client()
    login = client.login
    client.logon((141, "Y"))
    for _ in range(60):
        data = bytearray(
            client.message(
                "D", (11, "o"), (55, "MSFT"), (54, 1), (60, timestamp()), (38, 1), (40, 2), (44, "0.01"), (59, 3)
            )
        )
        body = bytearray(data[data.index(b"35=") : data.index(b"\x0110=") + 1])
        for _ in range(source.randrange(1, 4)):
            body[source.randrange(len(body))] = source.choice(b"=\x01\x009AZ-.\xff")
        head = b"8=FIX.4.4\x019=%d\x01" % len(body) + body
        try:
            client.send_raw(head + b"10=%03d\x01" % (sum(head) % 256))
            client.send("1", (112, "next"))
            while (fields := client._read()) is not None and fields["35"] != "5":
                if fields.get("112") == "next":
                    break
                if fields["35"] == "2":
                    client.send("4", (123, "N"), (36, client.seq), seq=client.seq)
                    client.send("1", (112, "next"))
            is_over = fields is None or fields["35"] == "5"
        except ConnectionError:
            is_over = True
        if is_over:
            client.close()
            client = gateway.client(login)
            client.strict = False
            client.logon((141, "Y"))
        client.strict = False
    client.close()


@pytest.mark.long
def test_connections_beyond_the_limit_are_closed(gateway: Gateway) -> None:
    """Those that were there before go on."""
    with gateway.client() as client:
        client.logon()
        strangers = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(SESSIONS.per_address - 1)]
        with FixClient(gateway.port) as beyond:
            assert beyond.ended()
        alive(client)
        for stranger in strangers:
            stranger.close()
    for _ in range(1000):  # until the gateway has noticed
        with gateway.client() as again:
            again.send("A", (98, 0), (108, 30), (554, again.password))
            try:
                answer = again._read()
            except ConnectionResetError:
                answer = None
        if answer is not None:
            return
    raise AssertionError("the gateway still refuses connections")


@pytest.mark.long
def test_ten_thousand_connections_leave_the_others_theirs(exchange: Served, tmp_path: Path) -> None:
    gateway = launch(
        exchange.endpoint, write_accounts(tmp_path / "accounts.yaml", ["early", "late"]), tmp_path / "store"
    )
    try:
        with gateway.client("early") as client:
            client.logon()
            with flooded(gateway.process.pid, gateway.port, SESSIONS):
                alive(client)
                with gateway.client("late") as newcomer:
                    newcomer.logon()
                    alive(newcomer)
    finally:
        lines = gateway.stop().splitlines()
    refused = [line for line in lines if "got more" in line]
    assert 1 <= len(refused) < 100, "few lines, however many connections"


def test_many_sessions_at_once(gateway: Gateway) -> None:
    clients = [gateway.client() for _ in range(8)]
    for client in clients:
        client.logon()
    for client in clients:
        client.order("o", 1, 1, "0.02", symbol="MSFT")
    for client in clients:
        assert client.receive("8")["11"] == "o"
        client.close()


@pytest.mark.long
def test_a_client_that_does_not_read_is_cut_and_misses_nothing(exchange: Served, tmp_path: Path) -> None:
    with start_gateway(exchange.endpoint, tmp_path, ["slow", "other"]) as gateway, gateway.client("other") as other:
        other.logon()
        client = gateway.client("slow")
        client.logon(heartbeat_s=0)
        client.socket.settimeout(5)
        count = 0
        try:
            while count * 150 < 8 * UNREAD_BYTES_MAX:
                client.send_raw(
                    b"".join(client.message("H", (11, f"o{count + n}"), (55, "MSFT"), (54, 1)) for n in range(200))
                )
                count += 200
        except (ConnectionError, TimeoutError):
            pass
        alive(other)
        client.close()
        with gateway.client("slow", seq=client.seq) as again:
            again.strict = False
            again.logon()
            again.send("2", (7, 1), (16, 0))
            expected = 1
            while expected < 1000:
                fields = again.receive()
                if fields.get("43") == "Y":
                    assert int(fields["34"]) == expected
                    expected = int(fields["36"]) if fields["35"] == "4" else expected + 1
    assert count
