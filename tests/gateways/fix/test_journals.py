"""Clients of an exchange that begins with another journal."""

import signal
from pathlib import Path

import pytest

from serl.clients.blocking import connect
from tests.gateways.fix.client import FixClient
from tests.gateways.fix.server_fixture import PASSWORD, start_gateway
from tests.server_fixture import free_endpoint, start_exchange


@pytest.mark.long
def test_who_stays_logged_on_is_told_of_another_journal(tmp_path: Path) -> None:
    """The orders of the former one are lost, also one that came in between, and those of the new one are told of."""
    endpoint = free_endpoint()
    with start_gateway(endpoint, tmp_path, ["alice", "bob"]) as gateway, gateway.client("alice") as client:
        with start_exchange(symbols="AMZN", endpoint=endpoint) as first:
            client.logon()
            client.order("o1", 1, 10, "90")
            assert client.receive("8")["150"] == "0"
            first.kill()
        client.order("o2", 1, 10, "91")
        with start_exchange(symbols="AMZN", endpoint=endpoint):
            assert "another journal" in client.receive("5")["58"]
            client.order("o3", 1, 10, "92")
            assert client.receive("j")["379"] == "o3"
            client.send("5")
            assert client.ended()
            with gateway.client("alice", seq=client.seq, expected=client.expected) as refused:
                refused.send("A", (98, 0), (108, -1), (554, PASSWORD))  # and nothing is forgotten
                seq = refused.seq - 1
                refused.receive("5")
                expected = refused.expected
            with gateway.client("alice", seq=seq, expected=expected) as again, gateway.client("bob") as bob:
                again.logon()
                lost = [again.receive("8") for _ in range(2)]
                assert [(each["11"], each["150"], each["151"]) for each in lost] == [("o1", "4", "0"), ("o2", "4", "0")]
                again.order("o4", 1, 10, "91")
                assert (again.receive("8")["11"], again.expected) == ("o4", expected + 4)
                bob.logon()
                bob.order("s", 2, 4, "90")
                bob.receive("8"), bob.receive("8")
                fill = again.receive("8")
                assert (fill["11"], fill["150"], fill["31"], fill["14"]) == ("o4", "F", "91.00", "4")
                with connect(endpoint, "judge") as judge:
                    assert [level[:2] for level in judge.book("AMZN")[0]] == [(9100, 6)]


def longer_journal(endpoint: str, folder: Path) -> Path:
    """A journal with more events than that of an exchange with one order."""
    with start_exchange(symbols="AMZN", endpoint=endpoint, journal=folder) as other, connect(endpoint, "bob") as bob:
        for _ in range(10):
            bob.buy("AMZN", 1, 90)
        other.stop()
    return folder


COPIES: dict[str, dict[str, object]] = {"copies": {"drop_copy": True}}


@pytest.mark.long
def test_a_drop_copy_that_stays_is_told_of_a_longer_journal(tmp_path: Path) -> None:
    """It went on in the middle of that journal, if it asked for nothing while the exchange was away: here the gateway is stopped meanwhile."""
    endpoint = free_endpoint()
    other = longer_journal(endpoint, tmp_path / "other")
    with start_gateway(endpoint, tmp_path, ["copies"], **COPIES) as gateway, gateway.client("copies") as copies:
        with start_exchange(symbols="AMZN", endpoint=endpoint) as first, connect(endpoint, "alice") as alice:
            copies.logon()
            alice.buy("AMZN", 1, 90)
            assert copies.receive("8")["150"] == "0"
            gateway.process.send_signal(signal.SIGSTOP)
            first.kill()
        with start_exchange(symbols="AMZN", endpoint=endpoint, journal=other):
            gateway.process.send_signal(signal.SIGCONT)
            copies.receive("5")  # and no report of the other journal
            copies.send("5")
            assert copies.ended()
            with gateway.client("copies", seq=copies.seq, expected=copies.expected) as again:
                receives_only_the_next_order(again, endpoint)


def test_a_drop_copy_that_returns_begins_with_the_next_event_of_a_longer_journal(tmp_path: Path) -> None:
    """The gateway restarted in between, after the client had its numbers begin again."""
    endpoint = free_endpoint()
    other = longer_journal(endpoint, tmp_path / "other")
    with start_exchange(symbols="AMZN", endpoint=endpoint), start_gateway(endpoint, tmp_path, ["copies"], **COPIES) as gateway:  # fmt: skip
        with gateway.client("copies") as copies, connect(endpoint, "alice") as alice:
            copies.logon()
            alice.buy("AMZN", 1, 90)
            assert copies.receive("8")["150"] == "0"
            copies.logout()
        with gateway.client("copies") as copies:
            copies.logon((141, "Y"))
            copies.logout()
    with (
        start_exchange(symbols="AMZN", endpoint=endpoint, journal=other),
        start_gateway(endpoint, tmp_path, ["copies"], **COPIES) as gateway,
        gateway.client("copies", seq=copies.seq, expected=copies.expected) as again,
    ):
        receives_only_the_next_order(again, endpoint)


def receives_only_the_next_order(client: FixClient, endpoint: str) -> None:
    client.logon()
    with connect(endpoint, "bob") as bob:
        bob.buy("AMZN", 7, 91)
        report = client.receive("8")
    assert (report["150"], report["38"], report["44"]) == ("0", "7", "0.91")
