"""OUCH orders on a real exchange: each message and its answers."""

import random
import struct
import time

import pytest

from serl.clients.blocking import connect
from serl.exchange.records import CommandKind, HaltReason, Phase
from serl.exchange.request import request_socket
from serl.exchange.wire import Kind
from serl.gateways.ouch.reasons import Reject
from tests.doc_blocks import run
from tests.gateways.ouch.client import (
    POST_ONLY,
    SECRETS,
    cancel,
    decode,
    enter,
    mass_cancel,
    modify,
    option,
    replace,
    shares,
)
from tests.gateways.ouch.conftest import Market

MIN_QTY, MAX_FLOOR, PRICE_TYPE, PEG_OFFSET, EXPIRE = 3, 5, 6, 7, 15


def test_the_example_of_the_documentation_enters_an_order(market: Market, capsys: pytest.CaptureFixture[str]) -> None:
    names = run("gateways/ouch.md", PORT=market.port, PASSWORD=SECRETS["alice"])
    names["client"].close()
    session, accepted = capsys.readouterr().out.splitlines()
    assert session.startswith("logged in session ") and accepted == "accepted 1"
    with market.client() as alice:
        alice.send(cancel(1))
        assert alice.summary(1) == [("C", 1, 100)]


def test_an_order_is_accepted_executed_and_cancelled(market: Market) -> None:
    first, second, taker = market.refs(3)
    with market.client("alice") as alice, market.client("bob") as bob:
        alice.send(enter(first, b"B", 100, 1_000_000, options=option(2, b"FIRM")))
        accepted = alice.message()
        named = {
            key: accepted[key]
            for key in ("type", "user_ref", "side", "quantity", "symbol", "price", "time_in_force", "display", "state")
        }
        assert named == {
            "type": "A", "user_ref": first, "side": "B", "quantity": 100, "symbol": b"AMZN    ", "price": 1_000_000, "time_in_force": "0",
            "display": "Y", "state": "L",
        }  # fmt: skip
        assert accepted["cl_ord_id"] == b"mine".ljust(14) and accepted["appendage"] == option(2, b"FIRM")
        assert 0 < accepted["order_number"] < 1 << 63
        assert abs(accepted["time_ns"] - time.time_ns() % 86_400_000_000_000) < 60e9
        bob.send(enter(taker, b"S", 130, 990_000, tif=b"3"))
        assert bob.summary(3) == [("A", taker, 130), ("E", taker, 100), ("C", taker, 30)]
        executed = alice.message()
        assert (executed["type"], executed["quantity"], executed["price"], executed["liquidity"]) == (
            "E",
            100,
            1_000_000,
            "A",
        )
        alice.send(enter(second, b"S", 10, 1_010_000), cancel(second), cancel(second), cancel(first))
        assert alice.summary(2) == [("A", second, 10), ("C", second, 10)]
        alice.send(b"Q")
        assert alice.message()["next_user_ref"] == second + 1


def test_an_order_that_trades_and_rests_is_told_its_number_in_the_book(market: Market) -> None:
    maker, taker = market.refs(2)
    with market.client("alice") as alice, market.client("bob") as bob:
        alice.send(enter(maker, b"B", 10))
        alice.message()
        bob.send(enter(taker, b"S", 30, 1_000_000))
        accepted, executed, update = bob.messages(3)
        assert accepted["order_number"] >= 1 << 63 and executed["liquidity"] == "R"
        assert update["type"] == "T" and 0 < update["order_number"] < 1 << 63
        bob.send(cancel(taker))
        assert bob.summary(1) == [("C", taker, 20)]


def test_replacements_keep_or_lose_priority(market: Market) -> None:
    first, second, third, late = market.refs(4)
    with market.client() as alice:
        alice.send(
            enter(first, b"B", 100),
            replace(first, second, 80, 1_000_000),
            replace(second, third, 80, 990_000),
            cancel(second),
            cancel(third),
        )
        accepted, smaller, lower, gone = alice.messages(4)
        assert (smaller["type"], smaller["orig_user_ref"], smaller["user_ref"], smaller["quantity"]) == (
            "U",
            first,
            second,
            80,
        )
        assert smaller["order_number"] == accepted["order_number"] or smaller["order_number"] >= 1 << 63
        assert (lower["orig_user_ref"], lower["user_ref"], lower["price"]) == (second, third, 990_000)
        assert lower["order_number"] > accepted["order_number"] and lower["cl_ord_id"].strip() == b"changed"
        assert (gone["type"], gone["user_ref"], gone["quantity"]) == ("C", third, 80)
        alice.send(replace(third, late, 10, 990_000))
        assert alice.message()["reason"] == Reject.REPLACE_NOT_ALLOWED


def test_a_replacement_counts_what_was_executed(market: Market) -> None:
    maker, taker, smaller, below = market.refs(4)
    with market.client("alice") as alice, market.client("bob") as bob:
        alice.send(enter(maker, b"B", 100))
        assert alice.summary(1) == [("A", maker, 100)]
        bob.send(enter(taker, b"S", 40, tif=b"3"))
        assert alice.summary(1) == [("E", maker, 40)]
        alice.send(replace(maker, smaller, 60, 1_000_000))
        assert alice.summary(1) == [("U", smaller, 20)]
        alice.send(replace(smaller, below, 30, 1_000_000))
        assert alice.summary(1) == [("C", smaller, 20)]
        assert bob.summary(2) == [("A", taker, 40), ("E", taker, 40)]


def test_partial_cancels_and_modifications_set_the_intended_size(market: Market) -> None:
    maker, taker = market.refs(2)
    with market.client("alice") as alice, market.client("bob") as bob:
        alice.send(enter(maker, b"S", 100))
        alice.message()
        bob.send(enter(taker, b"B", 30, tif=b"3"))
        assert alice.summary(1) == [("E", maker, 30)]
        alice.send(cancel(maker, 90), cancel(maker, 80), cancel(maker, 95))
        assert alice.summary(2) == [("C", maker, 10), ("C", maker, 10)]
        alice.send(modify(maker, b"T", 70), modify(maker, b"B", 60), modify(maker, b"E", 70))
        short, exempt = alice.messages(2)
        assert (short["type"], short["side"], short["quantity"]) == ("M", "T", 40)
        assert (exempt["type"], exempt["side"], exempt["quantity"]) == ("M", "E", 40)
        alice.send(cancel(maker))
        assert alice.summary(1) == [("C", maker, 40)]
        bob.summary(2)


def test_a_reference_number_that_does_not_increase_is_ignored(market: Market) -> None:
    first, second = market.refs(2)
    with market.client() as alice:
        alice.send(
            enter(second, b"B", 10),
            enter(first, b"B", 20),
            enter(second, b"B", 30),
            replace(second, first, 5, 1_000_000),
        )
        assert alice.summary(1) == [("A", second, 10)]
        alice.send(enter(second, b"B", 40), cancel(first), b"Q", cancel(second))
        query, cancelled = alice.messages(2)
        assert query["next_user_ref"] == second + 1
        assert (cancelled["type"], cancelled["user_ref"], cancelled["quantity"]) == ("C", second, 10)


@pytest.mark.parametrize(
    "message, reason",
    [
        ({"symbol": b"NOPE"}, Reject.INVALID_SYMBOL),
        ({"side": b"X"}, Reject.INVALID_SIDE),
        ({"quantity": 0}, Reject.INVALID_QUANTITY),
        ({"quantity": 2_000_000}, Reject.INVALID_QUANTITY),
        ({"price": 1_000_050}, Reject.INVALID_PRICE),
        ({"price": 0}, Reject.INVALID_PRICE),
        ({"price": -100}, Reject.INVALID_PRICE),
        ({"price": 1 << 62}, Reject.INVALID_PRICE),
        ({"display": b"Q"}, Reject.INVALID_DISPLAY),
        ({"tif": b"9"}, Reject.OTHER),
        ({"tif": b"6"}, Reject.OTHER),
        ({"cross": b"H"}, Reject.INVALID_CROSS),
        ({"capacity": b"?"}, Reject.OTHER),
        ({"sweep": b"?"}, Reject.SWEEP_NOT_ALLOWED),
        ({"options": b"\x09"}, Reject.OTHER),
        ({"options": POST_ONLY + POST_ONLY}, Reject.OTHER),
        ({"options": option(99, b"x")}, Reject.OTHER),
        ({"options": shares(13, 5)}, Reject.INVALID_MAX_FLOOR),
        ({"options": option(14, b"SCAN")}, Reject.ROUTING_NOT_ALLOWED),
        ({"options": option(PRICE_TYPE, b"P")}, Reject.INVALID_PEG),
        ({"options": option(PRICE_TYPE, b"R") + option(PEG_OFFSET, struct.pack(">i", 100))}, Reject.PEGGING_NOT_ALLOWED),
        ({"cross": b"O"}, Reject.DESTINATION_CLOSED),
    ],
)  # fmt: skip
def test_a_wrong_order_is_rejected(market: Market, message: dict[str, bytes], reason: Reject) -> None:
    (ref,) = market.refs(1)
    with market.client() as alice:
        alice.send(enter(ref, **message))  # pyrefly: ignore[bad-argument-type]
        rejected = alice.message()
        assert (rejected["type"], rejected["user_ref"], rejected["reason"]) == ("J", ref, reason)
        assert rejected["cl_ord_id"] == b"mine".ljust(14)


def test_terms_of_an_order(market: Market) -> None:
    post, iceberg, bob_ref, fill_or_kill, peg = market.refs(5)
    with market.client("alice") as alice, market.client("bob") as bob:
        alice.send(enter(post, b"S", 10, 1_000_000), enter(iceberg, b"S", 50, 1_000_000, options=shares(MAX_FLOOR, 20)))
        assert alice.summary(2) == [("A", post, 10), ("A", iceberg, 50)]
        bob.send(enter(bob_ref, b"B", 35, 1_000_000, options=shares(MIN_QTY, 35), tif=b"3"))
        assert [m["type"] for m in bob.messages(4)] == ["A", "E", "E", "E"]
        assert alice.summary(2) == [("E", post, 10), ("E", iceberg, 20)]
        restated, again = alice.messages(2)
        assert (restated["type"], restated["reason"], restated["shown"], again["quantity"]) == ("R", "R", 20, 5)
        assert restated["order_number"] > 0 and (restated["shown_tag"], restated["number_tag"]) == (22, 1)
        bob.send(enter(fill_or_kill, b"B", 100, 1_000_000, options=shares(MIN_QTY, 100), tif=b"3"))
        assert bob.summary(2) == [("A", fill_or_kill, 100), ("C", fill_or_kill, 100)]
        alice.send(
            enter(
                peg, b"S", 5, 1_000_000, options=option(PRICE_TYPE, b"R") + option(PEG_OFFSET, struct.pack(">i", 200))
            )
        )
        assert alice.summary(1) == [("A", peg, 5)]
        alice.send(mass_cancel(market.refs(1)[0]))
        kinds = [alice.message()["type"]]
        while kinds[-1] != "X":
            kinds.append(alice.message()["type"])
        assert kinds.count("C") == 3  # an iceberg's reserve and displayed part apart


def test_post_only_hidden_and_expiring_orders(market: Market) -> None:
    bid, post, hidden, expiring, taker = market.refs(5)
    seconds = int(time.time() % 86_400) + 2  # OUCH has whole seconds: one to two from now
    with market.client("alice") as alice, market.client("bob") as bob:
        alice.send(enter(bid, b"B", 10), enter(post, b"S", 10, 990_000, options=POST_ONLY))
        assert alice.summary(1) == [("A", bid, 10)]
        assert alice.message()["reason"] == Reject.CROSSED_MARKET
        alice.send(
            enter(hidden, b"B", 10, display=b"N"),
            enter(expiring, b"S", 10, 1_010_000, tif=b"6", options=shares(EXPIRE, seconds)),
        )
        assert alice.summary(2) == [("A", hidden, 10), ("A", expiring, 10)]
        bob.send(enter(taker, b"S", 20, tif=b"3"))
        shown, dark = alice.messages(2)
        assert [(m["user_ref"], m["liquidity"]) for m in (shown, dark)] == [(bid, "A"), (hidden, "J")]
        gone = alice.message()
        assert (gone["type"], gone["user_ref"], gone["reason"]) == ("C", expiring, "T")
        bob.summary(3)


def test_mass_cancels_by_symbol_and_side(market: Market) -> None:
    refs = market.refs(8)
    with market.client() as alice:
        alice.send(
            enter(refs[0], b"B", 1), enter(refs[1], b"S", 2, 1_010_000), enter(refs[2], b"B", 3, symbol=b"GOOG"),
            mass_cancel(refs[3], b"AMZN", option(27, b"B")), mass_cancel(refs[4], b"GOOG"), mass_cancel(refs[5]),
        )  # fmt: skip
        assert alice.summary(3) == [("A", refs[0], 1), ("A", refs[1], 2), ("A", refs[2], 3)]
        answers = alice.messages(6)
        assert [(m["type"], m["user_ref"]) for m in answers] == [
            ("C", refs[0]), ("X", refs[3]), ("C", refs[2]), ("X", refs[4]), ("C", refs[1]), ("X", refs[5]),
        ]  # fmt: skip
        assert answers[1]["symbol"] == b"AMZN    "
        alice.send(mass_cancel(refs[6], b"NOPE"), mass_cancel(refs[7], firm=b"ABCD"))
        assert [alice.packet()[0] for _ in range(2)] == [b"+", b"+"]


def test_a_mass_cancel_of_a_group_does_not_cancel_other_orders(market: Market) -> None:
    """The exchange has no groups: it cancelled everything."""
    kept, refused = market.refs(2)
    with market.client() as alice:
        alice.send(enter(kept, b"B", 1, options=option(24, b"\0\1")))
        assert alice.summary(1) == [("A", kept, 1)]
        alice.send(mass_cancel(refused, options=option(24, b"\0\7")))
        assert alice.packet()[0] == b"+"
        alice.send(cancel(kept))
        assert alice.summary(1) == [("C", kept, 1)]


def test_self_trade_prevention_is_told_as_an_aiq_cancel(market: Market) -> None:
    resting, incoming = market.refs(2)
    with market.client() as alice:
        alice.send(enter(resting, b"B", 30), enter(incoming, b"S", 10), cancel(resting))
        assert alice.summary(2) == [("A", resting, 30), ("A", incoming, 10)]
        payloads = [alice.payload() for _ in range(2)]
        # user reference number, decremented shares, reason, prevented shares, price, liquidity, strategy: the specification has 32 bytes
        parts = [struct.unpack(">IIcIQcc", payload[9:]) for payload in payloads]
        assert [part[-2:] for part in parts] == [(b"A", b"D"), (b"R", b"D")]
        decremented = [decode(payload) for payload in payloads]
        assert [(m["type"], m["user_ref"], m["quantity"], m["reason"], m["prevented"]) for m in decremented] == [
            ("D", resting, 10, "Q", 10), ("D", incoming, 10, "Q", 10),
        ]  # fmt: skip
        assert [m["price"] for m in decremented] == [1_000_000, 1_000_000]
        assert alice.summary(1) == [("C", resting, 20)]


def test_a_halt_rejects_orders_and_lets_cancels_through(market: Market) -> None:
    resting, halted = market.refs(2)
    with market.client() as alice, request_socket(market.exchange.endpoint, "admin") as ask:
        alice.send(enter(resting, b"B", 10))
        alice.message()
        ask(Kind.OPERATE, market.exchange.operator, CommandKind.HALT, 0, HaltReason.NEWS)
        alice.send(enter(halted, b"B", 10), cancel(resting))
        rejected, cancelled = alice.messages(2)
        assert (rejected["type"], rejected["reason"]) == ("J", Reject.HALTED) and cancelled["type"] == "C"
        ask(Kind.OPERATE, market.exchange.operator, CommandKind.RESUME, 0)


def test_auctions_are_told_by_their_liquidity(market: Market) -> None:
    opening, other, taker, closing = market.refs(4)
    with (
        market.client("alice") as alice,
        market.client("bob") as bob,
        request_socket(market.exchange.endpoint, "admin") as ask,
    ):

        def phase(number: Phase) -> None:
            ask(Kind.OPERATE, market.exchange.operator, CommandKind.PHASE, 1, number)

        phase(Phase.PRE_OPEN)
        alice.send(
            enter(opening, b"B", 10, 2_000_000_000, symbol=b"GOOG", cross=b"O"), enter(other, b"B", 20, symbol=b"GOOG")
        )
        assert alice.summary(2) == [("A", opening, 10), ("A", other, 20)]
        bob.send(enter(taker, b"S", 25, symbol=b"GOOG"))
        bob.message()
        phase(Phase.CONTINUOUS)
        first, second = alice.messages(2)
        assert [(m["user_ref"], m["quantity"], m["liquidity"]) for m in (first, second)] == [
            (opening, 10, "O"),
            (other, 15, "H"),
        ]
        alice.send(enter(closing, b"S", 5, symbol=b"GOOG", cross=b"C"), cancel(closing), cancel(other))
        assert alice.summary(3) == [("A", closing, 5), ("C", closing, 5), ("C", other, 5)]
        assert [m["liquidity"] for m in bob.messages(2)] == ["H", "H"]


def test_messages_that_are_none_are_explained(market: Market) -> None:
    (ref,) = market.refs(1)
    with market.client() as alice:
        for wrong in (
            b"Z",
            b"",
            b"O",
            enter(ref)[:-1],
            enter(ref) + b"x",
            b"X" + b"\0" * 5,
            b"Q" + b"\0\5",
            b"\xff" * 900,
        ):
            alice.send(wrong)
            kind, text = alice.packet()
            assert kind == b"+" and text.startswith(b"expected messages of type"), (wrong, kind, text)
        alice.send(enter(ref, b"B", 10), cancel(ref))
        assert alice.summary(2) == [("A", ref, 10), ("C", ref, 10)]


def test_the_native_client_sees_the_orders(market: Market) -> None:
    (ref,) = market.refs(1)
    with market.client() as alice, connect(market.exchange.endpoint, "watcher") as watcher:
        alice.send(enter(ref, b"B", 70, 990_000))
        alice.message()
        assert [tuple(level)[:2] for level in watcher.book("AMZN")[0]] == [(9900, 70)]
        alice.send(cancel(ref))
        alice.message()


def test_mutated_messages_never_raise(market: Market) -> None:
    source = random.Random(7)
    (ref,) = market.refs(1)
    with market.client("bob") as bob:
        for turn in range(300):
            data = bytearray(
                source.choice(
                    [
                        enter(ref + turn),
                        replace(1, ref + turn, 5, 100),
                        cancel(ref),
                        modify(ref, b"T", 5),
                        mass_cancel(ref + turn),
                    ]
                )
            )
            for _ in range(source.randrange(1, 4)):
                data[source.randrange(len(data))] = source.randrange(256)
            bob.send(bytes(data[: source.randrange(1, len(data) + 1)]))
        bob.send(b"Q")
        while bob.packet()[1][:1] != b"Q":
            pass
        bob.send(b"C" + struct.pack(">I", 0xFFFFFFFF) + b"    " + b" " * 8)
        while bob.packet()[1][:1] not in (b"X", b"e"):
            pass
        bob.send(enter(0xFFFFFFFF))
        bob.send(b"Q")  # there is no later number
        while (payload := bob.packet()[1])[:1] != b"Q":
            pass
        assert decode(payload)["next_user_ref"] == 0xFFFFFFFF
