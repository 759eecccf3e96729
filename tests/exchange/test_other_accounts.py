"""Limits and fees of the accounts that the configuration does not name."""

from pathlib import Path
from typing import Any

import pytest

from serl.clients.blocking import connect
from serl.clients.errors import Rejected
from serl.exchange.config import load_config
from serl.exchange.errors import ConfigError
from tests.server_fixture import start_exchange


def test_other_accounts_have_limits_from_their_first_login(tmp_path: Path) -> None:
    """Without them, whoever takes a new name trades without limits. Named accounts and operators keep their own."""
    login = {
        "participants": {
            "ann": {"token": "a"},
            "new": {"token": "n"},
            "root": {"token": "r", "permissions": ["trade", "operate"]},
        }
    }
    config: dict[str, Any] = {
        "other_accounts": {"orders_open_max": 2},
        "accounts": {"ann": {"orders_open_max": 3}},
        "login": login,
    }
    options: dict[str, Any] = {"journal": tmp_path / "journal", "folder": tmp_path}

    def opened(name: str, token: str, endpoint: str) -> int:
        """How many of five orders the account takes, beside those that are open."""
        with connect(endpoint, name, token=token) as client:
            for taken in range(5):
                try:
                    client.buy("AMZN", 1, 50)
                except Rejected as error:
                    assert error.reason == "LIMIT_ORDERS"
                    return taken
            return 5

    with start_exchange(config=config, **options) as exchange:
        assert [opened(name, name[0], exchange.endpoint) for name in ("ann", "new", "root")] == [3, 2, 5]
        assert opened("new", "n", exchange.endpoint) == 0, "also after another login"
    with start_exchange(config={"login": login}, **options) as exchange:
        assert opened("new", "n", exchange.endpoint) == 5, "the configuration no longer has it"
    with start_exchange(config=config | {"other_accounts": {"orders_open_max": 8}}, **options) as exchange:
        assert opened("new", "n", exchange.endpoint) == 1


@pytest.mark.parametrize("field", ["latency", "messages_per_s_max", "balances", "self_trade", "orders_open"])
def test_other_accounts_take_limits_and_fees_only(field: str) -> None:
    with pytest.raises(ConfigError, match=rf"other_accounts\.{field}"):
        load_config(overrides={"symbols": [{"name": "A"}], "other_accounts": {field: {}}})
    with pytest.raises(ConfigError, match=r"other_accounts\.fees"):
        load_config(overrides={"symbols": [{"name": "A"}], "other_accounts": {"fees": {"maker_ppm": 1_000_001}}})
