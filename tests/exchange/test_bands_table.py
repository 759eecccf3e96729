"""Resting orders outside a band, and how incoming orders trade with them, case by case."""

from tests.exchange.tables import AnyMarket, Case, assert_case, cases

PASSED_OVER: list[Case] = [
    ("band, rejecting: a conditional order outside is passed over, and trades when the rest has come to rest", "p1 c1 NEW buy 30@100; p1 c2 NEW buy 10@102 aon; p9 c1 RULE BAND_HIGH 101", "p2 c1 NEW sell 50@100", """
        p2 ACCEPTED c1 o1 #0 s0 sell 50@100 leaves 50
        p1 FILL c0 o1 #1 s0 buy 30@100 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 30@100 leaves 20 m1
        p2 RESTED c1 o1 #3 s0 sell 20@100 leaves 20
        p2 FILL c0 o1 #3 s0 sell 10@100 leaves 10 MAKER m2
        p1 FILL c0 o2 #0 s0 buy 10@100 leaves 0 m2"""),
    ("the same of the other side", "p1 c1 NEW sell 30@100; p1 c2 NEW sell 10@98 aon; p9 c1 RULE BAND_LOW 99", "p2 c1 NEW buy 50@100", """
        p2 ACCEPTED c1 o1 #0 s0 buy 50@100 leaves 50
        p1 FILL c0 o1 #1 s0 sell 30@100 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 30@100 leaves 20 m1
        p2 RESTED c1 o1 #3 s0 buy 20@100 leaves 20
        p2 FILL c0 o1 #3 s0 buy 10@100 leaves 10 MAKER m2
        p1 FILL c0 o2 #0 s0 sell 10@100 leaves 0 m2"""),
    ("several outside, with a minimum and all-or-none; those within trade by price, queue and minimum", "p1 c10 NEW buy 4@104 min=2; p1 c11 NEW buy 5@103 aon; p1 c12 NEW buy 2@100 hidden; p1 c14 NEW buy 3@100 min=2; p9 c1 RULE BAND_HIGH 101", "p2 c1 NEW sell 5@99 ioc", """
        p2 ACCEPTED c1 o1 #0 s0 sell 5@99 leaves 5
        p1 FILL c0 o12 #3 s0 buy 2@100 leaves 0 MAKER HIDDEN m1
        p2 FILL c1 o1 #0 s0 sell 2@100 leaves 3 m1
        p1 FILL c0 o14 #4 s0 buy 3@100 leaves 0 MAKER HIDDEN m2
        p2 FILL c1 o1 #0 s0 sell 3@100 leaves 0 m2"""),
    ("below the lower end of a band nothing trades either", "p1 c1 NEW buy 4@103 aon; p1 c2 NEW buy 2@100; p1 c3 NEW buy 2@97; p9 c1 RULE BAND_LOW 98; p9 c2 RULE BAND_HIGH 101", "p2 c1 NEW sell 4@98", """
        p2 ACCEPTED c1 o1 #0 s0 sell 4@98 leaves 4
        p1 FILL c0 o2 #2 s0 buy 2@100 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 2@100 leaves 2 m1
        p2 RESTED c1 o1 #4 s0 sell 2@98 leaves 2"""),
    ("displayed orders outside are passed over; what would rest across them is cancelled", "p1 c1 NEW buy 2@103; p1 c2 NEW buy 2@100; p9 c1 RULE BAND_HIGH 101", "p2 c1 NEW sell 1@100 post; p2 c2 NEW sell 3@100; p2 c3 NEW sell 3@0 market", """
        p2 REJECTED c1 o1 #0 s0 sell 1@100 leaves 0 WOULD_CROSS
        p2 ACCEPTED c2 o2 #0 s0 sell 3@100 leaves 3
        p1 FILL c0 o2 #2 s0 buy 2@100 leaves 0 MAKER m1
        p2 FILL c2 o2 #0 s0 sell 2@100 leaves 1 m1
        p2 CANCELLED c2 o2 #0 s0 sell 1@100 leaves 0 OUTSIDE_BAND
        p2 ACCEPTED c3 o3 #0 s0 sell 3@0 leaves 3
        p2 CANCELLED c3 o3 #0 s0 sell 3@0 leaves 0 MARKET_REMAINDER"""),
    ("hidden orders outside likewise", "p1 c1 NEW sell 2@97 hidden; p1 c2 NEW sell 2@100; p9 c1 RULE BAND_LOW 99", "p2 c1 NEW buy 3@0 market; p2 c2 NEW buy 1@100", """
        p2 ACCEPTED c1 o1 #0 s0 buy 3@0 leaves 3
        p1 FILL c0 o2 #2 s0 sell 2@100 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 2@100 leaves 1 m1
        p2 CANCELLED c1 o1 #0 s0 buy 1@0 leaves 0 MARKET_REMAINDER
        p2 ACCEPTED c2 o2 #0 s0 buy 1@100 leaves 1
        p2 CANCELLED c2 o2 #0 s0 buy 1@100 leaves 0 OUTSIDE_BAND"""),
    ("for FOK and a minimum those within count, after other orders too", "p1 c1 NEW sell 2@97 aon; p1 c2 NEW sell 3@100; p1 c3 NEW sell 4@101; p1 c4 NEW sell 5@104; p9 c1 RULE BAND_LOW 99; p9 c2 RULE BAND_HIGH 103", "p2 c1 NEW buy 8@103 fok; p2 c3 NEW buy 7@103 min=6", """
        p2 ACCEPTED c1 o1 #0 s0 buy 8@103 leaves 8
        p2 CANCELLED c1 o1 #0 s0 buy 8@103 leaves 0 FOK_UNFILLABLE
        p2 ACCEPTED c3 o3 #0 s0 buy 7@103 leaves 7
        p1 FILL c0 o2 #2 s0 sell 3@100 leaves 0 MAKER m1
        p2 FILL c3 o3 #0 s0 buy 3@100 leaves 4 m1
        p1 FILL c0 o3 #3 s0 sell 4@101 leaves 0 MAKER m2
        p2 FILL c3 o3 #0 s0 buy 4@101 leaves 0 m2"""),
    ("a hidden order trades before it rests", "p1 c1 NEW buy 30@100; p1 c2 NEW buy 10@102 aon; p9 c1 RULE BAND_HIGH 101", "p2 c1 NEW sell 35@100 hidden", """
        p2 ACCEPTED c1 o1 #0 s0 sell 35@100 leaves 35
        p1 FILL c0 o1 #1 s0 buy 30@100 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 30@100 leaves 5 m1
        p2 RESTED c1 o1 #3 s0 sell 5@100 leaves 5 HIDDEN"""),
    ("a stop that is triggered trades", "p1 c1 NEW buy 1@99; p1 c2 NEW buy 2@98; p1 c3 NEW buy 4@103 aon; p3 c10 NEW sell 5@98 stop=99; p9 c1 RULE BAND_HIGH 101", "p2 c1 NEW sell 1@99", """
        p2 ACCEPTED c1 o1 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o1 #1 s0 buy 1@99 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 1@99 leaves 0 m1
        p3 TRIGGERED c0 o10 #4 s0 sell 5@98 leaves 5 HIDDEN
        p1 FILL c0 o2 #2 s0 buy 2@98 leaves 0 MAKER m2
        p3 FILL c0 o10 #0 s0 sell 2@98 leaves 3 m2
        p3 RESTED c0 o10 #5 s0 sell 3@98 leaves 3"""),
    ("a REPLACE trades, and a post-only one would", "p1 c1 NEW buy 3@100; p1 c2 NEW buy 3@102 aon; p2 c1 NEW sell 4@103; p2 c2 NEW sell 4@103 post; p9 c1 RULE BAND_HIGH 101", "p2 c3 REPLACE o2 4@100; p2 c4 REPLACE o1 4@100", """
        p2 REJECTED c3 o2 #0 s0 buy 4@100 leaves 0 WOULD_CROSS
        p2 REPLACED c4 o1 #3 s0 sell 4@103 leaves 4
        p1 FILL c0 o1 #1 s0 buy 3@100 leaves 0 MAKER m1
        p2 FILL c4 o1 #0 s0 sell 3@100 leaves 1 m1
        p2 RESTED c4 o1 #5 s0 sell 1@100 leaves 1"""),
    ("a peg that moves trades within; its rest is cancelled across a hidden order outside", "p1 c1 NEW buy 1@104; p1 c2 NEW buy 1@90; p1 c3 NEW sell 1@112; p1 c4 NEW buy 9@106 hidden; p1 c5 NEW buy 2@102 hidden; p1 c6 NEW buy 9@107 aon; p2 c10 NEW sell 6@0 peg=mid; p9 c1 RULE BAND_HIGH 105", "p1 c7 CANCEL o1", """
        p1 CANCELLED c7 o1 #1 s0 buy 1@104 leaves 0 REQUESTED RESTING
        p1 FILL c0 o5 #5 s0 buy 2@102 leaves 0 MAKER HIDDEN m1
        p2 FILL c0 o10 #0 s0 sell 2@102 leaves 4 m1
        p2 CANCELLED c0 o10 #0 s0 sell 4@0 leaves 0 OUTSIDE_BAND"""),
    ("a conditional order outside still trades within the band, as the incoming one", "p1 c1 NEW buy 4@103 aon; p1 c3 NEW buy 5@104 aon; p9 c1 RULE BAND_LOW 98; p9 c2 RULE BAND_HIGH 102", "p2 c1 NEW sell 5@100", """
        p2 ACCEPTED c1 o1 #3 s0 sell 5@100 leaves 5 RESTING
        p2 FILL c0 o1 #3 s0 sell 5@100 leaves 0 MAKER m1
        p1 FILL c0 o3 #0 s0 buy 5@100 leaves 0 m1"""),
    ("band, interrupting: a conditional order outside interrupts, if the remaining quantity is enough for it", "p1 c1 NEW buy 30@100; p1 c2 NEW buy 10@102 aon; p9 c1 RULE BAND_HIGH 101; p9 c2 RULE BAND_ACTION 1", "p2 c1 NEW sell 5@100; p2 c2 NEW sell 20@100 fok; p2 c3 NEW sell 50@100", """
        p2 ACCEPTED c1 o1 #0 s0 sell 5@100 leaves 5
        p1 FILL c0 o1 #1 s0 buy 5@100 leaves 25 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 5@100 leaves 0 m1
        p2 ACCEPTED c2 o2 #0 s0 sell 20@100 leaves 20
        p2 CANCELLED c2 o2 #0 s0 sell 20@100 leaves 0 FOK_UNFILLABLE
        p2 ACCEPTED c3 o3 #0 s0 sell 50@100 leaves 50
        p2 PHASED c0 o0 #0 s0 sell 0@0 leaves 0 VOLATILITY
        p2 RESTED c3 o3 #3 s0 sell 50@100 leaves 50"""),
]  # fmt: skip


@cases(PASSED_OVER)
def test_events(market: AnyMarket, before: str, text: str, expected: str) -> None:
    assert_case(market, before, text, expected)
