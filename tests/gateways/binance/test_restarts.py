"""What survives when the gateway or the exchange dies, and what a client hears meanwhile."""

import contextlib
import json
import socket
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from tests.gateways.binance.gateway_fixture import UNLIMITED, WAIT_S, Gateway, eventually, launch
from tests.server_fixture import Served, free_endpoint
from tests.server_fixture import launch as launch_exchange


def everything(gateway: Gateway) -> Any:
    """All that the gateway tells about the orders of both accounts."""
    asked = ("openOrders", "allOrders", "myTrades", "allOrderList")
    return [
        gateway.signed("GET", path, key, **({} if path == "allOrderList" else {"symbol": "DEMOUSDT"})).body
        for key in ("ALICE", "BOB")
        for path in asked
    ]


def kill(exchange: Served) -> None:
    """Sends SIGKILL."""
    exchange.kill()
    assert exchange.process.stdout is not None
    exchange.process.stdout.close()


def make_orders(gateway: Gateway) -> None:
    """Orders of every kind, in every state."""
    gateway.placed("BUY", 10, "99.00", newClientOrderId="resting")
    gateway.placed("SELL", 3, key="BOB", newClientOrderId="taker")
    gateway.placed("BUY", 50, "98.00", icebergQty=5, newClientOrderId="iceberg")
    gateway.signed(
        "POST",
        "order",
        symbol="DEMOUSDT",
        side="SELL",
        type="STOP_LOSS",
        quantity=1,
        stopPrice="90.00",
        newClientOrderId="stop",
    )
    pair = {"aboveType": "LIMIT_MAKER", "abovePrice": "120.00", "belowType": "STOP_LOSS", "belowStopPrice": "80.00"}
    assert (
        gateway.signed(
            "POST", "orderList/oco", symbol="DEMOUSDT", side="SELL", quantity=1, **pair, listClientOrderId="pair"
        ).status
        == 200
    )
    gateway.placed("SELL", 1, "99.50", key="BOB")
    for price in ("20.00", "99.50"):  # the second one is filled at once
        triggers = {
            "workingType": "LIMIT", "workingSide": "BUY", "workingPrice": price, "workingQuantity": 1, "workingTimeInForce": "GTC",
            "pendingType": "LIMIT", "pendingSide": "SELL", "pendingPrice": "130.00", "pendingQuantity": 1, "pendingTimeInForce": "GTC",
        }  # fmt: skip
        assert gateway.signed("POST", "orderList/oto", symbol="DEMOUSDT", **triggers).status == 200
    gateway.placed("BUY", 2, "10.00", newClientOrderId="cancelled")
    gateway.signed("DELETE", "order", symbol="DEMOUSDT", origClientOrderId="cancelled")
    eventually(lambda: len(gateway.signed("GET", "myTrades", symbol="DEMOUSDT").body), 2)


@pytest.mark.long
def test_nothing_is_forgotten_when_gateway_and_exchange_are_killed(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    options = ("--symbols", "DEMO", "--journal", str(tmp_path / "journal"))
    exchange = launch_exchange(*options, endpoint=endpoint)
    gateway = launch(endpoint, tmp_path, *UNLIMITED)
    try:
        make_orders(gateway)
        before = everything(gateway)
        assert [order["clientOrderId"] for order in before[1]][:3] == ["resting", "iceberg", "stop"]

        gateway.kill()
        with (tmp_path / "orders" / f"{b'alice'.hex()}.jsonl").open("ab") as file:
            file.write(b'[7,"DEMOUSDT",0')  # what a kill in the middle of a line leaves
        gateway = launch(endpoint, tmp_path, *UNLIMITED)
        assert everything(gateway) == before

        kill(exchange)
        refused = gateway.order("BUY", 1, "50.00", newClientOrderId="away")
        assert (refused.status, refused.body["code"]) in ((503, -1001), (504, -1007)), refused
        eventually(lambda: gateway.ask("GET", "/api/v3/depth?symbol=DEMOUSDT").body.get("code"), -1001)
        assert gateway.signed("GET", "openOrders").status == 503
        assert gateway.ask("GET", "/sapi/v1/system/status").body["status"] == 1

        exchange = launch_exchange(*options, endpoint=endpoint)
        eventually(lambda: everything(gateway), before)  # each account comes back by itself
        eventually(
            lambda: gateway.ask("GET", "/api/v3/depth?symbol=DEMOUSDT").body.get("bids"),
            [["99.00000000", "7.00000000"], ["98.00000000", "5.00000000"], ["20.00000000", "1.00000000"]],
        )
        gateway.placed("SELL", 2, "99.00", key="BOB")
        eventually(lambda: gateway.public("depth", symbol="DEMOUSDT")["bids"][0], ["99.00000000", "5.00000000"])
    finally:
        gateway.stop()
        kill(exchange)


@pytest.mark.long
def test_an_exchange_without_its_journal_is_another_exchange(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    exchange = launch_exchange("--symbols", "DEMO", endpoint=endpoint)
    gateway = launch(endpoint, tmp_path, *UNLIMITED)
    try:
        make_orders(gateway)
        update_id = gateway.public("depth", symbol="DEMOUSDT")["lastUpdateId"]
        with gateway.socket("/ws/demousdt@depth@100ms") as stream:
            kill(exchange)
            exchange = launch_exchange("--symbols", "DEMO", endpoint=endpoint)
            event = stream.receive(e="depthUpdate")
            assert {tuple(level) for level in event["b"]} >= {
                ("99.00000000", "0.00000000"),
                ("98.00000000", "0.00000000"),
            }
            assert event["U"] == update_id + 1
        eventually(lambda: gateway.signed("GET", "openOrders").body, [])
        assert gateway.signed("GET", "allOrders", symbol="DEMOUSDT").body == []
        assert gateway.placed("BUY", 1, "50.00", newClientOrderId="new")["clientOrderId"] == "new"
    finally:
        gateway.stop()
        kill(exchange)


def frame(message: Any) -> bytes:
    """A message as a masked frame, of a mask of zeros."""
    data = json.dumps(message).encode()
    return struct.pack("!BBH", 0x81, 0x80 | 126, len(data)) + bytes(4) + data


@pytest.mark.long
def test_who_does_not_read_is_cut_off_and_others_go_on(gateway: Gateway) -> None:
    host, _, port = gateway.address.rpartition(":")
    with gateway.socket("/ws/demousdt@bookTicker") as reader, socket.socket() as stuck:
        stuck.connect((host, int(port)))
        stuck.settimeout(0.2)
        stuck.sendall(
            b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert stuck.recv(1000).startswith(b"HTTP/1.1 101")
        stuck.sendall(
            frame({"method": "SUBSCRIBE", "params": [f"symbol{number:040}@trade" for number in range(1000)], "id": 1})
        )
        question = frame({"method": "LIST_SUBSCRIPTIONS", "id": 2})
        stuck.sendall(400 * question)  # 22 MB of answers. All at once: with full buffers, questions no longer arrive
        deadline, price = time.monotonic() + 3 * WAIT_S, 100
        with pytest.raises(ConnectionError):
            while True:
                assert time.monotonic() < deadline, "the connection was not cut"
                price += 1
                gateway.placed("BUY", 1, f"{price:.2f}")
                reader.receive(b=f"{price:.8f}")
                with contextlib.suppress(TimeoutError):
                    stuck.sendall(question)
