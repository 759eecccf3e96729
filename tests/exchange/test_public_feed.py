"""What the public can see does not depend on what is not displayed: reserves of icebergs, hidden orders, minimums, stops and pegs.

Two markets get the same commands, apart from hidden quantities. Every message of the feed and every public query must be the same.
"""

import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq

from serl.exchange.feed import Feed
from serl.exchange.gateway.feed_state import CHANNELS
from serl.exchange.market import Market
from serl.exchange.queries import Queries
from serl.exchange.records import EVENT, CommandKind, EventFlag, EventKind, Peg, Phase, Rows, Rule, Side, command
from serl.exchange.terms import Terms, order
from serl.exchange.wire import Kind
from serl.history.tape import public_view, tape_actions

OPERATOR, ANN, BOB = 0, 1, 2
Message = tuple[bytes, bytes]
MATCHING = {"price-time": 0, "pro-rata": 1}


def sockets() -> "tuple[zmq.Socket[bytes], zmq.Socket[bytes]]":
    """A feed socket, and one that is subscribed to all of it."""
    sender, receiver = (zmq.Context.instance().socket(kind) for kind in (zmq.XPUB, zmq.SUB))
    for one in (sender, receiver):
        one.sndhwm = one.rcvhwm = one.linger = 0
    address = f"inproc://{uuid.uuid4()}"
    sender.bind(address)
    receiver.connect(address)
    receiver.subscribe(b"")
    assert sender.recv() == b"\1"
    return sender, receiver


class PublicView:
    """A market, and all that the public learns of it after each command."""

    def __init__(self, matching: str) -> None:
        self.market = Market(["AMZN"])
        self.market.grant_operator(OPERATOR)
        self.messages: list[list[Message]] = []
        self.rows: list[Rows] = []
        self.private: list[Rows] = []
        subscriptions: Any = SimpleNamespace(
            prefixes=[b""], new=[], read=lambda turn_s: True, owed_by_unauthenticated_s=float
        )
        self._sender, self._receiver = sockets()
        self._feed = Feed(self._sender, ["AMZN"], 1, 0, lambda participant: None, subscriptions)
        self._feed.read_subscriptions(0, 0, 1.0)
        self._queries = object.__new__(Queries)
        self._queries._core = SimpleNamespace(market=self.market, symbols=["AMZN"])  # pyrefly: ignore[bad-assignment]
        self._queries._sessions = SimpleNamespace(limits={"depth_max": 10, "snapshot_orders_max": 1000})  # pyrefly: ignore[bad-assignment]
        self._next_id = dict.fromkeys((OPERATOR, ANN, BOB), 1)
        self.send(OPERATOR, CommandKind.RULE, flags=Rule.MATCHING, price_ticks=MATCHING[matching])

    def close(self) -> None:
        self._sender.close()
        self._receiver.close()

    def _received(self) -> Iterator[Message]:
        while self._receiver.poll(0):
            topic, body = self._receiver.recv_multipart()
            if not topic.startswith(
                b"auction/"
            ):  # what would trade in an auction counts what is hidden: docs/orders.md
                yield topic, body

    def _submit(self, rows: Rows) -> int:
        self._next_id[int(rows[-1]["participant"])] += len(rows)
        events = self.market.submit(rows)
        self._feed.publish(self.market.state, events, 0, len(events))
        answers = [
            self._queries._result(kind, [int(kind), 1, 0, *depth]) for kind, depth in ((Kind.L2, [10]), (Kind.L3, []))
        ]
        answers.append([int(one) for one in self.market.state.best[0]])
        new = list(self._received())
        for topic, body in new:
            if topic.startswith(b"rows/"):
                self.rows.append(np.frombuffer(msgpack.unpackb(body)[5], EVENT))
        self.private.append(events)
        self.messages.append([*new, (b"queries", msgpack.packb(answers))])
        return int(rows[-1]["command_id"])

    def send(self, participant: int, kind: CommandKind, **fields: int) -> int:
        """Sends a command; returns its id."""
        return self._submit(command(kind, participant=participant, command_id=self._next_id[participant], **fields))

    def order(self, participant: int, side: Side, qty_lots: int, price_ticks: int, **terms: Any) -> int:
        """Sends an order; returns its id."""
        rows = order(
            self._next_id[participant], Terms(**terms), participant=participant, side=side, qty_lots=qty_lots, price_ticks=price_ticks
        )  # fmt: skip
        return self._submit(rows)


def trading(matching: str, secret: int) -> PublicView:
    """Ann's orders hide `secret` more lots; everybody else, and what is displayed, is the same."""
    view = PublicView(matching)
    view.order(BOB, Side.BUY, 10, 99)
    view.order(BOB, Side.SELL, 10, 105)
    iceberg = view.order(ANN, Side.SELL, 100 + secret, 105, display_lots=10)
    bid = view.order(ANN, Side.BUY, 60 + secret, 98, display_lots=20)
    view.order(ANN, Side.SELL, 50 + secret, 104, hidden=True)
    view.order(ANN, Side.SELL, 500 + secret, 101, all_or_none=True)
    view.order(ANN, Side.BUY, 20 + secret, 130, stop_ticks=120)
    view.order(ANN, Side.BUY, 30 + secret, 0, peg=Peg.PRIMARY, offset_ticks=3)
    view.order(BOB, Side.BUY, 5, 104)  # from the hidden order
    view.send(ANN, CommandKind.MASS_CANCEL, flags=0, symbol=1)  # of no symbol: rejected
    view.order(ANN, Side.SELL, 7, 104, hidden=True)
    hidden = view.order(ANN, Side.SELL, 40 + secret, 110, hidden=True)
    view.send(ANN, CommandKind.REDUCE, order_id=hidden, qty_lots=3)
    view.send(ANN, CommandKind.CANCEL, order_id=hidden)
    view.send(ANN, CommandKind.REDUCE, order_id=iceberg, qty_lots=1)  # of the reserve
    view.send(ANN, CommandKind.REPLACE, order_id=bid, qty_lots=60 + secret, price_ticks=98)  # nothing changes
    view.send(ANN, CommandKind.REPLACE, order_id=bid, qty_lots=50 + secret, price_ticks=98)
    view.order(BOB, Side.SELL, 45, 98)  # several parts of the bid
    view.send(ANN, CommandKind.REPLACE, order_id=iceberg, qty_lots=99 + secret, price_ticks=106)
    view.send(OPERATOR, CommandKind.PRINT, side=Side.SELL, qty_lots=3, price_ticks=100)
    view.send(OPERATOR, CommandKind.PHASE, flags=Phase.INTRADAY)
    view.order(BOB, Side.BUY, 15, 107)
    view.send(OPERATOR, CommandKind.UNCROSS)
    view.send(OPERATOR, CommandKind.PHASE, flags=Phase.CONTINUOUS)
    view.send(OPERATOR, CommandKind.HALT)
    view.send(OPERATOR, CommandKind.RESUME)
    view.send(ANN, CommandKind.CANCEL, order_id=iceberg)
    view.close()
    return view


@pytest.mark.parametrize("matching", MATCHING)
def test_the_public_sees_nothing_that_is_not_displayed(matching: str) -> None:
    one, other = trading(matching, 0), trading(matching, 37)
    for step, (few, many) in enumerate(zip(one.messages, other.messages, strict=True)):
        assert few == many, f"command {step}"
    events, rows = np.concatenate(one.private), np.concatenate(one.rows)
    assert {topic.split(b"/")[0].decode() for step in one.messages for topic, _ in step} >= {*CHANNELS} - {"auction"}
    kinds = {int(kind) for kind in np.unique(events["kind"])}
    assert kinds >= {EventKind.FILL, EventKind.RESTED, EventKind.REDUCED, EventKind.REPLACED, EventKind.CANCELLED}
    assert (events["flags"] & EventFlag.AUCTION).any() and (events["flags"] & EventFlag.HIDDEN).any()
    private = ("participant", "command_id", "order_id", "report", "command_sequence", "reason", "leaves_lots")
    assert not any(rows[name].any() for name in private)
    fills = rows[rows["flags"] & EventFlag.HIDDEN > 0]
    assert (fills["kind"] == EventKind.FILL).all() and len(fills), "of a hidden order only its trades are published"
    assert not fills["order_number"].any(), "fills of one hidden order cannot be told from those of another"


def test_a_recording_of_the_feed_has_displayed_lots_only() -> None:
    rows = np.concatenate(trading("price-time", 37).rows)
    rows = public_view(rows[rows["flags"] & EventFlag.AUCTION == 0])
    added = rows[tape_actions(rows) == 1]
    assert len(added) == 7 and added["qty_lots"].max() == 20, "the largest displayed part"
    assert not (rows["flags"] & EventFlag.HIDDEN & (rows["kind"] != EventKind.PRINT)).any()
