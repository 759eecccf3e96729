"""Linked orders of which one updates the other, case by case."""

from tests.exchange.tables import AnyMarket, Case, assert_case, cases

TRADED = "p1 c1 NEW sell 9@101; p1 c2 NEW buy 9@99; p2 c1 NEW buy 1@101"
"""Last trade at 101; p1 asks for 8 at 101 and bids for 9 at 99."""

UPDATES: list[Case] = [
    ("a partial fill takes as many lots off the other", "p1 c1 NEW sell 5@105; p1 c10 NEW sell 5@106 updates=1", "p2 c1 NEW buy 2@105; p2 c2 NEW buy 3@105", """
        p2 ACCEPTED c1 o1 #0 s0 buy 2@105 leaves 2
        p1 FILL c0 o1 #1 s0 sell 2@105 leaves 3 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 2@105 leaves 0 m1
        p1 REDUCED c0 o10 #2 s0 sell 2@106 leaves 3 LINKED
        p2 ACCEPTED c2 o2 #0 s0 buy 3@105 leaves 3
        p1 FILL c0 o1 #1 s0 sell 3@105 leaves 0 MAKER m2
        p2 FILL c2 o2 #0 s0 buy 3@105 leaves 0 m2
        p1 CANCELLED c0 o10 #2 s0 sell 3@106 leaves 0 LINKED RESTING"""),
    ("of the other, too, when the later one trades", "p1 c1 NEW buy 5@95; p1 c10 NEW sell 5@105 updates=1", "p2 c1 NEW buy 2@105; p2 c2 NEW sell 1@95; p2 c3 NEW buy 9@105", """
        p2 ACCEPTED c1 o1 #0 s0 buy 2@105 leaves 2
        p1 FILL c0 o10 #2 s0 sell 2@105 leaves 3 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 2@105 leaves 0 m1
        p1 REDUCED c0 o1 #1 s0 buy 2@95 leaves 3 LINKED
        p2 ACCEPTED c2 o2 #0 s0 sell 1@95 leaves 1
        p1 FILL c0 o1 #1 s0 buy 1@95 leaves 2 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@95 leaves 0 m2
        p1 REDUCED c0 o10 #2 s0 sell 1@105 leaves 2 LINKED
        p2 ACCEPTED c3 o3 #0 s0 buy 9@105 leaves 9
        p1 FILL c0 o10 #2 s0 sell 2@105 leaves 0 MAKER m3
        p2 FILL c3 o3 #0 s0 buy 2@105 leaves 7 m3
        p1 CANCELLED c0 o1 #1 s0 buy 2@95 leaves 0 LINKED RESTING
        p2 RESTED c3 o3 #3 s0 buy 7@105 leaves 7"""),
    ("a bracket: the stop loss shrinks with the take profit", TRADED + "; p3 c1 NEW buy 5@101; p3 c10 NEW sell 5@0 market stop=95; p3 c20 NEW sell 5@103 updates=10", "p2 c2 NEW buy 5@103; p2 c3 NEW buy 3@103; p1 c3 CANCEL o2; p1 c4 NEW buy 9@95; p2 c4 NEW sell 1@95", """
        p2 ACCEPTED c2 o2 #0 s0 buy 5@103 leaves 5
        p1 FILL c0 o1 #1 s0 sell 3@101 leaves 0 MAKER m3
        p2 FILL c2 o2 #0 s0 buy 3@101 leaves 2 m3
        p3 FILL c0 o20 #4 s0 sell 2@103 leaves 3 MAKER m4
        p2 FILL c2 o2 #0 s0 buy 2@103 leaves 0 m4
        p3 REDUCED c0 o10 #3 s0 sell 2@0 leaves 3 LINKED HIDDEN
        p2 ACCEPTED c3 o3 #0 s0 buy 3@103 leaves 3
        p3 FILL c0 o20 #4 s0 sell 3@103 leaves 0 MAKER m5
        p2 FILL c3 o3 #0 s0 buy 3@103 leaves 0 m5
        p3 CANCELLED c0 o10 #3 s0 sell 3@0 leaves 0 LINKED RESTING HIDDEN
        p1 CANCELLED c3 o2 #2 s0 buy 9@99 leaves 0 REQUESTED RESTING
        p1 ACCEPTED c4 o4 #5 s0 buy 9@95 leaves 9 RESTING
        p2 ACCEPTED c4 o4 #0 s0 sell 1@95 leaves 1
        p1 FILL c0 o4 #5 s0 buy 1@95 leaves 8 MAKER m6
        p2 FILL c4 o4 #0 s0 sell 1@95 leaves 0 m6"""),
    ("a bracket: the take profit shrinks with the stop loss, whose trigger leaves the link", TRADED + "; p3 c1 NEW buy 5@101; p3 c10 NEW sell 5@98 stop=99; p3 c20 NEW sell 5@103 updates=10; p1 c3 REDUCE o2 6@0", "p2 c2 NEW sell 1@99; p2 c3 NEW buy 2@98", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 2 MAKER m3
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m3
        p3 TRIGGERED c0 o10 #3 s0 sell 5@98 leaves 5 HIDDEN
        p1 FILL c0 o2 #2 s0 buy 2@99 leaves 0 MAKER m4
        p3 FILL c0 o10 #0 s0 sell 2@99 leaves 3 m4
        p3 REDUCED c0 o20 #4 s0 sell 2@103 leaves 3 LINKED
        p3 RESTED c0 o10 #5 s0 sell 3@98 leaves 3
        p2 ACCEPTED c3 o3 #0 s0 buy 2@98 leaves 2
        p3 FILL c0 o10 #5 s0 sell 2@98 leaves 1 MAKER m5
        p2 FILL c3 o3 #0 s0 buy 2@98 leaves 0 m5
        p3 REDUCED c0 o20 #4 s0 sell 2@103 leaves 1 LINKED"""),
    ("the rest of a market order is cancelled, and with it the other", TRADED + "; p3 c10 NEW sell 5@0 market stop=99; p3 c20 NEW sell 5@103 updates=10; p1 c3 REDUCE o2 6@0", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 2 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #3 s0 sell 5@0 leaves 5 HIDDEN
        p1 FILL c0 o2 #2 s0 buy 2@99 leaves 0 MAKER m3
        p3 FILL c0 o10 #0 s0 sell 2@99 leaves 3 m3
        p3 REDUCED c0 o20 #4 s0 sell 2@103 leaves 3 LINKED
        p3 CANCELLED c0 o10 #0 s0 sell 3@0 leaves 0 MARKET_REMAINDER
        p3 CANCELLED c0 o20 #4 s0 sell 3@103 leaves 0 LINKED RESTING"""),
    ("the smaller one is gone: the link ends, the larger one stays", "p1 c1 NEW sell 3@105; p1 c10 NEW sell 8@106 updates=1", "p2 c1 NEW buy 3@105; p2 c2 NEW buy 1@106; p1 c20 NEW buy 1@90 link=10", """
        p2 ACCEPTED c1 o1 #0 s0 buy 3@105 leaves 3
        p1 FILL c0 o1 #1 s0 sell 3@105 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 3@105 leaves 0 m1
        p1 REDUCED c0 o10 #2 s0 sell 3@106 leaves 5 LINKED
        p2 ACCEPTED c2 o2 #0 s0 buy 1@106 leaves 1
        p1 FILL c0 o10 #2 s0 sell 1@106 leaves 4 MAKER m2
        p2 FILL c2 o2 #0 s0 buy 1@106 leaves 0 m2
        p1 ACCEPTED c20 o20 #3 s0 buy 1@90 leaves 1 RESTING"""),
    ("the other has no more: it is cancelled, and the link ends", "p1 c1 NEW sell 3@106; p1 c10 NEW sell 8@105 updates=1", "p2 c1 NEW buy 4@105; p2 c2 NEW buy 1@105", """
        p2 ACCEPTED c1 o1 #0 s0 buy 4@105 leaves 4
        p1 FILL c0 o10 #2 s0 sell 4@105 leaves 4 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 4@105 leaves 0 m1
        p1 CANCELLED c0 o1 #1 s0 sell 3@106 leaves 0 LINKED RESTING
        p2 ACCEPTED c2 o2 #0 s0 buy 1@105 leaves 1
        p1 FILL c0 o10 #2 s0 sell 1@105 leaves 3 MAKER m2
        p2 FILL c2 o2 #0 s0 buy 1@105 leaves 0 m2"""),
    ("a cancel cancels the other, a reduce and a replace do not", "p1 c1 NEW sell 5@105; p1 c10 NEW sell 5@106 updates=1", "p1 c11 REDUCE o1 1@0; p1 c12 REPLACE o10 7@107; p1 c13 CANCEL o1", """
        p1 REDUCED c11 o1 #1 s0 sell 1@105 leaves 4
        p1 REPLACED c12 o10 #2 s0 sell 5@106 leaves 7
        p1 RESTED c12 o10 #3 s0 sell 7@107 leaves 7
        p1 CANCELLED c13 o1 #1 s0 sell 4@105 leaves 0 REQUESTED RESTING
        p1 CANCELLED c0 o10 #3 s0 sell 7@107 leaves 0 LINKED RESTING"""),
    ("for a replace, what the other has traded counts as filled", "p1 c1 NEW sell 5@105; p1 c10 NEW sell 5@106 updates=1; p2 c1 NEW buy 2@105", "p1 c11 REPLACE o10 5@107; p1 c12 REPLACE o10 4@107; p1 c13 REPLACE o10 2@107", """
        p1 REPLACED c11 o10 #2 s0 sell 3@106 leaves 3
        p1 RESTED c11 o10 #3 s0 sell 3@107 leaves 3
        p1 REDUCED c12 o10 #3 s0 sell 1@107 leaves 2
        p1 CANCELLED c13 o10 #3 s0 sell 2@107 leaves 0 REPLACED_BELOW_FILLED RESTING
        p1 CANCELLED c0 o1 #1 s0 sell 3@105 leaves 0 LINKED RESTING"""),
    ("an expiry cancels the other", "p1 c10 NEW sell 5@105 gtt until=2000; p1 c20 NEW sell 5@106 updates=10", "p2 c1 NEW buy 1@90 t2000", """
        p1 CANCELLED c0 o10 #1 s0 sell 5@105 leaves 0 EXPIRED RESTING
        p1 CANCELLED c0 o20 #2 s0 sell 5@106 leaves 0 LINKED RESTING
        p2 ACCEPTED c1 o1 #3 s0 buy 1@90 leaves 1 RESTING"""),
    ("an incoming order with such a link", "p2 c1 NEW sell 3@100; p1 c1 NEW buy 5@95", "p1 c10 NEW buy 4@100 updates=1; p2 c2 NEW sell 9@100 ioc", """
        p1 ACCEPTED c10 o10 #0 s0 buy 4@100 leaves 4
        p2 FILL c0 o1 #1 s0 sell 3@100 leaves 0 MAKER m1
        p1 FILL c10 o10 #0 s0 buy 3@100 leaves 1 m1
        p1 REDUCED c0 o1 #2 s0 buy 3@95 leaves 2 LINKED
        p1 RESTED c10 o10 #3 s0 buy 1@100 leaves 1
        p2 ACCEPTED c2 o2 #0 s0 sell 9@100 leaves 9
        p1 FILL c0 o10 #3 s0 buy 1@100 leaves 0 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@100 leaves 8 m2
        p1 REDUCED c0 o1 #2 s0 buy 1@95 leaves 1 LINKED
        p2 CANCELLED c2 o2 #0 s0 sell 8@100 leaves 0 IOC_REMAINDER"""),
    ("an incoming order that trades in full: the other keeps the rest, without the link", "p2 c1 NEW sell 3@100; p1 c1 NEW buy 5@95", "p1 c10 NEW buy 3@100 updates=1; p1 c11 CANCEL o1", """
        p1 ACCEPTED c10 o10 #0 s0 buy 3@100 leaves 3
        p2 FILL c0 o1 #1 s0 sell 3@100 leaves 0 MAKER m1
        p1 FILL c10 o10 #0 s0 buy 3@100 leaves 0 m1
        p1 REDUCED c0 o1 #2 s0 buy 3@95 leaves 2 LINKED
        p1 CANCELLED c11 o1 #2 s0 buy 2@95 leaves 0 REQUESTED RESTING"""),
    ("an incoming order with less than the other", "p2 c1 NEW sell 3@100; p1 c1 NEW buy 2@95", "p1 c10 NEW buy 5@100 updates=1", """
        p1 ACCEPTED c10 o10 #0 s0 buy 5@100 leaves 5
        p2 FILL c0 o1 #1 s0 sell 3@100 leaves 0 MAKER m1
        p1 FILL c10 o10 #0 s0 buy 3@100 leaves 2 m1
        p1 CANCELLED c0 o1 #2 s0 buy 2@95 leaves 0 LINKED RESTING
        p1 RESTED c10 o10 #3 s0 buy 2@100 leaves 2"""),
    ("the two trade with each other: the rest of the incoming one is cancelled", "p1 c1 NEW sell 3@100", "p1 c10 NEW buy 5@100 updates=1", """
        p1 ACCEPTED c10 o10 #0 s0 buy 5@100 leaves 5
        p1 FILL c0 o1 #1 s0 sell 3@100 leaves 0 MAKER m1
        p1 FILL c10 o10 #0 s0 buy 3@100 leaves 2 m1
        p1 CANCELLED c0 o10 #0 s0 buy 2@100 leaves 0 LINKED"""),
    ("an iceberg loses its reserve first", "p1 c2 NEW sell 10@105 display=4; p1 c10 NEW sell 10@106 updates=2", "p2 c1 NEW buy 7@106 ioc; p2 c2 NEW buy 7@106 ioc", """
        p2 ACCEPTED c1 o1 #0 s0 buy 7@106 leaves 7
        p1 FILL c0 o2 #1 s0 sell 4@105 leaves 6 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 4@105 leaves 3 m1
        p1 RESTED c0 o2 #3 s0 sell 4@105 leaves 6
        p1 REDUCED c0 o10 #2 s0 sell 4@106 leaves 6 LINKED
        p1 FILL c0 o2 #3 s0 sell 3@105 leaves 3 MAKER m2
        p2 FILL c1 o1 #0 s0 buy 3@105 leaves 0 m2
        p1 REDUCED c0 o10 #2 s0 sell 3@106 leaves 3 LINKED
        p2 ACCEPTED c2 o2 #0 s0 buy 7@106 leaves 7
        p1 FILL c0 o2 #3 s0 sell 1@105 leaves 2 MAKER m3
        p2 FILL c2 o2 #0 s0 buy 1@105 leaves 6 m3
        p1 RESTED c0 o2 #4 s0 sell 2@105 leaves 2
        p1 REDUCED c0 o10 #2 s0 sell 1@106 leaves 2 LINKED
        p1 FILL c0 o2 #4 s0 sell 2@105 leaves 0 MAKER m4
        p2 FILL c2 o2 #0 s0 buy 2@105 leaves 4 m4
        p1 CANCELLED c0 o10 #2 s0 sell 2@106 leaves 0 LINKED RESTING
        p2 CANCELLED c2 o2 #0 s0 buy 4@106 leaves 0 IOC_REMAINDER"""),
    ("an iceberg trades: its new part comes before the reduction", "p1 c2 NEW sell 10@105 display=4; p1 c10 NEW sell 10@106 updates=2", "p2 c1 NEW buy 5@105", """
        p2 ACCEPTED c1 o1 #0 s0 buy 5@105 leaves 5
        p1 FILL c0 o2 #1 s0 sell 4@105 leaves 6 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 4@105 leaves 1 m1
        p1 RESTED c0 o2 #3 s0 sell 4@105 leaves 6
        p1 REDUCED c0 o10 #2 s0 sell 4@106 leaves 6 LINKED
        p1 FILL c0 o2 #3 s0 sell 1@105 leaves 5 MAKER m2
        p2 FILL c1 o1 #0 s0 buy 1@105 leaves 0 m2
        p1 REDUCED c0 o10 #2 s0 sell 1@106 leaves 5 LINKED"""),
    ("in another symbol", "p1 c1 NEW sell 5@105 s1; p1 c10 NEW sell 5@106 updates=1", "p2 c1 NEW buy 2@106; p2 c2 NEW buy 2@105 s1", """
        p2 ACCEPTED c1 o1 #0 s0 buy 2@106 leaves 2
        p1 FILL c0 o10 #2 s0 sell 2@106 leaves 3 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 2@106 leaves 0 m1
        p1 REDUCED c0 o1 #1 s1 sell 2@105 leaves 3 LINKED
        p2 ACCEPTED c2 o2 #0 s1 buy 2@105 leaves 2
        p1 FILL c0 o1 #1 s1 sell 2@105 leaves 1 MAKER m2
        p2 FILL c2 o2 #0 s1 buy 2@105 leaves 0 m2
        p1 REDUCED c0 o10 #2 s0 sell 2@106 leaves 1 LINKED"""),
    ("a minimum is never above what is left", "p1 c10 NEW sell 9@105 min=6; p1 c20 NEW sell 9@103 updates=10", "p2 c1 NEW buy 5@103; p2 c2 NEW buy 5@103; p2 c3 NEW buy 4@105", """
        p2 ACCEPTED c1 o1 #0 s0 buy 5@103 leaves 5
        p1 FILL c0 o20 #2 s0 sell 5@103 leaves 4 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 5@103 leaves 0 m1
        p1 REDUCED c0 o10 #1 s0 sell 5@105 leaves 4 LINKED HIDDEN
        p2 ACCEPTED c2 o2 #0 s0 buy 5@103 leaves 5
        p1 FILL c0 o20 #2 s0 sell 4@103 leaves 0 MAKER m2
        p2 FILL c2 o2 #0 s0 buy 4@103 leaves 1 m2
        p1 CANCELLED c0 o10 #1 s0 sell 4@105 leaves 0 LINKED RESTING HIDDEN
        p2 RESTED c2 o2 #3 s0 buy 1@103 leaves 1
        p2 ACCEPTED c3 o3 #4 s0 buy 4@105 leaves 4 RESTING"""),
    ("pro-rata: shares are computed again", "p9 c1 RULE MATCHING 1; p1 c1 NEW sell 6@100; p1 c10 NEW sell 6@100 updates=1; p3 c1 NEW sell 6@100", "p2 c1 NEW buy 9@100", """
        p2 ACCEPTED c1 o1 #0 s0 buy 9@100 leaves 9
        p1 FILL c0 o1 #1 s0 sell 3@100 leaves 3 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 3@100 leaves 6 m1
        p1 REDUCED c0 o10 #2 s0 sell 3@100 leaves 3 LINKED
        p1 FILL c0 o1 #1 s0 sell 2@100 leaves 1 MAKER m2
        p2 FILL c1 o1 #0 s0 buy 2@100 leaves 4 m2
        p1 REDUCED c0 o10 #2 s0 sell 2@100 leaves 1 LINKED
        p1 FILL c0 o1 #1 s0 sell 1@100 leaves 0 MAKER m3
        p2 FILL c1 o1 #0 s0 buy 1@100 leaves 3 m3
        p1 CANCELLED c0 o10 #2 s0 sell 1@100 leaves 0 LINKED RESTING
        p3 FILL c0 o1 #3 s0 sell 3@100 leaves 3 MAKER m4
        p2 FILL c1 o1 #0 s0 buy 3@100 leaves 0 m4"""),
    ("all or nothing does not count what a fill takes away", "p1 c1 NEW sell 3@100; p1 c10 NEW sell 3@100 updates=1", "p2 c1 NEW buy 4@100 fok; p2 c2 NEW buy 3@100 fok", """
        p2 ACCEPTED c1 o1 #0 s0 buy 4@100 leaves 4
        p2 CANCELLED c1 o1 #0 s0 buy 4@100 leaves 0 FOK_UNFILLABLE
        p2 ACCEPTED c2 o2 #0 s0 buy 3@100 leaves 3
        p2 CANCELLED c2 o2 #0 s0 buy 3@100 leaves 0 FOK_UNFILLABLE"""),
    ("in an auction", "p9 c1 PHASE INTRADAY; p1 c1 NEW sell 5@100; p1 c10 NEW sell 5@101 updates=1; p2 c1 NEW buy 3@102; p2 c10 NEW buy 3@90 updates=1", "p9 c2 PHASE", """
        p1 FILL c0 o1 #1 s0 sell 3@100 leaves 2 MAKER AUCTION m1
        p2 FILL c0 o1 #3 s0 buy 3@100 leaves 0 AUCTION m1
        p1 REDUCED c0 o10 #2 s0 sell 3@101 leaves 2 LINKED
        p2 CANCELLED c0 o10 #4 s0 buy 3@90 leaves 0 LINKED RESTING
        p9 PHASED c2 o0 #0 s0 buy 3@100 leaves 0 CONTINUOUS"""),
    ("the two in an auction against each other", "p9 c1 PHASE INTRADAY; p1 c1 NEW sell 3@100; p1 c10 NEW buy 5@101 updates=1", "p9 c2 PHASE", """
        p1 FILL c0 o1 #1 s0 sell 3@100 leaves 0 MAKER AUCTION m1
        p1 FILL c0 o10 #2 s0 buy 3@100 leaves 2 AUCTION m1
        p1 CANCELLED c0 o10 #2 s0 buy 2@101 leaves 0 LINKED RESTING
        p9 PHASED c2 o0 #0 s0 buy 3@100 leaves 0 CONTINUOUS"""),
    ("self-trade prevention, both: a cancel of one cancels the other", "p1 c1 NEW sell 5@105; p1 c10 NEW sell 5@106 updates=1", "p1 c20 NEW buy 2@105 stp=oldest", """
        p1 ACCEPTED c20 o20 #0 s0 buy 2@105 leaves 2
        p1 CANCELLED c0 o1 #1 s0 sell 5@105 leaves 0 SELF_TRADE RESTING
        p1 CANCELLED c0 o10 #2 s0 sell 5@106 leaves 0 LINKED RESTING
        p1 RESTED c20 o20 #3 s0 buy 2@105 leaves 2"""),
    ("a peg that trades while it moves", "p1 c1 NEW buy 9@98; p1 c2 NEW sell 9@102; p3 c1 NEW sell 4@103; p3 c10 NEW sell 4@0 peg=mid updates=1", "p2 c1 NEW buy 2@100 hidden", """
        p2 ACCEPTED c1 o1 #0 s0 buy 2@100 leaves 2
        p3 FILL c0 o10 #4 s0 sell 2@100 leaves 2 MAKER HIDDEN m1
        p2 FILL c1 o1 #0 s0 buy 2@100 leaves 0 m1
        p3 REDUCED c0 o1 #3 s0 sell 2@103 leaves 2 LINKED"""),
]  # fmt: skip


@cases(UPDATES)
def test_events(market: AnyMarket, before: str, text: str, expected: str) -> None:
    assert_case(market, before, text, expected)
