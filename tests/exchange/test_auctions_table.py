"""Phases and auctions, case by case, and every order in every phase."""

import pytest

from serl.exchange.records import Phase, Queue, Reason
from tests.exchange.notation import parse_all
from tests.exchange.tables import AnyMarket, Case, assert_case, cases, last_reason

CROSSED = "p9 c1 PHASE OPENING; p1 c1 NEW buy 5@102; p2 c1 NEW buy 3@101; p3 c1 NEW sell 4@99; p4 c1 NEW sell 6@100"
"""Demand is 8 at 100 and 101, supply 10."""

AUCTIONS: list[Case] = [
    ("orders rest although they cross", "", "p9 c1 PHASE PRE_OPEN; p1 c1 NEW buy 5@102; p2 c1 NEW sell 3@100; p2 c2 REPLACE o1 3@99", """
        p9 PHASED c1 o0 #0 s0 buy 0@0 leaves 0 PRE_OPEN
        p1 ACCEPTED c1 o1 #1 s0 buy 5@102 leaves 5 RESTING
        p2 ACCEPTED c1 o1 #2 s0 sell 3@100 leaves 3 RESTING
        p2 REPLACED c2 o1 #2 s0 sell 3@100 leaves 3
        p2 RESTED c2 o1 #3 s0 sell 3@99 leaves 3"""),
    ("buys and sells in pairs at one price; the sell is reported first", CROSSED, "p9 c2 PHASE", """
        p3 FILL c0 o1 #3 s0 sell 4@100 leaves 0 MAKER AUCTION m1
        p1 FILL c0 o1 #1 s0 buy 4@100 leaves 1 AUCTION m1
        p4 FILL c0 o1 #4 s0 sell 1@100 leaves 5 MAKER AUCTION m2
        p1 FILL c0 o1 #1 s0 buy 1@100 leaves 0 AUCTION m2
        p4 FILL c0 o1 #4 s0 sell 3@100 leaves 2 MAKER AUCTION m3
        p2 FILL c0 o1 #2 s0 buy 3@100 leaves 0 AUCTION m3
        p9 PHASED c2 o0 #0 s0 buy 8@100 leaves 0 CONTINUOUS"""),
    ("market orders go before older orders at the highest and the lowest price", "p9 c1 PHASE PRE_OPEN; p1 c1 NEW buy 5@10000 hidden; p2 c1 NEW buy 5@10000; p3 c1 NEW buy 5@0 market; p4 c1 NEW sell 5@1 hidden; p5 c1 NEW sell 5@1; p6 c1 NEW sell 5@0 market", "p9 c2 UNCROSS", """
        p6 FILL c0 o1 #6 s0 sell 5@1 leaves 0 MAKER HIDDEN AUCTION m1
        p3 FILL c0 o1 #3 s0 buy 5@1 leaves 0 HIDDEN AUCTION m1
        p5 FILL c0 o1 #5 s0 sell 5@1 leaves 0 MAKER AUCTION m2
        p2 FILL c0 o1 #2 s0 buy 5@1 leaves 0 AUCTION m2
        p4 FILL c0 o1 #4 s0 sell 5@1 leaves 0 MAKER HIDDEN AUCTION m3
        p1 FILL c0 o1 #1 s0 buy 5@1 leaves 0 HIDDEN AUCTION m3
        p9 PHASED c2 o0 #0 s0 buy 15@1 leaves 0 PRE_OPEN"""),
    ("UNCROSS keeps the phase", CROSSED, "p9 c2 UNCROSS; p9 c3 UNCROSS; p5 c1 NEW sell 1@90; p9 c4 UNCROSS", """
        p3 FILL c0 o1 #3 s0 sell 4@100 leaves 0 MAKER AUCTION m1
        p1 FILL c0 o1 #1 s0 buy 4@100 leaves 1 AUCTION m1
        p4 FILL c0 o1 #4 s0 sell 1@100 leaves 5 MAKER AUCTION m2
        p1 FILL c0 o1 #1 s0 buy 1@100 leaves 0 AUCTION m2
        p4 FILL c0 o1 #4 s0 sell 3@100 leaves 2 MAKER AUCTION m3
        p2 FILL c0 o1 #2 s0 buy 3@100 leaves 0 AUCTION m3
        p9 PHASED c2 o0 #0 s0 buy 8@100 leaves 0 OPENING
        p9 PHASED c3 o0 #0 s0 buy 0@0 leaves 0 OPENING
        p5 ACCEPTED c1 o1 #5 s0 sell 1@90 leaves 1 RESTING
        p9 PHASED c4 o0 #0 s0 buy 0@0 leaves 0 OPENING"""),
    ("nothing crosses: price 0", "p9 c1 PHASE OPENING; p1 c1 NEW buy 5@99; p2 c1 NEW sell 5@100", "p9 c2 PHASE",
        "p9 PHASED c2 o0 #0 s0 buy 0@0 leaves 0 CONTINUOUS"),
    ("from one collecting phase to another: no auction", CROSSED, "p9 c2 PHASE INTRADAY; p9 c3 PHASE CLOSED", """
        p9 PHASED c2 o0 #0 s0 buy 0@0 leaves 0 INTRADAY
        p3 FILL c0 o1 #3 s0 sell 4@100 leaves 0 MAKER AUCTION m1
        p1 FILL c0 o1 #1 s0 buy 4@100 leaves 1 AUCTION m1
        p4 FILL c0 o1 #4 s0 sell 1@100 leaves 5 MAKER AUCTION m2
        p1 FILL c0 o1 #1 s0 buy 1@100 leaves 0 AUCTION m2
        p4 FILL c0 o1 #4 s0 sell 3@100 leaves 2 MAKER AUCTION m3
        p2 FILL c0 o1 #2 s0 buy 3@100 leaves 0 AUCTION m3
        p9 PHASED c3 o0 #0 s0 buy 8@100 leaves 0 CLOSED"""),
    ("market orders first, their remainder is cancelled", "p9 c1 PHASE OPENING; p1 c1 NEW buy 5@102; p2 c1 NEW sell 9@0 market; p3 c1 NEW sell 2@101", "p9 c2 UNCROSS", """
        p2 FILL c0 o1 #2 s0 sell 5@101 leaves 4 MAKER HIDDEN AUCTION m1
        p1 FILL c0 o1 #1 s0 buy 5@101 leaves 0 AUCTION m1
        p2 CANCELLED c0 o1 #2 s0 sell 4@0 leaves 0 MARKET_REMAINDER RESTING HIDDEN
        p9 PHASED c2 o0 #0 s0 buy 5@101 leaves 0 OPENING"""),
    ("market orders alone: no price", "p9 c1 PHASE OPENING; p1 c1 NEW buy 5@0 market; p2 c1 NEW sell 9@0 market", "p9 c2 UNCROSS", """
        p1 CANCELLED c0 o1 #1 s0 buy 5@0 leaves 0 MARKET_REMAINDER RESTING HIDDEN
        p2 CANCELLED c0 o1 #2 s0 sell 9@0 leaves 0 MARKET_REMAINDER RESTING HIDDEN
        p9 PHASED c2 o0 #0 s0 buy 0@0 leaves 0 OPENING"""),
    ("market orders alone trade at the last price", "p1 c1 NEW sell 1@100; p2 c1 NEW buy 1@100; p9 c1 PHASE OPENING; p1 c2 NEW buy 5@0 market; p2 c2 NEW sell 9@0 market", "p9 c2 UNCROSS", """
        p2 FILL c0 o2 #3 s0 sell 5@100 leaves 4 MAKER HIDDEN AUCTION m2
        p1 FILL c0 o2 #2 s0 buy 5@100 leaves 0 HIDDEN AUCTION m2
        p2 CANCELLED c0 o2 #3 s0 sell 4@0 leaves 0 MARKET_REMAINDER RESTING HIDDEN
        p9 PHASED c2 o0 #0 s0 buy 5@100 leaves 0 OPENING"""),
    ("hidden orders take part, after displayed ones", "p9 c1 PHASE OPENING; p1 c1 NEW buy 5@100 hidden; p2 c1 NEW buy 5@100; p3 c1 NEW sell 7@100", "p9 c2 UNCROSS", """
        p3 FILL c0 o1 #3 s0 sell 5@100 leaves 2 MAKER AUCTION m1
        p2 FILL c0 o1 #2 s0 buy 5@100 leaves 0 AUCTION m1
        p3 FILL c0 o1 #3 s0 sell 2@100 leaves 0 MAKER AUCTION m2
        p1 FILL c0 o1 #1 s0 buy 2@100 leaves 3 HIDDEN AUCTION m2
        p9 PHASED c2 o0 #0 s0 buy 7@100 leaves 0 OPENING"""),
    ("icebergs trade part by part, their reserve counts", "p9 c1 PHASE OPENING; p1 c10 NEW sell 9@100 display=3; p2 c1 NEW sell 3@100; p3 c1 NEW buy 8@100", "p9 c2 UNCROSS", """
        p1 FILL c0 o10 #1 s0 sell 3@100 leaves 6 MAKER AUCTION m1
        p3 FILL c0 o1 #3 s0 buy 3@100 leaves 5 AUCTION m1
        p1 RESTED c0 o10 #4 s0 sell 3@100 leaves 6
        p2 FILL c0 o1 #2 s0 sell 3@100 leaves 0 MAKER AUCTION m2
        p3 FILL c0 o1 #3 s0 buy 3@100 leaves 2 AUCTION m2
        p1 FILL c0 o10 #4 s0 sell 2@100 leaves 4 MAKER AUCTION m3
        p3 FILL c0 o1 #3 s0 buy 2@100 leaves 0 AUCTION m3
        p9 PHASED c2 o0 #0 s0 buy 8@100 leaves 0 OPENING"""),
    ("minimum, all-or-none, stops and pegs take no part", "p9 c1 PHASE OPENING; p1 c10 NEW buy 5@102 min=5; p1 c11 NEW buy 5@102 aon; p1 c20 NEW buy 5@102 stop=90; p1 c30 NEW buy 5@102 peg=primary; p2 c1 NEW sell 5@100", "p9 c2 UNCROSS",
        "p9 PHASED c2 o0 #0 s0 buy 0@0 leaves 0 OPENING"),
    ("orders that waited for CONTINUOUS trade after the auction", "p9 c1 PHASE OPENING; p1 c10 NEW buy 5@102 min=5; p2 c1 NEW sell 5@100", "p9 c2 PHASE", """
        p9 PHASED c2 o0 #0 s0 buy 0@0 leaves 0 CONTINUOUS
        p2 FILL c0 o1 #2 s0 sell 5@100 leaves 0 MAKER m1
        p1 FILL c0 o10 #0 s0 buy 5@100 leaves 0 m1"""),
    ("AT_OPEN is for the next auction", "p9 c1 PHASE PRE_OPEN; p1 c1 NEW buy 5@102 at_open; p2 c1 NEW sell 3@100 at_open; p3 c1 NEW sell 1@110 at_open", "p9 c2 PHASE OPENING; p9 c3 PHASE", """
        p9 PHASED c2 o0 #0 s0 buy 0@0 leaves 0 OPENING
        p2 FILL c0 o1 #2 s0 sell 3@100 leaves 0 MAKER AUCTION m1
        p1 FILL c0 o1 #1 s0 buy 3@100 leaves 2 AUCTION m1
        p1 CANCELLED c0 o1 #1 s0 buy 2@102 leaves 0 AUCTION_REMAINDER RESTING
        p3 CANCELLED c0 o1 #3 s0 sell 1@110 leaves 0 AUCTION_REMAINDER RESTING
        p9 PHASED c3 o0 #0 s0 buy 3@100 leaves 0 CONTINUOUS"""),
    ("AT_CLOSE waits, takes part in the closing auction, is cancelled after it", "p1 c1 NEW buy 5@102 at_close; p1 c2 NEW sell 1@0 market at_close; p2 c1 NEW sell 3@101", "p3 c1 NEW buy 1@101 ioc; p9 c1 PHASE CLOSING; p3 c2 NEW buy 1@90 at_close; p9 c2 PHASE CLOSED", """
        p3 ACCEPTED c1 o1 #0 s0 buy 1@101 leaves 1
        p2 FILL c0 o1 #3 s0 sell 1@101 leaves 2 MAKER m1
        p3 FILL c1 o1 #0 s0 buy 1@101 leaves 0 m1
        p1 RESTED c0 o1 #4 s0 buy 5@102 leaves 5
        p1 RESTED c0 o2 #5 s0 sell 1@0 leaves 1 HIDDEN
        p9 PHASED c1 o0 #0 s0 buy 0@0 leaves 0 CLOSING
        p3 ACCEPTED c2 o2 #6 s0 buy 1@90 leaves 1 RESTING
        p1 FILL c0 o2 #5 s0 sell 1@101 leaves 0 MAKER HIDDEN AUCTION m2
        p1 FILL c0 o1 #4 s0 buy 1@101 leaves 4 AUCTION m2
        p2 FILL c0 o1 #3 s0 sell 2@101 leaves 0 MAKER AUCTION m3
        p1 FILL c0 o1 #4 s0 buy 2@101 leaves 2 AUCTION m3
        p1 CANCELLED c0 o1 #4 s0 buy 2@102 leaves 0 AUCTION_REMAINDER RESTING
        p3 CANCELLED c0 o2 #6 s0 buy 1@90 leaves 0 AUCTION_REMAINDER RESTING
        p9 PHASED c2 o0 #0 s0 buy 3@101 leaves 0 CLOSED"""),
    ("a market AT_CLOSE order waits and trades first", "p1 c1 NEW sell 4@0 market at_close; p2 c1 NEW sell 3@100", "p9 c1 PHASE CLOSING; p3 c1 NEW buy 5@101; p9 c2 PHASE CLOSED", """
        p1 RESTED c0 o1 #3 s0 sell 4@0 leaves 4 HIDDEN
        p9 PHASED c1 o0 #0 s0 buy 0@0 leaves 0 CLOSING
        p3 ACCEPTED c1 o1 #4 s0 buy 5@101 leaves 5 RESTING
        p1 FILL c0 o1 #3 s0 sell 4@100 leaves 0 MAKER HIDDEN AUCTION m1
        p3 FILL c0 o1 #4 s0 buy 4@100 leaves 1 AUCTION m1
        p2 FILL c0 o1 #2 s0 sell 1@100 leaves 2 MAKER AUCTION m2
        p3 FILL c0 o1 #4 s0 buy 1@100 leaves 0 AUCTION m2
        p9 PHASED c2 o0 #0 s0 buy 5@100 leaves 0 CLOSED"""),
    ("linked orders: one that trades cancels the other, after the match", "p9 c1 PHASE OPENING; p1 c1 NEW sell 5@100; p1 c10 NEW sell 5@101 link=1; p2 c1 NEW buy 8@101", "p9 c2 UNCROSS", """
        p1 FILL c0 o1 #1 s0 sell 5@101 leaves 0 MAKER AUCTION m1
        p2 FILL c0 o1 #3 s0 buy 5@101 leaves 3 AUCTION m1
        p1 CANCELLED c0 o10 #2 s0 sell 5@101 leaves 0 LINKED RESTING
        p9 PHASED c2 o0 #0 s0 buy 5@101 leaves 0 OPENING"""),
    ("stops are triggered by the auction's price once trading is continuous", CROSSED + "; p5 c10 NEW buy 1@0 market stop=99; p5 c20 NEW sell 1@0 market stop=99", "p9 c2 UNCROSS; p9 c3 PHASE", """
        p3 FILL c0 o1 #3 s0 sell 4@100 leaves 0 MAKER AUCTION m1
        p1 FILL c0 o1 #1 s0 buy 4@100 leaves 1 AUCTION m1
        p4 FILL c0 o1 #4 s0 sell 1@100 leaves 5 MAKER AUCTION m2
        p1 FILL c0 o1 #1 s0 buy 1@100 leaves 0 AUCTION m2
        p4 FILL c0 o1 #4 s0 sell 3@100 leaves 2 MAKER AUCTION m3
        p2 FILL c0 o1 #2 s0 buy 3@100 leaves 0 AUCTION m3
        p9 PHASED c2 o0 #0 s0 buy 8@100 leaves 0 OPENING
        p9 PHASED c3 o0 #0 s0 buy 0@0 leaves 0 CONTINUOUS
        p5 TRIGGERED c0 o10 #5 s0 buy 1@0 leaves 1 HIDDEN
        p4 FILL c0 o1 #4 s0 sell 1@100 leaves 1 MAKER m4
        p5 FILL c0 o10 #0 s0 buy 1@100 leaves 0 m4"""),
    ("pegs wait from CONTINUOUS on and come back", "p1 c1 NEW buy 7@99; p3 c10 NEW buy 2@0 peg=primary", "p9 c1 PHASE VOLATILITY; p2 c1 NEW sell 5@99; p9 c2 PHASE; p2 c2 NEW sell 3@99", """
        p9 PHASED c1 o0 #0 s0 buy 0@0 leaves 0 VOLATILITY
        p2 ACCEPTED c1 o1 #4 s0 sell 5@99 leaves 5 RESTING
        p2 FILL c0 o1 #4 s0 sell 5@99 leaves 0 MAKER AUCTION m1
        p1 FILL c0 o1 #1 s0 buy 5@99 leaves 2 AUCTION m1
        p9 PHASED c2 o0 #0 s0 buy 5@99 leaves 0 CONTINUOUS
        p2 ACCEPTED c2 o2 #0 s0 sell 3@99 leaves 3
        p1 FILL c0 o1 #1 s0 buy 2@99 leaves 0 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 2@99 leaves 1 m2
        p3 FILL c0 o10 #5 s0 buy 1@99 leaves 1 MAKER HIDDEN m3
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m3"""),
    ("REDUCE and CANCEL work in every phase, REPLACE not in CLOSED", "p1 c1 NEW buy 5@99; p9 c1 PHASE CLOSED", "p1 c2 REDUCE o1 1@0; p1 c3 REPLACE o1 3@99; p1 c4 CANCEL o1", """
        p1 REDUCED c2 o1 #1 s0 buy 1@99 leaves 4
        p1 REJECTED c3 o1 #0 s0 buy 3@99 leaves 0 WRONG_PHASE
        p1 CANCELLED c4 o1 #1 s0 buy 4@99 leaves 0 REQUESTED RESTING"""),
    ("END_DAY cancels AT_OPEN and AT_CLOSE too", "p9 c1 PHASE PRE_OPEN; p1 c1 NEW buy 5@99 at_open; p1 c2 NEW buy 5@98 at_close; p1 c3 NEW buy 5@97 gtc", "p9 c2 END_DAY", """
        p1 CANCELLED c0 o1 #1 s0 buy 5@99 leaves 0 DAY_END RESTING
        p1 CANCELLED c0 o2 #2 s0 buy 5@98 leaves 0 DAY_END RESTING HIDDEN
        p9 DAY_ENDED c2 o0 #0 s0 buy 2@0 leaves 0"""),
    ("reduce-only orders are cancelled when they would not reduce", "p1 c1 NEW sell 5@100; p2 c1 NEW buy 5@100; p2 c2 NEW sell 5@101 reduce; p2 c3 NEW sell 1@101; p9 c1 PHASE INTRADAY; p3 c1 NEW buy 1@102; p4 c1 NEW sell 9@101", "p2 c4 REPLACE o3 1@100; p9 c2 UNCROSS; p3 c2 NEW buy 2@101; p9 c3 UNCROSS", """
        p2 REPLACED c4 o3 #3 s0 sell 1@101 leaves 1
        p2 RESTED c4 o3 #6 s0 sell 1@100 leaves 1
        p2 FILL c0 o3 #6 s0 sell 1@100 leaves 0 MAKER AUCTION m2
        p3 FILL c0 o1 #4 s0 buy 1@100 leaves 0 AUCTION m2
        p9 PHASED c2 o0 #0 s0 buy 1@100 leaves 0 INTRADAY
        p3 ACCEPTED c2 o2 #7 s0 buy 2@101 leaves 2 RESTING
        p2 CANCELLED c0 o2 #2 s0 sell 5@101 leaves 0 NOT_REDUCING RESTING
        p4 FILL c0 o1 #5 s0 sell 2@101 leaves 7 MAKER AUCTION m3
        p3 FILL c0 o2 #7 s0 buy 2@101 leaves 0 AUCTION m3
        p9 PHASED c3 o0 #0 s0 buy 2@101 leaves 0 INTRADAY"""),
]  # fmt: skip


@cases(AUCTIONS)
def test_events(market: AnyMarket, before: str, text: str, expected: str) -> None:
    assert_case(market, before, text, expected)


PRICES: list[tuple[str, int, str, str, tuple[int, int, int]]] = [
    ("empty book", 0, "", "", (0, 0, 0)),
    ("not crossed", 0, "5@99", "5@100", (0, 0, 0)),
    ("one price", 0, "5@100", "5@100", (100, 5, 0)),
    ("the largest volume", 0, "5@102 5@100", "3@99 6@101", (101, 5, -4)),
    ("then the smallest imbalance", 0, "5@102 2@101", "5@100", (102, 5, 0)),
    ("then the nearest to the last trade, above", 110, "5@103", "5@100", (103, 5, 0)),
    ("then the nearest to the last trade, below", 90, "5@103", "5@100", (100, 5, 0)),
    ("the last trade itself, between", 101, "5@103", "5@100", (101, 5, 0)),
    ("the last trade where it is no limit", 98, "5@103 1@98", "5@99", (99, 5, 0)),
    ("without one: the middle of the lowest and the highest, rounded down, nearest to it", 0, "5@103 1@101", "5@100 1@102", (101, 5, 1)),
    ("of two equally near prices the lowest", 102, "5@104", "5@100 1@106", (102, 5, 0)),
    ("of two limits equally near to the middle the lowest", 0, "5@103", "5@100", (100, 5, 0)),
    ("market orders count at every price", 0, "5@0 2@100", "6@100", (100, 6, 1)),
    ("market orders on both sides", 0, "5@0 2@100", "6@0", (100, 6, 1)),
    ("market orders alone", 0, "5@0", "5@0", (0, 0, 0)),
    ("market orders alone, with a last trade", 77, "5@0", "4@0", (77, 4, 1)),
    ("more is sold than bought", 0, "5@100", "9@90", (90, 5, -4)),
]  # fmt: skip


@pytest.mark.parametrize(("last", "buys", "sells", "found"), [pytest.param(*row[1:], id=row[0]) for row in PRICES])
def test_price_of_an_auction(market: AnyMarket, last: int, buys: str, sells: str, found: tuple[int, int, int]) -> None:
    if last:
        market.submit(parse_all(f"p1 c1 NEW sell 1@{last}; p2 c1 NEW buy 1@{last}"))
    market.submit(parse_all("p9 c1 PHASE INTRADAY"))
    for place, word in enumerate([f"buy {size}" for size in buys.split()] + [f"sell {size}" for size in sells.split()]):
        market.submit(parse_all(f"p3 c{place + 1} NEW {word} {'market' if word.endswith('@0') else ''}"))
    assert market.indicative(0) == found
    phased = market.submit(parse_all("p9 c2 UNCROSS"))[-1]
    assert (phased["price_ticks"], phased["qty_lots"]) == found[:2]
    assert market.indicative(0) == (0, 0, 0)


R = "WRONG_PHASE"
IN_PHASES = {  # CONTINUOUS, PRE_OPEN and OPENING, INTRADAY and VOLATILITY, CLOSING, CLOSED
    "5@100": ("DISPLAYED", "DISPLAYED", "DISPLAYED", "DISPLAYED", R),
    "5@100 gtc": ("DISPLAYED", "DISPLAYED", "DISPLAYED", "DISPLAYED", R),
    "5@100 gtt until=9000": ("DISPLAYED", "DISPLAYED", "DISPLAYED", "DISPLAYED", R),
    "5@100 display=2": ("DISPLAYED", "DISPLAYED", "DISPLAYED", "DISPLAYED", R),
    "5@100 hidden": ("HIDDEN", "HIDDEN", "HIDDEN", "HIDDEN", R),
    "5@0 market": ("gone", "HIDDEN", "HIDDEN", "HIDDEN", R),
    "5@0 market gtc": ("gone", "HIDDEN", "HIDDEN", "HIDDEN", R),
    "5@0 market gtt until=9000": ("gone", "HIDDEN", "HIDDEN", "HIDDEN", R),
    "5@0 market ioc": ("gone", R, R, R, R),
    "5@100 ioc": ("gone", R, R, R, R),
    "5@100 fok": ("gone", R, R, R, R),
    "5@100 post": ("DISPLAYED", R, R, R, R),
    "5@100 reduce": ("REDUCE_ONLY", R, R, R, R),
    "5@100 min=3": ("MIN_QTY", "MIN_QTY", "MIN_QTY", "MIN_QTY", R),
    "5@100 aon": ("MIN_QTY", "MIN_QTY", "MIN_QTY", "MIN_QTY", R),
    "5@100 stop=300": ("STOP", "STOP", "STOP", "STOP", R),
    "5@0 market stop=300": ("STOP", "STOP", "STOP", "STOP", R),
    "5@100 ioc stop=300": ("STOP", R, R, R, R),
    "5@100 fok stop=300": ("STOP", R, R, R, R),
    "5@0 market ioc stop=300": ("STOP", R, R, R, R),
    "5@100 ioc min=3": ("gone", R, R, R, R),
    "5@100 stop=300 trail=9": ("STOP", "STOP", "STOP", "STOP", R),
    "5@100 peg=primary": ("INACTIVE", "INACTIVE", "INACTIVE", "INACTIVE", R),
    "5@100 at_open": (R, "DISPLAYED", R, R, R),
    "5@0 market at_open": (R, "HIDDEN", R, R, R),
    "5@100 at_close": ("INACTIVE", "INACTIVE", "INACTIVE", "DISPLAYED", R),
    "5@0 market at_close": ("INACTIVE", "INACTIVE", "INACTIVE", "HIDDEN", R),
}
COLUMN = {
    Phase.CONTINUOUS: 0, Phase.PRE_OPEN: 1, Phase.OPENING: 1, Phase.INTRADAY: 2, Phase.VOLATILITY: 2, Phase.CLOSING: 3, Phase.CLOSED: 4,
}  # fmt: skip


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("words", IN_PHASES)
def test_every_order_in_every_phase(market: AnyMarket, words: str, phase: Phase) -> None:
    reason = last_reason(market, f"p9 c1 PHASE {phase.name}; p1 c10 NEW buy {words}")
    queues = [Queue(row["queue"]).name for row in market.specials()] + ["DISPLAYED"] * len(market.orders())
    outcome = Reason(reason).name if reason else queues[0] if queues else "gone"
    assert outcome == IN_PHASES[words][COLUMN[phase]]


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("words", IN_PHASES)
def test_no_order_in_any_phase_while_halted(market: AnyMarket, words: str, phase: Phase) -> None:
    assert last_reason(market, f"p9 c1 PHASE {phase.name}; p9 c2 HALT; p1 c10 NEW buy {words}") == Reason.HALTED
    assert not len(market.orders()) and not len(market.specials())


@pytest.mark.parametrize("phase", [phase.name for phase in Phase])
def test_while_halted_a_phase_begins_without_an_auction_or_not_at_all(market: AnyMarket, phase: str) -> None:
    """Crossed orders stay until the symbol is resumed; then the auction can be held."""
    before = f"p9 c1 PHASE {phase}; p1 c1 NEW buy 5@102; p2 c1 NEW sell 5@99; p9 c2 HALT NEWS"
    collected = len(market.submit(parse_all(before))) == 4 and phase not in ("CONTINUOUS", "CLOSED")
    for number, after in enumerate(["CONTINUOUS", "CLOSED", "CLOSING"]):
        expected = Reason.HALTED if collected and after != "CLOSING" else Reason.NONE
        assert last_reason(market, f"p9 c{3 + number} PHASE {after}") == expected
    assert last_reason(market, "p9 c6 UNCROSS") == Reason.HALTED
    assert market.account(1).position_lots == (5 if phase == "CONTINUOUS" else 0)
    events = market.submit(parse_all("p9 c7 RESUME; p9 c8 PHASE CONTINUOUS"))
    assert int(events[-1]["qty_lots"]) == (5 if collected else 0)


@pytest.mark.parametrize("phase", [phase.name for phase in Phase])
def test_uncross_needs_a_phase_in_which_orders_are_collected(market: AnyMarket, phase: str) -> None:
    expected = Reason.WRONG_PHASE if phase in ("CONTINUOUS", "CLOSED") else Reason.NONE
    assert last_reason(market, f"p9 c1 PHASE {phase}; p9 c2 UNCROSS") == expected
