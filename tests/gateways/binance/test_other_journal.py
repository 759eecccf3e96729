"""The Binance gateway when the exchange comes back with another journal."""

import time
from pathlib import Path

import pytest

from serl.clients.blocking import connect
from tests.gateways.binance.gateway_fixture import eventually, start_gateway
from tests.server_fixture import free_endpoint, start_exchange

STREAMS = ["avgPrice", *(pytest.param(name, marks=pytest.mark.long) for name in ("ticker", "kline_1m", "depth"))]


@pytest.mark.parametrize("stream", STREAMS)
def test_streams_survive_another_journal(tmp_path: Path, stream: str) -> None:
    """The trades of the former journal are forgotten, but its candles are not: a listener of avgPrice ends the gateway for everybody (IndexError)."""
    endpoint = free_endpoint()
    with start_exchange(symbols="DEMO", endpoint=endpoint) as first, start_gateway(endpoint, tmp_path) as gateway:
        gateway.placed("BUY", 1, "100", key="BOB")
        gateway.placed("SELL", 1, "100")
        eventually(lambda: len(gateway.public("trades", symbol="DEMOUSDT")), 1)
        with gateway.socket(f"/ws/demousdt@{stream}"):
            first.kill()
            with start_exchange(symbols="DEMO", endpoint=endpoint), connect(endpoint, "maker") as maker:
                time.sleep(4)
                assert gateway.process.poll() is None
                maker.buy("DEMO", 3, 9_000)
                eventually(
                    lambda: gateway.ask("GET", "/api/v3/depth?symbol=DEMOUSDT").body.get("bids"), [["90.00000000", "3.00000000"]]
                )  # fmt: skip
