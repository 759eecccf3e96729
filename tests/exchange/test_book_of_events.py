"""The displayed book that a reader of docs/orders.md makes from events is the market's."""

from collections import Counter

import pytest

from serl.exchange.market import Market
from serl.exchange.records import EventFlag, EventKind, Rows
from tests.exchange.generate import OPERATOR, PROFILES, SYMBOLS, Generator

TAKES = (EventKind.CANCELLED, EventKind.REDUCED, EventKind.REPLACED)


class EventBook:
    """Lots by (symbol, side, price), from events alone."""

    def __init__(self) -> None:
        self.lots: Counter[tuple[int, int, int]] = Counter()
        self.rests_at: dict[int, int] = {}  # price by order_number
        self.auction_fills_elsewhere = 0

    def add(self, events: Rows) -> None:
        for event in events:
            kind, flags, price = int(event["kind"]), int(event["flags"]), int(event["price_ticks"])
            if flags & EventFlag.HIDDEN:
                continue
            sign = 0
            if kind == EventKind.RESTED or (kind == EventKind.ACCEPTED and flags & EventFlag.RESTING):
                self.rests_at[int(event["order_number"])] = price
                sign = 1
            elif kind == EventKind.FILL and flags & EventFlag.AUCTION:
                own_price = self.rests_at[int(event["order_number"])]
                self.auction_fills_elsewhere += own_price != price
                price, sign = own_price, -1
            elif kind == EventKind.FILL:
                sign = -1 if flags & EventFlag.MAKER else 0
            elif kind in TAKES:
                sign = -1 if kind != EventKind.CANCELLED or flags & EventFlag.RESTING else 0
            self.lots[int(event["symbol"]), int(event["side"]), price] += sign * int(event["qty_lots"])


@pytest.mark.parametrize("profile", ["phases", "crowded", "bands"])
def test_events_make_the_displayed_book(profile: str) -> None:
    market, made = Market(SYMBOLS, limits=PROFILES[profile].limits), EventBook()
    market.grant_operator(OPERATOR)
    generator = Generator(5, PROFILES[profile])
    for _ in range(400):
        events = market.submit(generator.commands(16))
        generator.observe(events)
        made.add(events)
        shown = {
            (symbol, side, int(level["price_ticks"])): int(level["qty_lots"])
            for symbol in range(SYMBOLS)
            for side, levels in enumerate(market.book(symbol))
            for level in levels
        }
        assert {place: lots for place, lots in made.lots.items() if lots} == shown
    assert profile == "bands" or made.auction_fills_elsewhere > 10, (
        "auctions fill orders at other prices than their own"
    )
