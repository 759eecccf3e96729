"""Orders of an exchange that comes back with another journal and other symbols."""

from pathlib import Path

from tests.gateways.fix.client import FixClient, timestamp
from tests.gateways.fix.server_fixture import launch, write_accounts
from tests.server_fixture import free_endpoint, start_exchange


def test_orders_in_a_symbol_that_there_is_no_longer_are_lost_with_their_quantities(tmp_path: Path) -> None:
    """The exchange had BOND, in lots of 10 and ticks of 0.05, and comes back with AMZN alone, in lots of 1. Before, the answer to the Logon
    never came (KeyError), nor to any later one."""
    endpoint, former = free_endpoint(), {"name": "BOND", "tick_size": "0.05", "lot_size": "10"}
    accounts, store = write_accounts(tmp_path / "accounts.yaml", ["alice"]), tmp_path / "store"
    gateway = launch(endpoint, accounts, store)
    with (
        start_exchange(symbols="", config={"symbols": [{"name": "AMZN"}, former]}, folder=tmp_path, endpoint=endpoint),
        gateway.client("alice") as client,
    ):
        client.logon()
        client.order("o1", 1, 30, "9.95", symbol="BOND")
        assert client.receive("8")["150"] == "0"
        client.expected = 1
        client.logon((141, "Y"), seq=1)  # the symbols are kept, too
        client.seq = 2
        client.logout()
    with start_exchange(symbols="AMZN", endpoint=endpoint):
        with gateway.client("alice", seq=client.seq, expected=client.expected) as again:
            again.logon()
            lost = again.receive("8")
            assert [lost[tag] for tag in ("11", "55", "150", "38", "44", "14", "151")] == [
                "o1",
                "BOND",
                "4",
                "30",
                "9.95",
                "0",
                "0",
            ]
            check_forgotten(again)
        assert "Traceback" not in gateway.stop()
        gateway = launch(endpoint, accounts, store)
        with gateway.client("alice", seq=again.seq, expected=again.expected) as after_restart:
            after_restart.logon()
            check_forgotten(after_restart)
    assert "Traceback" not in gateway.stop()


def check_forgotten(client: FixClient) -> None:
    """The lost order is an unknown one, and its ClOrdID stays used."""
    client.send("H", (11, "o1"), (55, "BOND"), (54, 1))
    assert client.receive("8")["103"] == "5"
    client.send("F", (11, f"c{client.seq}"), (41, "o1"), (55, "BOND"), (54, 1), (60, timestamp()))
    assert client.receive("9")["102"] == "1"
    client.order("o1")
    assert client.receive("8")["103"] == "6"


def test_an_order_without_an_answer_goes_to_no_other_symbol(tmp_path: Path) -> None:
    """The store of a session without a report has an order that the exchange has not answered; the gateway restarts, and the exchange comes back
    with GOOG as the first symbol instead of AMZN. Before, the order was sent to GOOG."""
    endpoint, accounts = free_endpoint(), write_accounts(tmp_path / "accounts.yaml", ["alice"])
    gateway = launch(endpoint, accounts, tmp_path / "store")
    with (
        start_exchange(symbols="AMZN", endpoint=endpoint) as first,
        gateway.client("alice") as client,
    ):
        client.logon()
        first.kill()
        client.order("o1")
        client.send("1", (112, "stored"))
        assert client.receive("0")["112"] == "stored"
        gateway.kill()
    gateway = launch(endpoint, accounts, tmp_path / "store")
    with (
        start_exchange(symbols="GOOG", endpoint=endpoint),
        gateway.client("alice", seq=client.seq, expected=client.expected) as again,
    ):
        again.logon()
        lost = again.receive("8")
        assert (lost["11"], lost["55"], lost["150"]) == ("o1", "AMZN", "4")
    assert "Traceback" not in gateway.stop()
