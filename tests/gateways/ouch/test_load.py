"""Many messages: random ones, right and wrong, and kills of the gateway under load. What the stream tells must agree with the exchange."""

import random
import threading
import time
from pathlib import Path

import pytest

from serl.clients.blocking import connect
from serl.exchange.request import request_socket
from serl.exchange.wire import Kind
from serl.gateways.connections import SESSIONS
from tests.gateways.flood import flooded
from tests.gateways.ouch.client import (
    Gateway,
    SoupClient,
    cancel,
    decode,
    enter,
    gateway,
    mass_cancel,
    modify,
    option,
    replace,
    shares,
)
from tests.server_fixture import start_exchange

QUERIES = 30_000
OPTIONS = (
    b"",
    b"",
    b"",
    option(12, b"P"),
    shares(3, 20),
    shares(5, 10),
    option(6, b"M"),
    option(6, b"R"),
    option(2, b"FIRM"),
)


class Bot:
    """Sends random messages, and keeps what the stream says is open."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.ref = 0
        self.open: dict[int, int] = {}
        self.sequence = 1
        self.payloads: list[bytes] = []

    def message(self) -> bytes:
        source, known = self.source, [*range(max(1, self.ref - 20), self.ref + 1)] or [1]
        kind = source.random()
        if kind < 0.5 or not self.ref:
            self.ref += 1
            return enter(
                self.ref, source.choice([b"B", b"S", b"T"]), source.randrange(1, 100), 1_000_000 + 100 * source.randrange(-8, 8),
                tif=source.choice([b"0", b"0", b"3"]), display=source.choice([b"Y", b"Y", b"Y", b"N"]), options=source.choice(OPTIONS),
            )  # fmt: skip
        if kind < 0.65:
            self.ref += 1
            return replace(
                source.choice(known), self.ref, source.randrange(1, 100), 1_000_000 + 100 * source.randrange(-8, 8)
            )
        if kind < 0.8:
            return cancel(source.choice(known))
        if kind < 0.9:
            return cancel(source.choice(known), source.randrange(1, 60))
        if kind < 0.99:
            return modify(source.choice(known), source.choice([b"B", b"S", b"E"]), source.randrange(1, 60))
        self.ref += 1
        return mass_cancel(self.ref, b"", source.choice([b"", option(27, b"B")]))

    def apply(self, payload: bytes) -> None:
        self.payloads.append(payload)
        self.sequence += 1
        told = decode(payload)
        ref, quantity = told.get("user_ref", 0), told.get("quantity", 0)
        match told["type"]:
            case "A":
                assert ref not in self.open
                self.open[ref] = quantity
            case "U":
                del self.open[told["orig_user_ref"]]
                self.open[ref] = quantity
            case "E" | "C" | "D":
                assert quantity <= self.open[ref], (ref, quantity, self.open[ref])
                self.open[ref] -= quantity
            case "M":
                self.open[ref] = quantity

    def read_until_answered(self, client: SoupClient) -> None:
        """Reads until the exchange has answered everything that was sent: it rejects an order that is too large."""
        self.ref += 1
        client.send(enter(self.ref, b"B", 2_000_000))
        while True:
            payload = client.payload()
            self.apply(payload)
            if payload[:1] == b"J" and decode(payload)["user_ref"] == self.ref:
                return


def drained(client: SoupClient, bot: Bot, endpoint: str) -> None:
    """Reads until what the stream says is open is what the exchange has open."""
    with request_socket(endpoint, "queries") as ask:
        for _ in range(50):
            bot.read_until_answered(client)
            statistics = ask(Kind.STATISTICS)[5]
            if statistics["orders_open"] == sum(quantity > 0 for quantity in bot.open.values()):
                return
    raise AssertionError((statistics, {ref: quantity for ref, quantity in bot.open.items() if quantity}))


def resting_lots(endpoint: str) -> int:
    with connect(endpoint, "watcher") as watcher:
        return sum(level.qty_lots for side in watcher.book("AMZN", 0) for level in side)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_random_messages_agree_with_the_exchange(tmp_path: Path, seed: int) -> None:
    bot = Bot(seed)
    with (
        start_exchange(journal=tmp_path / "journal") as exchange,
        gateway(exchange.endpoint, tmp_path) as started,
        SoupClient(started.port()) as alice,
    ):
        alice.log_in("alice", 1)
        for _ in range(40):
            alice.send(*(bot.message() for _ in range(bot.source.randrange(1, 40))))
        drained(alice, bot, exchange.endpoint)
        kinds = {chr(payload[0]) for payload in bot.payloads}
        assert kinds >= set("SAUCEJMX"), kinds
        assert resting_lots(exchange.endpoint) <= sum(bot.open.values())
        bot.ref += 1
        alice.send(mass_cancel(bot.ref))
        drained(alice, bot, exchange.endpoint)
        assert not any(bot.open.values()) and resting_lots(exchange.endpoint) == 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_kills_under_load_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    bot = Bot(seed)
    with start_exchange(journal=tmp_path / "journal") as exchange:
        for turn in range(4):
            with gateway(exchange.endpoint, tmp_path) as started, SoupClient(started.port()) as alice:
                if turn:
                    with SoupClient(started.port()) as again:
                        again.log_in("alice", 1)
                        assert [again.payload() for _ in bot.payloads] == bot.payloads, "messages changed"
                alice.log_in("alice", bot.sequence)
                bot.read_until_answered(alice)
                if turn < 3:
                    kill_under_load(started, alice, bot)
                else:
                    drained(alice, bot, exchange.endpoint)


def kill_under_load(started: Gateway, alice: SoupClient, bot: Bot) -> None:
    """Sends messages in one thread while this one reads, and kills the gateway after some answers."""
    messages = [[bot.message() for _ in range(20)] for _ in range(200)]

    def send() -> None:
        try:
            for batch in messages:
                alice.send(*batch)
        except OSError:
            pass  # killed

    sender = threading.Thread(target=send)
    sender.start()
    for _ in range(bot.source.randrange(200, 1500)):
        bot.apply(alice.payload())
    started.kill()
    sender.join()
    while (packet := alice.packet()) != (b"", b""):
        if packet[0] == b"S":
            bot.apply(packet[1])


@pytest.mark.long
def test_a_user_who_asks_much_leaves_the_others_their_turn(tmp_path: Path) -> None:
    """Queries and mass cancels are taken one by one: all of a read at once delayed the orders of the others by seconds."""
    with (
        start_exchange(symbols="AMZN") as exchange,
        gateway(exchange.endpoint, tmp_path) as started,
        SoupClient(started.port()) as alice,
        SoupClient(started.port()) as bob,
    ):
        alice.log_in("alice", 0)
        bob.log_in("bob", 0)
        writer = threading.Thread(target=alice.send, args=(*[b"Q"] * QUERIES, enter(1, quantity=7)))
        writer.start()
        delays_s = []
        for ref in range(1, 6):
            sent_s = time.monotonic()
            bob.send(enter(ref, quantity=1))
            assert bob.summary(1) == [("A", ref, 1)]
            delays_s.append(time.monotonic() - sent_s)
        told = alice.messages(QUERIES + 1)
        writer.join()
        assert {message["type"] for message in told[:-1]} == {"Q"} and told[-1]["quantity"] == 7
        assert max(delays_s) < 1, delays_s


@pytest.mark.long
def test_ten_thousand_connections_leave_the_others_theirs(tmp_path: Path) -> None:
    with start_exchange() as exchange, gateway(exchange.endpoint, tmp_path) as started:
        port = started.port()
        with SoupClient(port) as client:
            client.log_in("alice")
            assert client.message()["type"] == "S"
            with flooded(started.process.pid, port, SESSIONS):
                client.send(enter(1))
                assert client.message()["type"] == "A"
                with SoupClient(port) as newcomer:
                    newcomer.log_in("bob")
        lines = (tmp_path / "stderr").read_text().splitlines()
    assert 1 <= len(lines) < 100, "few lines, however many connections"
