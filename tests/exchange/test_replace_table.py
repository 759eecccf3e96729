"""REPLACE with terms, case by case."""

import pytest

from serl.exchange.records import Reason
from tests.exchange.notation import parse_all, show
from tests.exchange.tables import AnyMarket, Case, assert_case, cases, last_reason

TRADED = "p1 c1 NEW sell 9@101; p1 c2 NEW buy 9@99; p2 c1 NEW buy 1@101"
"""Last trade at 101; p1 asks for 8 at 101 and bids for 9 at 99."""

REPLACED: list[Case] = [
    ("a new stop price: to the back of the queue there", TRADED + "; p3 c10 NEW buy 2@105 stop=103; p4 c10 NEW buy 2@105 stop=104", "p3 c20 REPLACE o10 2@105 stop=104; p3 c21 CANCEL o10", """
        p3 REPLACED c20 o10 #3 s0 buy 2@105 leaves 2 HIDDEN
        p3 RESTED c20 o10 #5 s0 buy 2@105 leaves 2 HIDDEN
        p3 CANCELLED c21 o10 #5 s0 buy 2@105 leaves 0 REQUESTED RESTING HIDDEN"""),
    ("the same terms and price, a smaller total: it keeps its place", TRADED + "; p3 c10 NEW buy 5@105 stop=103", "p3 c20 REPLACE o10 3@105 stop=103; p3 c30 REPLACE o10 3@105 stop=103", """
        p3 REDUCED c20 o10 #3 s0 buy 2@105 leaves 3 HIDDEN
        p3 REDUCED c30 o10 #3 s0 buy 0@105 leaves 3 HIDDEN"""),
    ("a larger total, another limit", TRADED + "; p3 c10 NEW buy 5@105 stop=103", "p3 c20 REPLACE o10 6@105 stop=103; p3 c30 REPLACE o10 6@106 stop=103", """
        p3 REPLACED c20 o10 #3 s0 buy 5@105 leaves 6 HIDDEN
        p3 RESTED c20 o10 #4 s0 buy 6@105 leaves 6 HIDDEN
        p3 REPLACED c30 o10 #4 s0 buy 6@105 leaves 6 HIDDEN
        p3 RESTED c30 o10 #5 s0 buy 6@106 leaves 6 HIDDEN"""),
    ("a stop price that the last trade has reached is due at once", TRADED + "; p3 c10 NEW buy 2@101 stop=103", "p3 c20 REPLACE o10 2@101 stop=101", """
        p3 REPLACED c20 o10 #3 s0 buy 2@101 leaves 2 HIDDEN
        p3 RESTED c20 o10 #4 s0 buy 2@101 leaves 2 HIDDEN
        p3 TRIGGERED c0 o10 #4 s0 buy 2@101 leaves 2 HIDDEN
        p1 FILL c0 o1 #1 s0 sell 2@101 leaves 6 MAKER m2
        p3 FILL c0 o10 #0 s0 buy 2@101 leaves 0 m2"""),
    ("a market stop has no price", TRADED + "; p3 c10 NEW sell 2@0 market stop=90", "p3 c20 REPLACE o10 3@0 stop=95; p3 c30 REPLACE o10 3@95 stop=95", """
        p3 REPLACED c20 o10 #3 s0 sell 2@0 leaves 3 HIDDEN
        p3 RESTED c20 o10 #4 s0 sell 3@0 leaves 3 HIDDEN
        p3 REJECTED c30 o10 #0 s0 buy 3@95 leaves 0 BAD_PRICE"""),
    ("a touch price", TRADED + "; p3 c10 NEW sell 2@0 market touch=110", "p3 c20 REPLACE o10 2@0 touch=101", """
        p3 REPLACED c20 o10 #3 s0 sell 2@0 leaves 2 HIDDEN
        p3 RESTED c20 o10 #4 s0 sell 2@0 leaves 2 HIDDEN
        p3 TRIGGERED c0 o10 #4 s0 sell 2@0 leaves 2 HIDDEN
        p1 FILL c0 o2 #2 s0 buy 2@99 leaves 7 MAKER m2
        p3 FILL c0 o10 #0 s0 sell 2@99 leaves 0 m2"""),
    ("a trailing stop goes on from its new stop price", TRADED + "; p3 c10 NEW sell 2@90 trail=20", "p3 c20 REPLACE o10 2@90 stop=70; p3 c30 REPLACE o10 2@90 trail=5; p3 c40 CANCEL o10", """
        p3 REPLACED c20 o10 #3 s0 sell 2@90 leaves 2 HIDDEN
        p3 RESTED c20 o10 #4 s0 sell 2@90 leaves 2 HIDDEN
        p3 REPLACED c30 o10 #5 s0 sell 2@90 leaves 2 HIDDEN
        p3 RESTED c30 o10 #6 s0 sell 2@90 leaves 2 HIDDEN
        p3 CANCELLED c40 o10 #7 s0 sell 2@90 leaves 0 REQUESTED RESTING HIDDEN"""),
    ("a filled part counts", TRADED + "; p3 c10 NEW buy 5@100 min=3; p2 c2 NEW sell 4@100", "p3 c20 REPLACE o10 6@100 min=2; p2 c3 NEW sell 1@100 ioc; p2 c4 NEW sell 2@100 ioc", """
        p3 REPLACED c20 o10 #3 s0 buy 1@100 leaves 2 HIDDEN
        p3 RESTED c20 o10 #4 s0 buy 2@100 leaves 2 HIDDEN
        p2 ACCEPTED c3 o3 #0 s0 sell 1@100 leaves 1
        p2 CANCELLED c3 o3 #0 s0 sell 1@100 leaves 0 IOC_REMAINDER
        p2 ACCEPTED c4 o4 #0 s0 sell 2@100 leaves 2
        p3 FILL c0 o10 #4 s0 buy 2@100 leaves 0 MAKER HIDDEN m3
        p2 FILL c4 o4 #0 s0 sell 2@100 leaves 0 m3"""),
    ("a new minimum that can be met", "p1 c1 NEW sell 4@100; p2 c10 NEW buy 10@100 min=5", "p2 c20 REPLACE o10 10@100 min=4", """
        p2 REPLACED c20 o10 #2 s0 buy 10@100 leaves 10 HIDDEN
        p1 FILL c0 o1 #1 s0 sell 4@100 leaves 0 MAKER m1
        p2 FILL c20 o10 #0 s0 buy 4@100 leaves 6 m1
        p2 RESTED c20 o10 #3 s0 buy 6@100 leaves 6 HIDDEN"""),
    ("a new minimum that cannot", "p1 c1 NEW sell 4@100; p2 c10 NEW buy 10@99 min=5", "p2 c20 REPLACE o10 8@100 min=8; p2 c30 REPLACE o10 8@100 min=3", """
        p2 REPLACED c20 o10 #2 s0 buy 10@99 leaves 8 HIDDEN
        p2 RESTED c20 o10 #3 s0 buy 8@100 leaves 8 HIDDEN
        p2 REPLACED c30 o10 #3 s0 buy 8@100 leaves 8 HIDDEN
        p1 FILL c0 o1 #1 s0 sell 4@100 leaves 0 MAKER m1
        p2 FILL c30 o10 #0 s0 buy 4@100 leaves 4 m1
        p2 RESTED c30 o10 #4 s0 buy 4@100 leaves 4 HIDDEN"""),
    ("the minimum stays, with another price", "p1 c1 NEW sell 4@100; p2 c10 NEW buy 10@99 min=3", "p2 c20 REPLACE o10 10@100 min=3", """
        p2 REPLACED c20 o10 #2 s0 buy 10@99 leaves 10 HIDDEN
        p1 FILL c0 o1 #1 s0 sell 4@100 leaves 0 MAKER m1
        p2 FILL c20 o10 #0 s0 buy 4@100 leaves 6 m1
        p2 RESTED c20 o10 #3 s0 buy 6@100 leaves 6 HIDDEN"""),
    ("a smaller total and the same minimum keep the place", "p2 c10 NEW buy 10@99 min=3", "p2 c20 REPLACE o10 7@99 min=3; p2 c30 REPLACE o10 2@99 min=2; p2 c40 REPLACE o10 2@99 min=2", """
        p2 REDUCED c20 o10 #1 s0 buy 3@99 leaves 7 HIDDEN
        p2 REPLACED c30 o10 #1 s0 buy 7@99 leaves 2 HIDDEN
        p2 RESTED c30 o10 #2 s0 buy 2@99 leaves 2 HIDDEN
        p2 REDUCED c40 o10 #2 s0 buy 0@99 leaves 2 HIDDEN"""),
    ("an expiry keeps the place", "p1 c10 NEW buy 5@99 gtt until=2000; p2 c1 NEW buy 5@99", "p1 c20 REPLACE o10 4@99 until=3000 t1500; p3 c1 NEW sell 1@99 t2500; p3 c2 NEW sell 1@99 t3000", """
        p1 REDUCED c20 o10 #1 s0 buy 1@99 leaves 4
        p3 ACCEPTED c1 o1 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o10 #1 s0 buy 1@99 leaves 3 MAKER m1
        p3 FILL c1 o1 #0 s0 sell 1@99 leaves 0 m1
        p1 CANCELLED c0 o10 #1 s0 buy 3@99 leaves 0 EXPIRED RESTING
        p3 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p2 FILL c0 o1 #2 s0 buy 1@99 leaves 4 MAKER m2
        p3 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2"""),
    ("an earlier expiry with another price", "p1 c10 NEW buy 5@99 gtt until=9000", "p1 c20 REPLACE o10 5@98 until=3000 t1500; p3 c2 NEW sell 1@99 t3000", """
        p1 REPLACED c20 o10 #1 s0 buy 5@99 leaves 5
        p1 RESTED c20 o10 #2 s0 buy 5@98 leaves 5
        p1 CANCELLED c0 o10 #2 s0 buy 5@98 leaves 0 EXPIRED RESTING
        p3 ACCEPTED c2 o2 #3 s0 sell 1@99 leaves 1 RESTING"""),
    ("an expiry of a hidden order, of an iceberg", "p1 c10 NEW buy 5@99 hidden gtt until=9000; p1 c20 NEW buy 9@98 display=2 gtt until=9000", "p1 c30 REPLACE o10 5@97 until=3000; p1 c40 REPLACE o20 9@96 until=2500; p3 c2 NEW sell 1@99 t3000", """
        p1 REPLACED c30 o10 #1 s0 buy 5@99 leaves 5 HIDDEN
        p1 RESTED c30 o10 #3 s0 buy 5@97 leaves 5 HIDDEN
        p1 REDUCED c40 o20 #2 s0 buy 7@98 leaves 2 HIDDEN
        p1 REPLACED c40 o20 #2 s0 buy 2@98 leaves 9
        p1 RESTED c40 o20 #4 s0 buy 2@96 leaves 9
        p1 REDUCED c0 o20 #4 s0 buy 7@96 leaves 2 EXPIRED HIDDEN
        p1 CANCELLED c0 o20 #4 s0 buy 2@96 leaves 0 EXPIRED RESTING
        p1 CANCELLED c0 o10 #3 s0 buy 5@97 leaves 0 EXPIRED RESTING HIDDEN
        p3 ACCEPTED c2 o2 #5 s0 sell 1@99 leaves 1 RESTING"""),
    ("an expiry of an all-or-none order: it is replaceable, too", "p1 c10 NEW buy 5@99 aon gtt until=9000", "p1 c20 REPLACE o10 7@98 until=8000; p3 c1 NEW sell 6@98 ioc; p3 c2 NEW sell 7@98 ioc", """
        p1 REPLACED c20 o10 #1 s0 buy 5@99 leaves 7 HIDDEN
        p1 RESTED c20 o10 #2 s0 buy 7@98 leaves 7 HIDDEN
        p3 ACCEPTED c1 o1 #0 s0 sell 6@98 leaves 6
        p3 CANCELLED c1 o1 #0 s0 sell 6@98 leaves 0 IOC_REMAINDER
        p3 ACCEPTED c2 o2 #0 s0 sell 7@98 leaves 7
        p1 FILL c0 o10 #2 s0 buy 7@98 leaves 0 MAKER HIDDEN m1
        p3 FILL c2 o2 #0 s0 sell 7@98 leaves 0 m1"""),
    ("the link stays", TRADED + "; p3 c1 NEW sell 2@110; p3 c20 NEW sell 2@0 market stop=90 link=1", "p3 c30 REPLACE o20 2@0 stop=101", """
        p3 REPLACED c30 o20 #4 s0 sell 2@0 leaves 2 HIDDEN
        p3 RESTED c30 o20 #5 s0 sell 2@0 leaves 2 HIDDEN
        p3 TRIGGERED c0 o20 #5 s0 sell 2@0 leaves 2 HIDDEN
        p3 CANCELLED c0 o1 #3 s0 sell 2@110 leaves 0 LINKED RESTING
        p1 FILL c0 o2 #2 s0 buy 2@99 leaves 7 MAKER m2
        p3 FILL c0 o20 #0 s0 sell 2@99 leaves 0 m2"""),
    ("post-only, waiting: no look at the book", TRADED + "; p3 c10 NEW buy 2@99 post stop=103", "p3 c20 REPLACE o10 2@105 stop=104", """
        p3 REPLACED c20 o10 #3 s0 buy 2@99 leaves 2 HIDDEN
        p3 RESTED c20 o10 #4 s0 buy 2@105 leaves 2 HIDDEN"""),
    ("total already filled", TRADED + "; p1 c10 NEW buy 4@100 min=2 gtt until=9000; p2 c2 NEW sell 3@100", "p1 c20 REPLACE o10 3@100 until=8000",
        "p1 CANCELLED c20 o10 #3 s0 buy 1@100 leaves 0 REPLACED_BELOW_FILLED RESTING HIDDEN"),
    ("while orders are collected", TRADED + "; p3 c10 NEW buy 5@105 stop=103; p3 c20 NEW buy 5@100 min=2; p9 c1 PHASE INTRADAY", "p3 c30 REPLACE o10 5@105 stop=101; p3 c40 REPLACE o20 5@103 min=1; p9 c2 PHASE", """
        p3 REPLACED c30 o10 #3 s0 buy 5@105 leaves 5 HIDDEN
        p3 RESTED c30 o10 #5 s0 buy 5@105 leaves 5 HIDDEN
        p3 REPLACED c40 o20 #4 s0 buy 5@100 leaves 5 HIDDEN
        p3 RESTED c40 o20 #6 s0 buy 5@103 leaves 5 HIDDEN
        p9 PHASED c2 o0 #0 s0 buy 0@0 leaves 0 CONTINUOUS
        p3 TRIGGERED c0 o10 #5 s0 buy 5@105 leaves 5 HIDDEN
        p1 FILL c0 o1 #1 s0 sell 5@101 leaves 3 MAKER m2
        p3 FILL c0 o10 #0 s0 buy 5@101 leaves 0 m2
        p1 FILL c0 o1 #1 s0 sell 3@101 leaves 0 MAKER m3
        p3 FILL c0 o20 #0 s0 buy 3@101 leaves 2 m3
        p3 RESTED c0 o20 #7 s0 buy 2@103 leaves 2 HIDDEN"""),
]  # fmt: skip


@cases(REPLACED)
def test_events(market: AnyMarket, before: str, text: str, expected: str) -> None:
    assert_case(market, before, text, expected)


STOP = TRADED + "; p3 c10 NEW buy 5@105 stop=110"
TRAIL = TRADED + "; p3 c10 NEW buy 5@105 trail=9"
TOUCH = TRADED + "; p3 c10 NEW buy 5@105 touch=90"
MINIMUM = TRADED + "; p3 c10 NEW buy 5@90 min=2"
GTT = TRADED + "; p3 c10 NEW buy 5@90 gtt until=9000"
MARKET_STOP = TRADED + "; p3 c10 NEW buy 5@0 market stop=110"
CHECKS: list[tuple[str, str, str]] = [
    (STOP, "5@105", "NOT_REPLACEABLE"), (MINIMUM, "5@90", "NOT_REPLACEABLE"), (GTT, "5@90", "NONE"),
    (TRADED + "; p3 c10 NEW buy 5@0 peg=mid gtt until=9000", "5@90 until=8000", "NOT_REPLACEABLE"),
    (TRADED + "; p3 c10 NEW buy 5@90 at_close", "5@90 until=8000", "NOT_REPLACEABLE"),
    (STOP, "5@105 terms", "BAD_TERMS"), (GTT, "5@90 terms", "BAD_TERMS"), (TRADED + "; p3 c10 NEW buy 5@90", "5@90 until=8000", "BAD_TERMS"),
    (STOP, "5@105 stop=0", "BAD_TERMS"), (STOP, "5@105 stop=10001", "BAD_TERMS"), (STOP, "5@105 touch=90", "BAD_TERMS"),
    (STOP, "5@105 trail=9", "BAD_TERMS"), (STOP, "5@105 min=2", "BAD_TERMS"), (STOP, "5@105 until=8000", "BAD_TERMS"),
    (STOP, "5@105 stop=111 display=2", "BAD_TERMS"), (STOP, "5@105 stop=111 link=10", "BAD_TERMS"), (STOP, "5@105 stp=none", "BAD_TERMS"),
    (STOP, "5@105 peg=mid", "BAD_TERMS"), (STOP, "5@105 offset=1", "BAD_TERMS"), (STOP, "5@105 stop=111", "NONE"),
    (TOUCH, "5@105 stop=111", "BAD_TERMS"), (TOUCH, "5@105 touch=0", "BAD_TERMS"), (TOUCH, "5@105 touch=91", "NONE"),
    (TRAIL, "5@105 trail=0", "BAD_TERMS"), (TRAIL, "5@105 trail=10", "NONE"), (TRAIL, "5@105 stop=107", "NONE"),
    (MINIMUM, "5@90 min=0", "BAD_TERMS"), (MINIMUM, "5@90 min=6", "BAD_TERMS"), (MINIMUM, "6@90 min=6", "NONE"), (MINIMUM, "5@90 stop=80", "BAD_TERMS"),
    (TRADED + "; p3 c10 NEW buy 5@90 aon", "5@90 min=2", "BAD_TERMS"), (TRADED + "; p3 c10 NEW buy 5@90 aon", "5@90 terms", "BAD_TERMS"),
    (GTT, "5@90 until=0", "BAD_TERMS"), (GTT, "5@90 until=500", "BAD_TERMS"), (GTT, "5@90 until=8000", "NONE"), (GTT, "5@90 min=2", "BAD_TERMS"),
    (STOP + "; p9 c1 PHASE CLOSED", "0@105 stop=111", "WRONG_PHASE"), (STOP + "; p9 c1 PHASE CLOSED", "0@105 stop=0", "BAD_TERMS"),
    (STOP, "0@105 stop=111", "BAD_QTY"), (STOP, "5@0 stop=111", "BAD_PRICE"), (MARKET_STOP, "5@105 stop=111", "BAD_PRICE"),
    (MARKET_STOP, "5@0 stop=111", "NONE"), (STOP + "; p9 c1 RULE TICK 5", "5@105 stop=111", "BAD_TERMS"), (STOP + "; p9 c1 RULE TICK 5", "5@105 stop=115", "NONE"),
    (MARKET_STOP + "; p9 c1 ACCOUNT o3 ORDER_NOTIONAL_MAX 600", "5@0 stop=120", "NONE"),
    (MARKET_STOP + "; p9 c1 ACCOUNT o3 ORDER_NOTIONAL_MAX 600", "5@0 stop=121", "LIMIT_NOTIONAL"),
    (STOP + "; p9 c1 ACCOUNT o3 POSITION_LOTS_MAX 6", "6@105 stop=111", "NONE"), (STOP + "; p9 c1 ACCOUNT o3 POSITION_LOTS_MAX 6", "7@105 stop=111", "LIMIT_POSITION"),
    (MINIMUM + "; p9 c1 RULE LOT 5", "5@90 min=2", "BAD_TERMS"), (MINIMUM + "; p9 c1 RULE LOT 5", "5@90 min=5", "NONE"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "words", "reason"), CHECKS)
def test_the_check_of_a_replace_with_terms(market: AnyMarket, before: str, words: str, reason: str) -> None:
    market.submit(parse_all(before))
    assert Reason(last_reason(market, f"p3 c20 REPLACE o10 {words}")).name == reason


@pytest.mark.parametrize(
    "replace", ["p3 c20 REPLACE o99 5@90 terms", "p3 c20 REPLACE o5 0@90 terms", "p3 c20 REPLACE o10 5@105 terms"]
)
def test_a_replace_consumes_its_terms_whatever_becomes_of_it(market: AnyMarket, replace: str) -> None:
    market.submit(parse_all("p3 c5 NEW buy 5@80; p3 c10 NEW buy 5@105 stop=110"))
    market.submit(parse_all("p3 c12 NEW buy 1@1 stop=112")[:1])
    assert len(market.submit(parse_all(replace))) >= 1
    assert Reason(last_reason(market, "p3 c30 NEW buy 9@90 terms")) == Reason.BAD_TERMS


def test_terms_wait_while_a_replace_without_the_flag_passes(market: AnyMarket) -> None:
    market.submit(parse_all("p3 c5 NEW buy 5@80"))
    market.submit(parse_all("p3 c7 NEW buy 1@1 display=2")[:1])
    assert Reason(last_reason(market, "p3 c8 REPLACE o5 5@81")) == Reason.NONE
    events = market.submit(parse_all("p3 c9 NEW buy 9@90 terms"))
    assert [show(event) for event in events] == ["p3 ACCEPTED c9 o9 #3 s0 buy 2@90 leaves 9 RESTING"]
