"""One exchange and one gateway for all tests of the FIX gateway that need no others."""

from collections.abc import Iterator

import pytest

from tests.gateways.fix.server_fixture import Gateway, start_gateway
from tests.server_fixture import Served, start_exchange

SYMBOLS = [
    {"name": "AMZN"}, {"name": "GOOG"}, {"name": "MSFT"},
    {"name": "BOND", "tick_size": "0.05", "lot_size": "10"}, {"name": "OTHER"},
    {"name": "COIN", "tick_size": "0.0000005", "lot_size": "0.00000001", "quote": "USDT"},
]  # fmt: skip


@pytest.fixture(scope="package")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An exchange."""
    folder = tmp_path_factory.mktemp("fix-exchange")
    config: dict[str, object] = {
        "symbols": SYMBOLS, "full_rule_book": True, "limits": {"new_names_per_s_max": 0},
        "accounts": {"throttled": {"messages_per_s_max": 3}},
    }  # fmt: skip
    with start_exchange(symbols="", config=config, folder=folder, journal=folder / "journal") as served:
        yield served


@pytest.fixture(scope="package")
def gateway(exchange: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway in front of it."""
    folder = tmp_path_factory.mktemp("fix-gateway")
    logins = [f"t{n}" for n in range(400)] + ["alice", "leaver", "copies", "throttled"]
    options: dict[str, dict[str, object]] = {"leaver": {"cancel_on_disconnect": True}, "copies": {"drop_copy": True}}
    with start_gateway(exchange.endpoint, folder, logins, **options) as started:
        yield started
