"""Linked and reduce-only orders, and self-trade prevention, case by case."""

from tests.exchange.tables import AnyMarket, Case, assert_case, cases

TOUCH = "p1 c1 NEW sell 9@101; p1 c2 NEW buy 9@99; p2 c1 NEW buy 1@101"
"""Last trade at 101; p1 asks for 8 at 101 and bids for 9 at 99."""
ASKS = "p1 c1 NEW sell 4@100; p2 c1 NEW sell 6@100; p1 c2 NEW sell 5@101"

LINKS: list[Case] = [
    ("a trade of one cancels the other", "p1 c1 NEW sell 5@105; p1 c20 NEW sell 5@0 market stop=95 link=1", "p2 c1 NEW buy 1@105", """
        p2 ACCEPTED c1 o1 #0 s0 buy 1@105 leaves 1
        p1 FILL c0 o1 #1 s0 sell 1@105 leaves 4 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 1@105 leaves 0 m1
        p1 CANCELLED c0 o20 #2 s0 sell 5@0 leaves 0 LINKED RESTING HIDDEN"""),
    ("a cancel of one cancels the other", "p1 c1 NEW sell 5@105; p1 c20 NEW sell 5@0 market stop=95 link=1", "p1 c21 CANCEL o20", """
        p1 CANCELLED c21 o20 #2 s0 sell 5@0 leaves 0 REQUESTED RESTING HIDDEN
        p1 CANCELLED c0 o1 #1 s0 sell 5@105 leaves 0 LINKED RESTING"""),
    ("the trigger of one cancels the other, before it trades", TOUCH + "; p3 c1 NEW sell 5@105; p3 c20 NEW sell 5@0 market stop=99 link=1", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o20 #4 s0 sell 5@0 leaves 5 HIDDEN
        p3 CANCELLED c0 o1 #3 s0 sell 5@105 leaves 0 LINKED RESTING
        p1 FILL c0 o2 #2 s0 buy 5@99 leaves 3 MAKER m3
        p3 FILL c0 o20 #0 s0 sell 5@99 leaves 0 m3"""),
    ("replacing does not end the link; a replacing order that trades does", "p1 c1 NEW sell 5@105; p1 c10 NEW sell 5@106 link=1; p2 c1 NEW buy 2@104", "p1 c11 REPLACE o1 6@107; p1 c12 REPLACE o1 6@104", """
        p1 REPLACED c11 o1 #1 s0 sell 5@105 leaves 6
        p1 RESTED c11 o1 #4 s0 sell 6@107 leaves 6
        p1 REPLACED c12 o1 #4 s0 sell 6@107 leaves 6
        p2 FILL c0 o1 #3 s0 buy 2@104 leaves 0 MAKER m1
        p1 FILL c12 o1 #0 s0 sell 2@104 leaves 4 m1
        p1 CANCELLED c0 o10 #2 s0 sell 5@106 leaves 0 LINKED RESTING
        p1 RESTED c12 o1 #5 s0 sell 4@104 leaves 4"""),
    ("reducing does not end the link", "p1 c1 NEW sell 5@105; p1 c10 NEW sell 5@106 link=1", "p1 c11 REDUCE o1 2@0; p1 c12 REDUCE o1 3@0", """
        p1 REDUCED c11 o1 #1 s0 sell 2@105 leaves 3
        p1 CANCELLED c12 o1 #1 s0 sell 3@105 leaves 0 REQUESTED RESTING
        p1 CANCELLED c0 o10 #2 s0 sell 5@106 leaves 0 LINKED RESTING"""),
    ("a third order cannot join", "p1 c1 NEW sell 5@105; p1 c10 NEW sell 5@106 link=1",
        "p1 c20 NEW sell 5@107 link=1; p1 c30 NEW sell 5@107 link=10; p1 c40 NEW sell 5@107 link=99; "
        "p2 c10 NEW buy 1@90 link=1", """
        p1 REJECTED c20 o20 #0 s0 sell 5@107 leaves 0 BAD_TERMS
        p1 REJECTED c30 o30 #0 s0 sell 5@107 leaves 0 BAD_TERMS
        p1 REJECTED c40 o40 #0 s0 sell 5@107 leaves 0 BAD_TERMS
        p2 REJECTED c10 o10 #0 s0 buy 1@90 leaves 0 BAD_TERMS"""),
    ("an order that trades on arrival cancels the other one", "p1 c1 NEW sell 5@105; p2 c1 NEW buy 2@100", "p1 c10 NEW sell 4@100 link=1", """
        p1 ACCEPTED c10 o10 #0 s0 sell 4@100 leaves 4
        p2 FILL c0 o1 #2 s0 buy 2@100 leaves 0 MAKER m1
        p1 FILL c10 o10 #0 s0 sell 2@100 leaves 2 m1
        p1 CANCELLED c0 o1 #1 s0 sell 5@105 leaves 0 LINKED RESTING
        p1 RESTED c10 o10 #3 s0 sell 2@100 leaves 2"""),
    ("an IOC order that finds nothing cancels it, too", "p1 c1 NEW sell 5@105", "p1 c10 NEW sell 4@100 ioc link=1", """
        p1 ACCEPTED c10 o10 #0 s0 sell 4@100 leaves 4
        p1 CANCELLED c10 o10 #0 s0 sell 4@100 leaves 0 IOC_REMAINDER
        p1 CANCELLED c0 o1 #1 s0 sell 5@105 leaves 0 LINKED RESTING"""),
    ("both sides of a match are linked: the resting order's partner first", "p1 c1 NEW sell 5@105; p1 c10 NEW sell 5@106 link=1; p2 c1 NEW buy 1@90", "p2 c10 NEW buy 2@105 link=1", """
        p2 ACCEPTED c10 o10 #0 s0 buy 2@105 leaves 2
        p1 FILL c0 o1 #1 s0 sell 2@105 leaves 3 MAKER m1
        p2 FILL c10 o10 #0 s0 buy 2@105 leaves 0 m1
        p1 CANCELLED c0 o10 #2 s0 sell 5@106 leaves 0 LINKED RESTING
        p2 CANCELLED c0 o1 #3 s0 buy 1@90 leaves 0 LINKED RESTING"""),
    ("after an iceberg's next part", "p1 c1 NEW sell 5@106; p1 c20 NEW sell 5@105 display=2 link=1", "p2 c1 NEW buy 2@105", """
        p2 ACCEPTED c1 o1 #0 s0 buy 2@105 leaves 2
        p1 FILL c0 o20 #2 s0 sell 2@105 leaves 3 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 2@105 leaves 0 m1
        p1 RESTED c0 o20 #3 s0 sell 2@105 leaves 3
        p1 CANCELLED c0 o1 #1 s0 sell 5@106 leaves 0 LINKED RESTING"""),
    ("the two trade with each other: the incoming order's remainder is cancelled", "p1 c1 NEW sell 2@105", "p1 c10 NEW buy 5@105 link=1", """
        p1 ACCEPTED c10 o10 #0 s0 buy 5@105 leaves 5
        p1 FILL c0 o1 #1 s0 sell 2@105 leaves 0 MAKER m1
        p1 FILL c10 o10 #0 s0 buy 2@105 leaves 3 m1
        p1 CANCELLED c0 o10 #0 s0 buy 3@105 leaves 0 LINKED"""),
    ("the two trade with each other: the resting one stays", "p1 c1 NEW sell 5@105", "p1 c10 NEW buy 2@105 link=1; p1 c11 CANCEL o1", """
        p1 ACCEPTED c10 o10 #0 s0 buy 2@105 leaves 2
        p1 FILL c0 o1 #1 s0 sell 2@105 leaves 3 MAKER m1
        p1 FILL c10 o10 #0 s0 buy 2@105 leaves 0 m1
        p1 CANCELLED c11 o1 #1 s0 sell 3@105 leaves 0 REQUESTED RESTING"""),
    ("over two symbols", "p1 c1 NEW sell 5@105 s1; p1 c10 NEW sell 5@106 link=1", "p2 c1 NEW buy 1@105 s1", """
        p2 ACCEPTED c1 o1 #0 s1 buy 1@105 leaves 1
        p1 FILL c0 o1 #1 s1 sell 1@105 leaves 4 MAKER m1
        p2 FILL c1 o1 #0 s1 buy 1@105 leaves 0 m1
        p1 CANCELLED c0 o10 #2 s0 sell 5@106 leaves 0 LINKED RESTING"""),
    ("a mass cancel continues after it and counts only its own cancels", "p1 c1 NEW sell 5@105; p1 c10 NEW sell 5@106 link=1; p1 c11 NEW sell 1@107", "p1 c12 MASS_CANCEL s0", """
        p1 CANCELLED c12 o1 #1 s0 sell 5@105 leaves 0 MASS_CANCEL RESTING
        p1 CANCELLED c0 o10 #2 s0 sell 5@106 leaves 0 LINKED RESTING
        p1 CANCELLED c12 o11 #3 s0 sell 1@107 leaves 0 MASS_CANCEL RESTING
        p1 MASS_CANCELLED c12 o0 #0 s0 buy 2@0 leaves 0"""),
    ("an expired one cancels the other", "p1 c1 NEW sell 5@105; p1 c20 NEW sell 5@106 gtt until=2000 link=1", "p9 c1 TIME t2000", """
        p1 CANCELLED c0 o20 #2 s0 sell 5@106 leaves 0 EXPIRED RESTING
        p1 CANCELLED c0 o1 #1 s0 sell 5@105 leaves 0 LINKED RESTING"""),
]  # fmt: skip

REDUCE_ONLY: list[Case] = [
    ("no position", "", "p1 c1 NEW buy 1@100 reduce",
        "p1 REJECTED c1 o1 #0 s0 buy 1@100 leaves 0 REDUCE_ONLY"),
    ("of the position's own side, larger than it, as large as it", "p1 c1 NEW sell 5@100; p2 c1 NEW buy 5@100", "p2 c2 NEW buy 1@90 reduce; p2 c3 NEW sell 6@110 reduce; p2 c4 NEW sell 5@110 reduce", """
        p2 REJECTED c2 o2 #0 s0 buy 1@90 leaves 0 REDUCE_ONLY
        p2 REJECTED c3 o3 #0 s0 sell 6@110 leaves 0 REDUCE_ONLY
        p2 ACCEPTED c4 o4 #2 s0 sell 5@110 leaves 5 RESTING"""),
    ("a resting one is cancelled when it would trade", "p1 c1 NEW sell 5@100; p2 c1 NEW buy 5@100; p2 c2 NEW sell 5@110 reduce; p3 c1 NEW buy 2@105; p2 c3 NEW sell 2@105; p4 c1 NEW sell 1@110", "p3 c2 NEW buy 3@110", """
        p3 ACCEPTED c2 o2 #0 s0 buy 3@110 leaves 3
        p2 CANCELLED c0 o2 #2 s0 sell 5@110 leaves 0 NOT_REDUCING RESTING
        p4 FILL c0 o1 #4 s0 sell 1@110 leaves 0 MAKER m3
        p3 FILL c2 o2 #0 s0 buy 1@110 leaves 2 m3
        p3 RESTED c2 o2 #5 s0 buy 2@110 leaves 2"""),
    ("a triggered one is cancelled when it would trade", "p1 c1 NEW buy 9@99; p1 c2 NEW sell 5@100; p2 c1 NEW buy 5@100; p2 c12 NEW sell 5@0 market reduce stop=99", "p2 c13 NEW sell 1@99", """
        p2 ACCEPTED c13 o13 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o1 #1 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c13 o13 #0 s0 sell 1@99 leaves 0 m2
        p2 TRIGGERED c0 o12 #3 s0 sell 5@0 leaves 5 HIDDEN
        p2 CANCELLED c0 o12 #0 s0 sell 5@0 leaves 0 NOT_REDUCING"""),
    ("several trades as long as it reduces", "p1 c1 NEW sell 5@100; p2 c1 NEW buy 5@100; p2 c2 NEW sell 3@110 reduce; p2 c3 NEW sell 3@111 reduce", "p3 c1 NEW buy 6@111", """
        p3 ACCEPTED c1 o1 #0 s0 buy 6@111 leaves 6
        p2 FILL c0 o2 #2 s0 sell 3@110 leaves 0 MAKER m2
        p3 FILL c1 o1 #0 s0 buy 3@110 leaves 3 m2
        p2 CANCELLED c0 o3 #3 s0 sell 3@111 leaves 0 NOT_REDUCING RESTING
        p3 RESTED c1 o1 #4 s0 buy 3@111 leaves 3"""),
    ("FOK does not count on them", "p1 c1 NEW sell 5@100; p2 c1 NEW buy 5@100; p2 c2 NEW sell 3@110 reduce", "p3 c1 NEW buy 3@111 fok; p3 c2 NEW buy 3@111 ioc", """
        p3 ACCEPTED c1 o1 #0 s0 buy 3@111 leaves 3
        p3 CANCELLED c1 o1 #0 s0 buy 3@111 leaves 0 FOK_UNFILLABLE
        p3 ACCEPTED c2 o2 #0 s0 buy 3@111 leaves 3
        p2 FILL c0 o2 #2 s0 sell 3@110 leaves 0 MAKER m2
        p3 FILL c2 o2 #0 s0 buy 3@110 leaves 0 m2"""),
]  # fmt: skip

SELF_TRADE: list[Case] = [
    ("none: they trade", ASKS, "p1 c10 NEW buy 5@100 stp=none", """
        p1 ACCEPTED c10 o10 #0 s0 buy 5@100 leaves 5
        p1 FILL c0 o1 #1 s0 sell 4@100 leaves 0 MAKER m1
        p1 FILL c10 o10 #0 s0 buy 4@100 leaves 1 m1
        p2 FILL c0 o1 #2 s0 sell 1@100 leaves 5 MAKER m2
        p1 FILL c10 o10 #0 s0 buy 1@100 leaves 0 m2"""),
    ("newest: the remainder of the incoming order is cancelled", ASKS, "p1 c10 NEW buy 5@100 stp=newest; p2 c10 NEW buy 5@100 stp=newest", """
        p1 ACCEPTED c10 o10 #0 s0 buy 5@100 leaves 5
        p1 CANCELLED c10 o10 #0 s0 buy 5@100 leaves 0 SELF_TRADE
        p2 ACCEPTED c10 o10 #0 s0 buy 5@100 leaves 5
        p1 FILL c0 o1 #1 s0 sell 4@100 leaves 0 MAKER m1
        p2 FILL c10 o10 #0 s0 buy 4@100 leaves 1 m1
        p2 CANCELLED c10 o10 #0 s0 buy 1@100 leaves 0 SELF_TRADE"""),
    ("oldest: the resting order is cancelled, the incoming one continues", ASKS, "p1 c10 NEW buy 5@100 stp=oldest", """
        p1 ACCEPTED c10 o10 #0 s0 buy 5@100 leaves 5
        p1 CANCELLED c0 o1 #1 s0 sell 4@100 leaves 0 SELF_TRADE RESTING
        p2 FILL c0 o1 #2 s0 sell 5@100 leaves 1 MAKER m1
        p1 FILL c10 o10 #0 s0 buy 5@100 leaves 0 m1"""),
    ("both: the resting one first", ASKS, "p1 c10 NEW buy 5@100 stp=both", """
        p1 ACCEPTED c10 o10 #0 s0 buy 5@100 leaves 5
        p1 CANCELLED c0 o1 #1 s0 sell 4@100 leaves 0 SELF_TRADE RESTING
        p1 CANCELLED c10 o10 #0 s0 buy 5@100 leaves 0 SELF_TRADE"""),
    ("decrement: the resting one is smaller", ASKS, "p1 c10 NEW buy 5@100 stp=decrement", """
        p1 ACCEPTED c10 o10 #0 s0 buy 5@100 leaves 5
        p1 CANCELLED c0 o1 #1 s0 sell 4@100 leaves 0 SELF_TRADE RESTING
        p1 REDUCED c10 o10 #0 s0 buy 4@100 leaves 1 SELF_TRADE HIDDEN
        p2 FILL c0 o1 #2 s0 sell 1@100 leaves 5 MAKER m1
        p1 FILL c10 o10 #0 s0 buy 1@100 leaves 0 m1"""),
    ("decrement: the incoming one is smaller", ASKS, "p1 c10 NEW buy 3@100 stp=decrement", """
        p1 ACCEPTED c10 o10 #0 s0 buy 3@100 leaves 3
        p1 REDUCED c0 o1 #1 s0 sell 3@100 leaves 1 SELF_TRADE
        p1 CANCELLED c10 o10 #0 s0 buy 3@100 leaves 0 SELF_TRADE"""),
    ("decrement: as large as each other", ASKS, "p1 c10 NEW buy 4@100 stp=decrement", """
        p1 ACCEPTED c10 o10 #0 s0 buy 4@100 leaves 4
        p1 CANCELLED c0 o1 #1 s0 sell 4@100 leaves 0 SELF_TRADE RESTING
        p1 CANCELLED c10 o10 #0 s0 buy 4@100 leaves 0 SELF_TRADE"""),
    ("decrement of an iceberg counts its reserve, and takes from it first", "p1 c10 NEW sell 10@100 display=4", "p1 c20 NEW buy 7@100 stp=decrement; p1 c30 NEW buy 3@100 stp=decrement", """
        p1 ACCEPTED c20 o20 #0 s0 buy 7@100 leaves 7
        p1 REDUCED c0 o10 #1 s0 sell 6@100 leaves 4 SELF_TRADE HIDDEN
        p1 REDUCED c0 o10 #1 s0 sell 1@100 leaves 3 SELF_TRADE
        p1 CANCELLED c20 o20 #0 s0 buy 7@100 leaves 0 SELF_TRADE
        p1 ACCEPTED c30 o30 #0 s0 buy 3@100 leaves 3
        p1 CANCELLED c0 o10 #1 s0 sell 3@100 leaves 0 SELF_TRADE RESTING
        p1 CANCELLED c30 o30 #0 s0 buy 3@100 leaves 0 SELF_TRADE"""),
    ("the account's mode, set by the participant itself", ASKS, "p1 c10 ACCOUNT o1 SELF_TRADE 2; p1 c11 NEW buy 5@100", """
        p1 SET c10 o1 #0 s0 buy 0@2 leaves 0 flags=0
        p1 ACCEPTED c11 o11 #0 s0 buy 5@100 leaves 5
        p1 CANCELLED c0 o1 #1 s0 sell 4@100 leaves 0 SELF_TRADE RESTING
        p2 FILL c0 o1 #2 s0 sell 5@100 leaves 1 MAKER m1
        p1 FILL c11 o11 #0 s0 buy 5@100 leaves 0 m1"""),
    ("the order's mode instead of the account's", ASKS + "; p1 c10 ACCOUNT o1 SELF_TRADE 2", "p1 c20 NEW buy 4@100 stp=none", """
        p1 ACCEPTED c20 o20 #0 s0 buy 4@100 leaves 4
        p1 FILL c0 o1 #1 s0 sell 4@100 leaves 0 MAKER m1
        p1 FILL c20 o20 #0 s0 buy 4@100 leaves 0 m1"""),
    ("the incoming order's mode counts", "p1 c10 NEW sell 4@100 stp=newest", "p1 c20 NEW buy 4@100 stp=oldest", """
        p1 ACCEPTED c20 o20 #0 s0 buy 4@100 leaves 4
        p1 CANCELLED c0 o10 #1 s0 sell 4@100 leaves 0 SELF_TRADE RESTING
        p1 RESTED c20 o20 #2 s0 buy 4@100 leaves 4"""),
    ("orders of others are not cancelled", ASKS + "; p3 c1 ACCOUNT o3 SELF_TRADE 1", "p3 c2 NEW buy 4@100", """
        p3 ACCEPTED c2 o2 #0 s0 buy 4@100 leaves 4
        p1 FILL c0 o1 #1 s0 sell 4@100 leaves 0 MAKER m1
        p3 FILL c2 o2 #0 s0 buy 4@100 leaves 0 m1"""),
    ("a replacing order prevents it with its original mode", ASKS + "; p1 c10 NEW buy 4@99 stp=oldest", "p1 c11 REPLACE o10 4@100", """
        p1 REPLACED c11 o10 #4 s0 buy 4@99 leaves 4
        p1 CANCELLED c0 o1 #1 s0 sell 4@100 leaves 0 SELF_TRADE RESTING
        p2 FILL c0 o1 #2 s0 sell 4@100 leaves 2 MAKER m1
        p1 FILL c11 o10 #0 s0 buy 4@100 leaves 0 m1"""),
    ("FOK: own orders are skipped with oldest", ASKS, "p1 c10 NEW buy 7@100 fok stp=oldest; p1 c20 NEW buy 6@100 fok stp=oldest", """
        p1 ACCEPTED c10 o10 #0 s0 buy 7@100 leaves 7
        p1 CANCELLED c10 o10 #0 s0 buy 7@100 leaves 0 FOK_UNFILLABLE
        p1 ACCEPTED c20 o20 #0 s0 buy 6@100 leaves 6
        p1 CANCELLED c0 o1 #1 s0 sell 4@100 leaves 0 SELF_TRADE RESTING
        p2 FILL c0 o1 #2 s0 sell 6@100 leaves 0 MAKER m1
        p1 FILL c20 o20 #0 s0 buy 6@100 leaves 0 m1"""),
    ("FOK: the count ends at the first own order with newest", ASKS, "p2 c10 NEW buy 5@101 fok stp=newest; p2 c20 NEW buy 4@101 fok stp=newest", """
        p2 ACCEPTED c10 o10 #0 s0 buy 5@101 leaves 5
        p2 CANCELLED c10 o10 #0 s0 buy 5@101 leaves 0 FOK_UNFILLABLE
        p2 ACCEPTED c20 o20 #0 s0 buy 4@101 leaves 4
        p1 FILL c0 o1 #1 s0 sell 4@100 leaves 0 MAKER m1
        p2 FILL c20 o20 #0 s0 buy 4@100 leaves 0 m1"""),
    ("post-only would trade with an order of its own", ASKS, "p1 c10 NEW buy 5@100 post stp=oldest",
        "p1 REJECTED c10 o10 #0 s0 buy 5@100 leaves 0 WOULD_CROSS"),
    ("a conditional order prevents self-trades too", "p1 c10 NEW buy 5@100 min=5 stp=newest; p1 c11 NEW sell 4@100", "p2 c1 NEW sell 1@100; p2 c2 NEW sell 5@100", """
        p2 ACCEPTED c1 o1 #3 s0 sell 1@100 leaves 1 RESTING
        p2 ACCEPTED c2 o2 #0 s0 sell 5@100 leaves 5
        p1 FILL c0 o10 #1 s0 buy 5@100 leaves 0 MAKER HIDDEN m1
        p2 FILL c2 o2 #0 s0 sell 5@100 leaves 0 m1"""),
    ("self-trade prevention is off in auctions", "p9 c1 PHASE OPENING; p1 c1 ACCOUNT o1 SELF_TRADE 1; p1 c2 NEW buy 4@101; p1 c3 NEW sell 4@100", "p9 c2 UNCROSS", """
        p1 FILL c0 o3 #2 s0 sell 4@100 leaves 0 MAKER AUCTION m1
        p1 FILL c0 o2 #1 s0 buy 4@100 leaves 0 AUCTION m1
        p9 PHASED c2 o0 #0 s0 buy 4@100 leaves 0 OPENING"""),
]  # fmt: skip


@cases(LINKS, REDUCE_ONLY, SELF_TRADE)
def test_events(market: AnyMarket, before: str, text: str, expected: str) -> None:
    assert_case(market, before, text, expected)
