"""Market data, reference data and trading status over FIX, and drop copies."""

import asyncio
import re
from itertools import count, islice
from types import SimpleNamespace
from typing import Any

import pytest

from serl.clients.session import Instrument
from serl.clients.values import FeedMessage, SymbolStatus, Trade
from serl.exchange.records import CommandKind, HaltReason, Phase
from serl.exchange.request import request_socket
from serl.exchange.wire import FeedKind, Kind
from serl.gateways.fix.codec import Frame, Message
from serl.gateways.fix.instruments import Quoting
from serl.gateways.fix.market_data import MarketData
from serl.gateways.fix.reference import REQUESTS_MAX, ReferenceData
from tests.gateways.fix.client import FixClient, timestamp
from tests.gateways.fix.server_fixture import Gateway
from tests.server_fixture import Served

BOTH = ((267, 2), (269, 0), (269, 1))
ALL = ((267, 3), (269, 0), (269, 1), (269, 2))


def entries(client: FixClient, kind: str, first: str) -> list[dict[str, str]]:
    """The members of the group of the next message, which begin with the field `first`."""
    pairs = client.receive_pairs(kind)
    found: list[dict[str, str]] = []
    for tag, value in pairs[next((at for at, (tag, _) in enumerate(pairs) if tag == "268"), 0) + 1 : -1]:
        if tag == first:
            found.append({})
        found[-1][tag] = value
    return found


def request(
    client: FixClient, name: str, kind: int, *pairs: tuple[int, Any], depth: int = 0, symbol: str = "BOND"
) -> None:
    client.send("V", (262, name), (263, kind), (264, depth), *pairs, (146, 1), (55, symbol))


@pytest.fixture
def alice(gateway: Gateway) -> Any:
    with gateway.client() as client:
        client.logon()
        yield client
        client.send("q", (11, "clean"), (530, 7), (60, timestamp()))
        while client.receive()["35"] != "r":
            pass


def test_a_snapshot(gateway: Gateway, alice: FixClient) -> None:
    for name, side, price in (("a", 1, "10"), ("b", 1, "10.05"), ("c", 2, "10.50"), ("d", 1, "10.05")):
        alice.order(name, side, 20, price, symbol="BOND")
        alice.receive("8")
    with gateway.client() as client:
        client.logon()
        request(client, "one", 0, *BOTH, depth=1)
        found = entries(client, "W", "269")
        assert [(entry["269"], entry["270"], entry["271"], entry["346"]) for entry in found] == [
            ("0", "10.05", "40", "2"), ("1", "10.50", "20", "1")
        ]  # fmt: skip
        request(client, "two", 0, (267, 1), (269, 0))
        assert [entry["270"] for entry in entries(client, "W", "269")] == ["10.05", "10.00"]


def test_changes(gateway: Gateway, alice: FixClient) -> None:
    with gateway.client() as client:
        client.logon()
        request(client, "all", 1, (265, 1), *ALL, depth=2)
        entries(client, "W", "269")
        alice.order("a", 1, 20, "10", symbol="BOND")
        (new,) = entries(client, "X", "279")
        assert (new["279"], new["269"], new["270"], new["271"], new["55"]) == ("0", "0", "10.00", "20", "BOND")
        alice.order("b", 1, 10, "10", symbol="BOND")
        (change,) = entries(client, "X", "279")
        assert (change["279"], change["271"], change["278"]) == ("1", "30", new["278"])
        alice.order("c", 2, 10, "10", symbol="BOND")
        (trade,), (change,) = entries(client, "X", "279"), entries(client, "X", "279")
        assert (trade["279"], trade["269"], trade["270"], trade["271"]) == ("0", "2", "10.00", "10")
        assert (change["279"], change["271"]) == ("1", "20")
        alice.order("d", 1, 10, "9", symbol="BOND")
        assert [(entry["279"], entry["270"]) for entry in entries(client, "X", "279")] == [("0", "9.00")]
        alice.order("e", 1, 10, "11", symbol="BOND")
        found = [(entry["279"], entry["270"]) for entry in entries(client, "X", "279")]
        assert found == [("2", "9.00"), ("0", "11.00")]  # the third level is not shown
        request(client, "all", 2, *ALL)
        alice.order("f", 1, 10, "9.5", symbol="BOND")
        client.send("1", (112, "nothing more"))
        assert client.receive("0")["112"] == "nothing more"
    for _ in range(8):
        alice.receive("8")


class SlowExchange:
    """The client of a gateway, whose replies come when the test says so. `traded` is the number of trades, each an event."""

    def __init__(self) -> None:
        self.core, self.replied, self.traded, self.epoch = SimpleNamespace(books={}), asyncio.Event(), 2, 1
        self.session = SimpleNamespace(instrument=lambda symbol: SimpleNamespace(number=0))

    def subscribe(self, channel: str, symbol: str) -> None:
        pass

    async def ask(self, kind: int, symbol: int, count: int) -> list[Any]:
        reply = [147, 1, self.epoch, self.traded, 0, [list(trade(number)) for number in range(1, self.traded + 1)]]
        await self.replied.wait()
        return reply

    async def status(self, symbol: str) -> SymbolStatus:
        await self.replied.wait()
        return SymbolStatus(False, Phase.CONTINUOUS, HaltReason.NONE)


class Sent:
    """A session, and its connection, that keeps what it is to send."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str]] = []
        self.began = asyncio.Event()

    def begin(self) -> None:
        pass

    def flush(self) -> None:
        pass

    def send_fleeting(self, kind: str, body: str) -> None:
        self.messages.append((kind, body))
        self.began.set()


def trade(match_id: int) -> Trade:
    """The trade of a number, with as many lots."""
    return Trade(match_id, 10**9, 500, match_id, 0, 0)


def subscribed_to_trades(exchange: Any, sent: Any) -> MarketData:
    market = MarketData(sent, exchange, {"BOND": Quoting(Instrument.of(0, "BOND", "0.01", "1"))}, sent)
    fields = ("35=V", "262=t", "263=1", "264=0", "267=1", "269=2", "146=1", "55=BOND")
    market.receivers["V"](Message(Frame("FIX.4.4", "\x01".join(fields))))
    return market


def feed(market: MarketData, epoch: int, *numbers: int) -> None:
    """A message of trades; the number of each is also that of its event."""
    message = [FeedKind.TRADE, epoch, numbers[0] - 1, numbers[-1], 0, [list(trade(number)) for number in numbers]]
    market.take(FeedMessage("trade/BOND/", message))


async def replied(market: MarketData, exchange: Any) -> None:
    """Lets the exchange reply to all requests so far."""
    exchange.replied.set()
    while market.waiting:
        await asyncio.wait(market._tasks)
    exchange.replied.clear()


def test_each_trade_after_the_snapshot_comes_once() -> None:
    """Trades that the feed brought before the reply to the query of the last one were lost."""

    async def scenario(exchange: Any, sent: Any) -> None:
        market = subscribed_to_trades(exchange, sent)

        await asyncio.sleep(0)
        feed(market, 1, 1, 2)
        feed(market, 1, 3)
        exchange.replied.set()
        await sent.began.wait()
        feed(market, 1, 4)
        market.close()

    sent = Sent()
    asyncio.run(scenario(SlowExchange(), sent))
    assert [(kind, re.findall("\x01271=(\\d+)", body)) for kind, body in sent.messages] == [
        ("W", ["3"]),
        ("X", ["4"]),
    ]


def test_trades_that_the_feed_missed_are_sent() -> None:
    """Nobody learnt of them. After another journal, whose trades have lower numbers, there were none any more."""

    async def scenario(exchange: Any, sent: Any) -> None:
        market = subscribed_to_trades(exchange, sent)

        await replied(market, exchange)
        feed(market, 1, 3)
        exchange.traded = 6
        feed(market, 1, 6)  # the message of 4 and 5 is lost
        feed(market, 1, 7)
        await replied(market, exchange)
        feed(market, 1, 8)
        exchange.epoch, exchange.traded = 2, 1
        feed(market, 2, 1)
        await replied(market, exchange)
        feed(market, 2, 2)
        market.close()

    sent = Sent()
    asyncio.run(scenario(SlowExchange(), sent))
    found = [re.findall("\x01271=(\\d+)", body) for _, body in sent.messages]
    assert found == [["2"], ["3"], ["4", "5", "6", "7"], ["8"], ["1"], ["2"]]


def test_trades_that_the_feed_missed_during_a_request_are_sent() -> None:
    """The reply to the first request did not have them, and what came after them seemed to be all."""

    async def scenario(exchange: Any, sent: Any) -> None:
        market = subscribed_to_trades(exchange, sent)
        await replied(market, exchange)
        feed(market, 1, 3)
        exchange.traded = 5
        feed(market, 1, 5)  # the message of 4 is lost
        await asyncio.sleep(0)
        exchange.traded = 7
        feed(market, 1, 7)  # and that of 6
        await asyncio.sleep(0)
        await replied(market, exchange)
        market.close()

    sent = Sent()
    asyncio.run(scenario(SlowExchange(), sent))
    found = [number for _, body in sent.messages for number in re.findall("\x01271=(\\d+)", body)]
    assert found == ["2", "3", "4", "5", "6", "7"]


def test_a_change_of_the_status_is_not_followed_by_an_earlier_status() -> None:
    """A halt that the feed brought before the reply to the query was followed by the status before it."""

    async def scenario(exchange: Any, sent: Any) -> None:
        reference = ReferenceData(sent, exchange, {"BOND": Quoting(Instrument.of(0, "BOND", "0.01", "1"))}, sent)
        for name, kind in (("now", 0), ("follow", 1)):
            fields = ("35=e", f"324={name}", f"263={kind}", "55=BOND")
            reference.receivers["e"](Message(Frame("FIX.4.4", "\x01".join(fields))))
        await asyncio.sleep(0)
        reference.take(FeedMessage("status/BOND/", [FeedKind.STATUS, 1, 0, 1, 0, [1, Phase.CONTINUOUS, 1]]))
        exchange.replied.set()
        while reference.waiting:
            await asyncio.wait(reference._tasks)

    sent = Sent()
    asyncio.run(scenario(SlowExchange(), sent))
    assert [re.findall("324=(\\w+)\x01.*\x01326=(\\d+)", body)[0] for _, body in sent.messages] == [
        ("follow", "2"),
        ("now", "17"),
    ]


def test_full_refreshes(gateway: Gateway, alice: FixClient) -> None:
    with gateway.client() as client:
        client.logon()
        request(client, "full", 1, (265, 0), *BOTH)
        assert entries(client, "W", "269") == []
        alice.order("a", 1, 20, "10", symbol="BOND")
        assert [entry["270"] for entry in entries(client, "W", "269")] == ["10.00"]
    alice.receive("8")


REFUSED: list[tuple[str, int, tuple[tuple[int, Any], ...], str, str]] = [
    ("unknown symbol", 1, ((265, 1), *BOTH), "NONE", "0"),
    ("entry type", 1, ((265, 1), (267, 1), (269, "A")), "BOND", "8"),
    ("no such subscription", 2, BOTH, "BOND", "4"),
]


@pytest.mark.parametrize("name, kind, pairs, symbol, reason", REFUSED, ids=[row[0] for row in REFUSED])
def test_requests_that_are_refused(
    alice: FixClient, name: str, kind: int, pairs: Any, symbol: str, reason: str
) -> None:
    request(alice, "r", kind, *pairs, symbol=symbol)
    refusal = alice.receive("Y")
    assert (refusal["262"], refusal["281"]) == ("r", reason)


def test_a_request_twice(alice: FixClient) -> None:
    request(alice, "r", 1, (265, 1), *BOTH)
    alice.receive("W")
    request(alice, "r", 1, (265, 1), *BOTH)
    assert alice.receive("Y")["281"] == "1"


def test_securities(alice: FixClient) -> None:
    alice.send("x", (320, "list"), (559, 4))
    pairs = alice.receive_pairs("y")
    assert [value for tag, value in pairs if tag == "55"] == ["AMZN", "GOOG", "MSFT", "BOND", "OTHER", "COIN"]
    assert (
        ("146", "6") in pairs and ("560", "0") in pairs and ("872", "TickSize=0.05") in pairs and ("561", "10") in pairs
    )
    alice.send("x", (320, "one"), (559, 0), (55, "NONE"))
    assert alice.receive("y")["560"] == "2"
    alice.send("c", (320, "d"), (321, 0), (55, "BOND"))
    found = alice.receive("d")
    assert (found["323"], found["55"], found["561"], found["872"]) == ("1", "BOND", "10", "TickSize=0.05")
    alice.send("c", (320, "d"), (321, 0), (55, "COIN"))
    found = alice.receive("d")
    assert (found["561"], found["872"]) == ("0.00000001", "TickSize=0.0000005"), "FIX has no exponents"
    alice.send("c", (320, "d"), (321, 0), (55, "NONE"))
    assert alice.receive("d")["323"] == "6"


def test_trading_status(exchange: Served, alice: FixClient) -> None:
    alice.send("e", (324, "s"), (263, 1), (55, "BOND"))
    assert alice.receive("f")["326"] == "17"
    with request_socket(exchange.endpoint, "admin") as ask:
        ask(Kind.OPERATE, "", int(CommandKind.HALT), 3, int(HaltReason.NEWS))
        halted = alice.receive("f")
        assert (halted["326"], halted["327"], halted["58"], halted["324"]) == ("2", "P", "HALTED NEWS", "s")
        alice.order("o", 1, 10, "10", symbol="BOND")
        assert alice.receive("8")["103"] == "2"
        ask(Kind.OPERATE, "", int(CommandKind.RESUME), 3)
        assert alice.receive("f")["326"] == "17"
    alice.send("e", (324, "s"), (263, 0), (55, "NONE"))
    assert alice.receive("j")["380"] == "2"


def test_two_requests_for_the_status_of_a_symbol(exchange: Served, alice: FixClient) -> None:
    """Before, the second one took the place of the first, and the end of the first ended both."""
    for request in ("s1", "s2"):
        alice.send("e", (324, request), (263, 1), (55, "OTHER"))
        assert alice.receive("f")["324"] == request
    with request_socket(exchange.endpoint, "admin") as ask:
        ask(Kind.OPERATE, "", int(CommandKind.HALT), 4, int(HaltReason.NEWS))
        assert [alice.receive("f")["324"] for _ in range(2)] == ["s1", "s2"]
        alice.send("e", (324, "s1"), (263, 2), (55, "OTHER"))
        alice.send("1", (112, "ended"))
        assert alice.receive("0")["112"] == "ended"
        ask(Kind.OPERATE, "", int(CommandKind.RESUME), 4)
        status = alice.receive("f")
        assert (status["324"], status["326"]) == ("s2", "17")
    for number in range(REQUESTS_MAX - 1):
        alice.send("e", (324, f"m{number}"), (263, 1), (55, "GOOG"))
        alice.receive("f")
    alice.send("e", (324, "beyond"), (263, 1), (55, "GOOG"))
    assert alice.receive("j")["379"] == "beyond"


def test_a_drop_copy(gateway: Gateway, alice: FixClient) -> None:
    with gateway.client("copies") as copies:
        copies.logon()
        alice.order("first", 2, 30, "500", symbol="MSFT")
        accepted = alice.receive("8")
        copy = copies.receive("8")
        while copy["17"] != accepted["17"]:
            copy = copies.receive("8")
        for tag in ("37", "17", "150", "39", "55", "54", "38", "44", "151", "14", "60"):
            assert copy[tag] == accepted[tag], (tag, copy, accepted)
        assert copy["1"] == alice.login
        copies.order("own")
        assert copies.receive("j")["380"] == "6"
        seq, expected = copies.seq, copies.expected
    with gateway.client() as bob:
        bob.logon()
        bob.order("b", 1, 10, "500", symbol="MSFT")
        bob.receive("8")
        bob.receive("8")
        fill = alice.receive("8")
    alice.send(
        "G", (11, "second"), (41, "first"), (55, "MSFT"), (54, 2), (60, timestamp()), (38, 50), (40, 2), (44, "501")
    )
    replaced = alice.receive("8")
    with gateway.client("copies", seq=seq, expected=expected) as again:
        again.logon()
        found = [again.receive("8") for _ in range(4)]
        own = [fields for fields in found if fields["1"] == alice.login]
        assert [(fields["150"], fields["17"]) for fields in own] == [("F", fill["17"]), ("5", replaced["17"])]
        for tag in ("14", "151", "6", "31", "32", "39"):
            assert own[0][tag] == fill[tag]
        for tag in ("14", "151", "38"):
            assert own[1][tag] == replaced[tag]


def test_a_drop_copy_has_no_price_of_a_replacement_before_it_knows_it(gateway: Gateway, alice: FixClient) -> None:
    """Only the event of an order that rests has the new price: the fills before it had the former one."""
    with gateway.client() as bob, gateway.client("copies") as copies:
        copies.strict = False
        copies.logon((141, "Y"))
        alice.order("first", 1, 20, "0.05", symbol="MSFT")
        order_id = alice.receive("8")["37"]
        bob.logon()
        bob.order("b", 2, 10, "0.06", symbol="MSFT")
        bob.receive("8")
        alice.send("G", (11, "second"), (41, "first"), (55, "MSFT"), (54, 1), (60, timestamp()), (38, 20), (40, 2), (44, "0.06"))  # fmt: skip
        reports = (copies.receive("8") for _ in count())
        own = islice((report for report in reports if (report["1"], report["37"]) == (alice.login, order_id)), 3)
        assert [(report["150"], report.get("44"), report["151"]) for report in own] == [
            ("0", "0.05", "20"), ("F", None, "10"), ("5", "0.06", "10")
        ]  # fmt: skip


def test_a_drop_copy_is_not_for_everybody(gateway: Gateway, alice: FixClient) -> None:
    """Only an account with the option receives the reports of others."""
    with gateway.client() as bob:
        bob.logon()
        bob.order("o", 1, 1, "0.03", symbol="MSFT")
        bob.receive("8")
    alice.send("1", (112, "nothing"))
    assert alice.receive("0")["112"] == "nothing"
