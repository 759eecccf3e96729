"""Kills and restarts of gateway and exchange: each stream keeps its messages and their numbers, and nothing acknowledged is lost."""

import asyncio
import re
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from serl.clients.session import Instrument
from serl.exchange.errors import ConfigError, SerlError
from serl.gateways.accounts import new_accounts
from serl.gateways.ouch.cli import ouch
from serl.gateways.ouch.gateway import OuchGateway
from serl.gateways.ouch.inbound import Symbols
from serl.gateways.ouch.link import UNANSWERED_ROWS_MAX
from serl.gateways.ouch.reasons import Reject
from tests.gateways.ouch.client import Gateway, SoupClient, cancel, enter, gateway, modify, replace
from tests.server_fixture import free_endpoint, start_exchange


def replay(started: Gateway, user: str, count: int, sequence: int = 1) -> list[bytes]:
    with SoupClient(started.port()) as client:
        client.log_in(user, sequence)
        return [client.payload() for _ in range(count)]


def logged_in(started: Gateway, user: str = "alice", sequence: int = 0) -> SoupClient:
    client = SoupClient(started.port())
    client.log_in(user, sequence)
    return client


def test_a_killed_gateway_continues_every_stream(tmp_path: Path) -> None:
    with start_exchange(journal=tmp_path / "journal") as exchange:
        with gateway(exchange.endpoint, tmp_path) as first:
            with logged_in(first) as alice, logged_in(first, "bob") as bob:
                alice.send(
                    enter(1, b"B", 100),
                    enter(2, b"S", 50, 1_010_000),
                    replace(1, 3, 120, 1_000_000),
                    modify(2, b"T", 40),
                )
                alice.messages(4)
                bob.send(enter(1, b"S", 30, 1_000_000, tif=b"3"), enter(2, b"X"))
                bob.messages(3)
                alice.message()
                told = {"alice": replay(first, "alice", 6), "bob": replay(first, "bob", 4)}
            first.kill()
        with gateway(exchange.endpoint, tmp_path) as second:
            assert {user: replay(second, user, len(told[user])) for user in told} == told
            assert replay(second, "alice", 2, 5) == told["alice"][4:]
            with logged_in(second) as alice, logged_in(second, "bob") as bob:
                bob.send(enter(2, b"B", 10), b"Q", enter(3, b"B", 40, 1_010_000, tif=b"3"))
                assert bob.message()["next_user_ref"] == 3  # 2 was rejected before the kill, and is used up
                assert bob.summary(2) == [("A", 3, 40), ("E", 3, 40)]
                assert alice.summary(1) == [("E", 2, 40)]
                alice.send(cancel(3, 100))  # 30 were executed before the kill
                assert alice.summary(1) == [("C", 3, 20)]
                alice.send(enter(3), cancel(3))
                assert alice.summary(1) == [("C", 3, 70)]


@pytest.mark.long
def test_fills_while_the_gateway_is_away_are_told_when_it_is_back(tmp_path: Path) -> None:
    from serl.clients.blocking import connect

    with start_exchange(journal=tmp_path / "journal") as exchange:
        with gateway(exchange.endpoint, tmp_path) as first:
            with logged_in(first) as alice:
                alice.send(enter(1, b"B", 100))
                alice.message()
            first.kill()
        with connect(exchange.endpoint, "carol") as carol:
            carol.sell("AMZN", 25, 10_000)
        with gateway(exchange.endpoint, tmp_path) as second, logged_in(second, sequence=3) as alice:
            assert alice.summary(1) == [("E", 1, 25)]


@pytest.mark.long
def test_the_exchange_restarts_underneath(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    with ExitStack() as stack:
        exchange = stack.enter_context(start_exchange(journal=tmp_path / "journal", endpoint=endpoint))
        started = stack.enter_context(gateway(endpoint, tmp_path))
        alice = stack.enter_context(logged_in(started))
        alice.send(enter(1, b"B", 100))
        alice.message()
        exchange.kill()
        stack.enter_context(start_exchange(journal=tmp_path / "journal", endpoint=endpoint))
        ref = 1
        while True:  # the gateway finds out by itself; orders until then are rejected
            ref += 1
            alice.send(enter(ref, b"B", 10))
            answer = alice.message()
            if answer["type"] == "A":
                break
            assert answer["reason"] == Reject.DESTINATION_CLOSED
        alice.send(cancel(1), cancel(ref))
        assert alice.summary(2) == [("C", 1, 100), ("C", ref, 10)]


@pytest.mark.long
def test_a_user_whose_orders_filled_the_gateway_is_read_again_after_the_restart(tmp_path: Path) -> None:
    endpoint, last_ref = free_endpoint(), UNANSWERED_ROWS_MAX + 1000
    with ExitStack() as stack:
        exchange = stack.enter_context(start_exchange(journal=tmp_path / "journal", endpoint=endpoint))
        started = stack.enter_context(gateway(endpoint, tmp_path))
        alice = stack.enter_context(logged_in(started))
        alice.send(enter(1))
        assert alice.summary(1) == [("A", 1, 100)]
        exchange.kill()
        alice.send(*(enter(ref, b"B", 100, 900_000) for ref in range(2, last_ref + 1)))  # nothing answers them
        stack.enter_context(start_exchange(journal=tmp_path / "journal", endpoint=endpoint))
        assert {answer["reason"] for answer in alice.messages(last_ref - 1)} == {Reject.DESTINATION_CLOSED}
        alice.send(b"Q")
        assert alice.message()["next_user_ref"] == last_ref + 1


@pytest.mark.long
def test_another_journal_begins_another_session(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    with ExitStack() as stack:
        exchange = stack.enter_context(start_exchange(journal=tmp_path / "journal", endpoint=endpoint))
        started = stack.enter_context(gateway(endpoint, tmp_path))
        alice = SoupClient(started.port())
        session, _ = alice.log_in("alice", 0)
        alice.send(enter(1, b"B", 100))
        alice.message()
        exchange.kill()
        stack.enter_context(start_exchange(journal=tmp_path / "other", endpoint=endpoint))
        kind, _ = alice.packet()
        while kind == b"S":  # orders
            kind, _ = alice.packet()
        assert kind == b"Z" and alice.packet() == (b"", b"")
        alice.close()
        while True:
            with SoupClient(started.port()) as again:
                again.write(b"")
                try:
                    fresh, begins = again.log_in("alice", 1)
                except AssertionError:
                    continue  # the users are being logged in again
                break
        assert fresh != session and begins == 1
        with logged_in(started) as alice:
            alice.send(enter(1, b"B", 10))
            assert alice.summary(1) == [("A", 1, 10)]


@pytest.mark.parametrize(
    "options, error",
    [
        (
            ["--account", "longername"],
            "expected a login of 1 to 6 ASCII characters, as SoupBinTCP has, got 'longername'",
        ),
        ([], "expected --accounts or at least one --account"),
        (["--account", "alice", "--listen", "nowhere"], "--listen: expected HOST:PORT, got 'nowhere'"),
        (["--account", "alice", "--connect", "tcp://127.0.0.1:9"], "no reply from tcp://127.0.0.1:9"),
        (["--accounts", "no-such-file"], "no-such-file"),
    ],
)
def test_what_cannot_start_says_why_in_one_line(tmp_path: Path, options: list[str], error: str) -> None:
    with pytest.raises((SerlError, OSError), match=re.escape(error)):
        ouch.main(["start", "--state", str(tmp_path / "state"), *options], standalone_mode=False)


def test_a_folder_belongs_to_one_gateway(tmp_path: Path) -> None:
    async def main() -> None:
        accounts = new_accounts(["alice"], 10)
        first = OuchGateway("tcp://127.0.0.1:9", accounts, tmp_path, print)
        with pytest.raises(ConfigError, match="one that another gateway uses"):
            OuchGateway("tcp://127.0.0.1:9", accounts, tmp_path, print)
        await first.close()
        await OuchGateway("tcp://127.0.0.1:9", accounts, tmp_path, print).close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "name, tick, lot, error",
    [
        ("FINE", "0.00001", "1", "expected a tick size of up to four decimals"),
        ("FRAC", "0.01", "0.5", "expected a lot size in whole shares"),
        ("NINELETTR", "0.01", "1", "expected symbols of up to 8 ASCII letters"),
    ],
)
def test_instruments_that_do_not_fit_are_refused(name: str, tick: str, lot: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        Symbols([Instrument(0, name, Decimal(tick), Decimal(lot))])


def test_lots_are_shares() -> None:
    symbols = Symbols(
        [Instrument(1, "B", Decimal("0.5"), Decimal(100)), Instrument(0, "A", Decimal("0.0001"), Decimal(1))]
    )
    assert symbols.lots.tolist() == [1, 100] and symbols.units.tolist() == [1, 5000]
    assert symbols.find(np.array([b"B       ", b"C       ", b"A       "], "S8")).tolist() == [1, -1, 0]


@pytest.mark.long
def test_symbols_that_ouch_cannot_represent_are_refused(tmp_path: Path) -> None:
    config: dict[str, object] = {"symbols": [{"name": "FINE", "tick_size": "0.00001"}]}
    with (
        start_exchange(symbols="", config=config, folder=tmp_path) as exchange,
        pytest.raises(AssertionError, match="FINE: expected a tick size of up to four decimals"),
        gateway(exchange.endpoint, tmp_path),
    ):
        pass
