"""A schedule that the exchange cannot keep up with does not shut out the operator who could change that."""

import time
from pathlib import Path

from serl.exchange.wire import Kind
from tests.server_fixture import RawClient, start_exchange


def test_an_order_that_waits_for_the_schedule_keeps_only_orders_waiting(tmp_path: Path) -> None:
    """While an order waited for overdue commands, no query, no admin request and no new connection was served, also not the one that slows the clock down."""
    symbol = {"name": "A", "auction_every_s": 0.1, "day": [{"at": "00:00", "phase": "intraday"}]}
    config: dict[str, object] = {"clock": {"kind": "scaled", "speed": 1}, "symbols": [symbol]}
    with (
        start_exchange(symbols="", clock="", config=config, folder=tmp_path) as served,
        RawClient(served.endpoint) as client,
        RawClient(served.endpoint, "admin") as admin,
        RawClient(served.endpoint, "queries") as query,
    ):
        client.login("ann")
        admin.send(Kind.SPEED, 1, served.operator, 10**12)
        assert admin.receive()[0] == Kind.SPEED + 16
        time.sleep(0.2)
        client.send(1, 1, 0, 0, 1, 100, 1, 0, 0)
        time.sleep(0.3)
        query.send(Kind.STATISTICS, 1)
        assert query.socket.poll(5000), "no answer to a query"
        admin.send(Kind.SPEED, 2, served.operator, 10**6)
        assert admin.socket.poll(5000), "the operator cannot slow the clock down again"
