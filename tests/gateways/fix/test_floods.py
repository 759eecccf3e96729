"""FIX clients that ask much, or stay while the exchange is away: the others are served."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from tests.gateways.fix.client import FixClient, timestamp
from tests.gateways.fix.server_fixture import Gateway, start_gateway
from tests.server_fixture import start_exchange


def cpu_s(process_id: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until(client: FixClient, kind: str, tag: str, value: str, wait_s: float = 5.0) -> list[dict[str, str]]:
    """Messages up to one of a type with a field."""
    client.socket.settimeout(wait_s)
    found = []
    while not found or (found[-1]["35"], found[-1].get(tag)) != (kind, value):
        fields = client._read()
        assert fields is not None
        found.append(fields)
    return found


@pytest.mark.long
def test_a_full_session_is_served_while_the_exchange_is_away(tmp_path: Path) -> None:
    """512 orders wait for an answer, and the exchange stops answering. The page: "meanwhile it refuses orders with j". Before, the gateway reads
    nothing more of the client, whose TestRequest has no answer, and pauses and resumes its connection in a loop that takes a whole core."""
    with start_exchange(symbols="AMZN") as exchange, start_gateway(exchange.endpoint, tmp_path, ["alice"]) as started:
        client = started.client("alice")
        client.logon()
        client.strict = False
        client.order("first", 2, 10, "101")
        client.receive("8")
        os.kill(exchange.process.pid, signal.SIGSTOP)
        try:
            orders = [
                client.message("D", (11, f"o{n}"), (55, "AMZN"), (54, 1), (60, timestamp()), (38, 1), (40, 2), (44, "50")) for n in range(600)
            ]  # fmt: skip
            client.send_raw(b"".join(orders))
            time.sleep(7)
            before_s = cpu_s(started.process.pid)
            time.sleep(2)
            assert cpu_s(started.process.pid) - before_s < 0.2
            client.send("1", (112, "hello"))
            found = until(client, "0", "112", "hello")
            assert [message.get("380") for message in found if message["35"] == "j"] == ["4"] * 88
        finally:
            os.kill(exchange.process.pid, signal.SIGCONT)
        assert until(client, "8", "11", "o511")[-1]["39"] == "0"
        client.close()


def test_a_flood_of_snapshot_requests_lets_others_trade(gateway: Gateway) -> None:
    """Nothing bounds how many requests of a client wait for the exchange. 20,000 of them, 2 MB, delay the orders of others by 2 s."""
    with gateway.client() as flood, gateway.client() as other:
        flood.logon()
        other.logon()
        request = ((263, 0), (264, 0), (267, 2), (269, 0), (269, 1), (146, 1), (55, "AMZN"))
        messages = b"".join(flood.message("V", (262, f"r{n}"), *request) for n in range(20_000))
        flood.socket.setblocking(False)
        sent, slowest_s, deadline = 0, 0.0, time.monotonic() + 4
        while time.monotonic() < deadline:
            for _ in range(20):
                with contextlib.suppress(BlockingIOError):
                    sent += flood.socket.send(messages[sent : sent + 65536]) if sent < len(messages) else 0
                with contextlib.suppress(BlockingIOError):
                    flood.socket.recv(1 << 20)
            started_s = time.monotonic()
            other.order(f"o{started_s}", 1, 1, "50")
            other.receive("8")
            slowest_s = max(slowest_s, time.monotonic() - started_s)
        assert sent > 50_000
        assert slowest_s < 0.5


@pytest.mark.long
def test_a_client_that_is_not_read_is_not_silent(tmp_path: Path) -> None:
    """512 orders wait for their arrival. The client was logged out for its silence although its heartbeats waited in the connection."""
    latency = {"latency": {"orders": {"kind": "constant", "delay_us": 3_000_000}}}
    config: dict[str, object] = {"accounts": {"alice": latency}}
    with (
        start_exchange(symbols="AMZN", config=config, folder=tmp_path) as exchange,
        start_gateway(exchange.endpoint, tmp_path, ["alice"]) as started,
    ):
        client = started.client("alice")
        client.logon(heartbeat_s=1)
        client.strict = False
        orders = [
            client.message("D", (11, f"o{n}"), (55, "AMZN"), (54, 1), (60, timestamp()), (38, 1), (40, 2), (44, "50")) for n in range(513)
        ]  # fmt: skip
        client.send_raw(b"".join([*orders, *(client.message("0") for _ in range(5))]))
        assert "5" not in [message["35"] for message in until(client, "8", "11", "o511")]
        client.close()
