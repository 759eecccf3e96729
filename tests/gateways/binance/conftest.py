"""An exchange and a gateway that all tests of the gateway share."""

from collections.abc import Iterator

import pytest

from tests.gateways.binance.gateway_fixture import Gateway, start_gateway
from tests.server_fixture import Served, start_exchange


@pytest.fixture(scope="package")
def exchange() -> Iterator[Served]:
    with start_exchange(symbols="DEMO,AMZN") as served:
        yield served


@pytest.fixture(scope="package")
def served(exchange: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with start_gateway(exchange.endpoint, tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


@pytest.fixture
def gateway(served: Gateway) -> Iterator[Gateway]:
    """The gateway, without open orders after the test."""
    yield served
    served.clear()
