"""Clients that stay logged on while the exchange begins with another journal."""

from pathlib import Path

import pytest

from serl.clients.blocking import connect
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
