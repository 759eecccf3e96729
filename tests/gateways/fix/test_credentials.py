"""An exchange with CURVE keys and participants: the gateway needs the keys, and each account its token and its permission."""

from pathlib import Path

import pytest

from serl.exchange.keys import new_keys
from tests.gateways.fix.client import FixClient
from tests.gateways.fix.server_fixture import PASSWORD, launch, write_accounts
from tests.server_fixture import start_exchange


@pytest.mark.long
def test_tokens_keys_and_permissions(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    new_keys(keys)
    participants = {
        "alice": {"token": "a", "permissions": ["trade", "data"]},
        "copier": {"token": "c", "permissions": ["drop_copy", "data"]},
        "greedy": {"token": "g"},
        "wrong": {"token": "w"},
    }
    config: dict[str, object] = {"login": {"curve_keys": str(keys), "participants": participants}}
    tokens: dict[str, dict[str, object]] = {
        "alice": {"token": "a"},
        "copier": {"token": "c", "drop_copy": True},
        "greedy": {"token": "g", "drop_copy": True},
        "wrong": {"token": "x"},
    }
    accounts = write_accounts(tmp_path / "accounts.yaml", list(tokens), **tokens)
    with start_exchange(symbols="AMZN", config=config, folder=tmp_path) as served:
        gateway = launch(served.endpoint, accounts, tmp_path / "store", "--curve", str(keys))

        def connect(login: str) -> FixClient:
            client = FixClient(gateway.port, login, PASSWORD)
            client.send("A", (98, 0), (108, 30), (554, PASSWORD))
            return client

        with connect("copier") as copies, connect("alice") as alice:
            copies.receive("A"), alice.receive("A")
            alice.order("o")
            assert alice.receive("8")["150"] == "0"
            assert copies.receive("8")["1"] == "alice"
        for login, reason in (("greedy", "drop_copy"), ("wrong", "login")):
            with connect(login) as refused:
                assert reason in refused.receive("5")["58"] and refused.ended()
        assert "Traceback" not in gateway.stop()
        without = launch(served.endpoint, accounts, tmp_path / "store")
        gateway = without
        with connect("alice") as refused:
            refused.strict = False
            assert "--curve" in refused.receive("5")["58"] and refused.ended()
        without.stop()
