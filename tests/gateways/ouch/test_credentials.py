"""An exchange that does not trust the gateway: keys, tokens, permissions, and a rate of messages."""

import time
from pathlib import Path

import pytest
import yaml

from serl.exchange.keys import new_keys
from serl.gateways.ouch.reasons import Reject
from tests.gateways.ouch.client import SECRETS, SoupClient, cancel, enter, gateway
from tests.server_fixture import start_exchange

RATE = 20
"""Messages a second, and at once after a pause."""


@pytest.mark.long
def test_tokens_keys_and_permissions(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    new_keys(keys)
    participants = {"alice": {"token": "a"}, "bob": {"token": "b"}, "eve": {"token": "e", "permissions": ["data"]}}
    config: dict[str, object] = {"login": {"curve_keys": str(keys), "participants": participants}}
    accounts = tmp_path / "tokens.yaml"

    def write(**logins: str) -> None:
        settings = {name: {"secret": SECRETS.get(name, "secret"), "token": token} for name, token in logins.items()}
        accounts.write_text(yaml.safe_dump({"accounts": settings}))
        accounts.chmod(0o600)

    with start_exchange(symbols="AMZN", config=config, folder=tmp_path) as served:
        options = "--accounts", str(accounts), "--token", "a"
        write(alice="a", bob="b")
        started = gateway(served.endpoint, tmp_path, *options, "--curve", str(keys))
        with started as found, SoupClient(found.port()) as alice:
            alice.log_in("alice", 0)
            alice.send(enter(1))
            assert alice.message()["type"] == "A"
        with pytest.raises(AssertionError, match="--curve"), gateway(served.endpoint, tmp_path, *options):
            pass
        for login in ({"bob": "wrong"}, {"eve": "e"}):  # another token, not allowed to trade
            write(**login)
            refused = gateway(served.endpoint, tmp_path, *options, "--curve", str(keys))
            with pytest.raises(AssertionError, match="login refused"), refused:
                pass


def test_orders_beyond_the_rate_wait(tmp_path: Path) -> None:
    count = 4 * RATE
    config: dict[str, object] = {"limits": {"messages_per_s_max": RATE}}
    with (
        start_exchange(config=config, folder=tmp_path) as exchange,
        gateway(exchange.endpoint, tmp_path) as started,
        SoupClient(started.port()) as alice,
    ):
        alice.log_in("alice", 0)
        began_s = time.monotonic()
        for ref in range(1, count + 1):
            alice.send(enter(ref))
        answers = {message["user_ref"]: message for message in alice.messages(count)}
        assert answers.keys() == set(range(1, count + 1)), "expected an answer to each"
        assert answers[1]["type"] == "A"
        reasons = {message["reason"] for message in answers.values() if message["type"] != "A"}
        assert reasons <= {Reject.PORT_RATE}
        accepted = sum(message["type"] == "A" for message in answers.values())
        alice.send(enter(count + 1), cancel(1))
        assert {(kind, ref) for kind, ref, _ in alice.summary(2)} == {("A", count + 1), ("C", 1)}
        assert time.monotonic() - began_s >= accepted / RATE - 1
