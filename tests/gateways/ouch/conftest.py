"""One exchange and one gateway for all tests of a module that trade."""

from collections.abc import Iterator

import pytest

from tests.gateways.ouch.client import SoupClient, gateway
from tests.server_fixture import Served, start_exchange


class Market:
    """An exchange and a gateway; user reference numbers that increase over all tests."""

    def __init__(self, exchange: Served, port: int) -> None:
        self.exchange = exchange
        self.port = port
        self._ref = 1  # that of the example in the documentation

    def refs(self, count: int) -> list[int]:
        self._ref += count
        return list(range(self._ref - count + 1, self._ref + 1))

    def client(self, user: str = "alice") -> SoupClient:
        """Logged in, at the end of the stream."""
        client = SoupClient(self.port)
        client.log_in(user, 0)
        return client


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Market]:
    folder = tmp_path_factory.mktemp("ouch")
    accounts = {"alice": {"self_trade": "decrement"}}
    with (
        start_exchange(journal=folder / "journal", config={"accounts": accounts}, folder=folder) as exchange,
        gateway(exchange.endpoint, folder) as started,
    ):
        yield Market(exchange, started.port())
