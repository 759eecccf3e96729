"""The session layer against a table of scenarios, each with an account of its own; and what needs more than one connection, or time."""

import time

import pytest

from tests.gateways.fix.client import FixClient
from tests.gateways.fix.scenarios import SCENARIOS, Step, alive
from tests.gateways.fix.server_fixture import Gateway


@pytest.mark.parametrize("name, steps", SCENARIOS, ids=[name for name, _ in SCENARIOS])
def test_scenario(gateway: Gateway, name: str, steps: list[Step]) -> None:
    with gateway.client() as client:
        for step in steps:
            step(client)


def test_1b_a_second_connection_of_a_session_is_refused(gateway: Gateway) -> None:
    with gateway.client() as first:
        first.logon()
        with gateway.client(first.login) as second:
            second.send("A", (98, 0), (108, 30), (554, second.password))
            assert second.ended()
        alive(first)


def test_wrong_credentials_change_no_number(gateway: Gateway) -> None:
    login = next(gateway.logins)
    with FixClient(gateway.port, login, "wrong") as client:
        client.send("A", (98, 0), (108, 30), (554, "wrong"))
        assert client.receive("5")["34"] == "1" and client.ended()
    with gateway.client(login) as client:
        client.logon()


def test_4a_heartbeats_and_the_end_of_a_silent_client(gateway: Gateway) -> None:
    with gateway.client() as client:
        client.logon(heartbeat_s=1)
        began = time.monotonic()
        found = [client.receive("0", "1", "5") for _ in range(3)]
        assert [fields["35"] for fields in found] == ["0", "1", "0"] and "112" in found[1]
        assert "nothing was received" in client.receive("5")["58"]
        assert client.ended() and 1.5 < time.monotonic() - began < 15


def test_a_session_goes_on_with_its_numbers(gateway: Gateway) -> None:
    with gateway.client() as client:
        client.logon()
        client.order("o", 1, 1, "0.01", symbol="MSFT")
        client.receive("8")
        client.logout()
    with gateway.client(client.login, seq=client.seq, expected=client.expected) as again:
        again.logon()
        alive(again)
        again.close()
    with gateway.client(client.login, seq=again.seq - 1, expected=again.expected) as low:
        low.send("A", (98, 0), (108, 30), (554, low.password))
        assert "MsgSeqNum too low" in low.receive("5")["58"] and low.ended()


def test_next_expected_msg_seq_num_asks_for_a_resend(gateway: Gateway) -> None:
    with gateway.client() as client:
        client.logon()
        client.order("o", 1, 1, "0.01", symbol="MSFT")
        client.receive("8")
        client.logout()
    with gateway.client(client.login, seq=client.seq, expected=client.expected) as again:
        assert again.logon((789, 2))["789"] == str(again.seq)
        report = again.receive("8")
        assert (report["34"], report["43"], report["11"]) == ("2", "Y", "o")
        assert again.receive("4")["36"] == str(again.expected - 1)
        alive(again)
