"""Stops, trailing stops, pegs and orders that expire, case by case."""

from tests.exchange.tables import AnyMarket, Case, assert_case, cases

TOUCH = "p1 c1 NEW sell 9@101; p1 c2 NEW buy 9@99; p2 c1 NEW buy 1@101"
"""Last trade at 101; p1 asks for 8 at 101 and bids for 9 at 99."""
QUOTES = "p1 c1 NEW buy 5@98; p1 c2 NEW sell 5@102"

STOPS: list[Case] = [
    ("waits in its queue", TOUCH, "p3 c10 NEW buy 2@105 stop=103",
        "p3 ACCEPTED c10 o10 #3 s0 buy 2@105 leaves 2 RESTING HIDDEN"),
    ("due at once by the last trade: at or below it for a sell", TOUCH, "p3 c10 NEW sell 2@98 stop=101", """
        p3 ACCEPTED c10 o10 #3 s0 sell 2@98 leaves 2 RESTING HIDDEN
        p3 TRIGGERED c0 o10 #3 s0 sell 2@98 leaves 2 HIDDEN
        p1 FILL c0 o2 #2 s0 buy 2@99 leaves 7 MAKER m2
        p3 FILL c0 o10 #0 s0 sell 2@99 leaves 0 m2"""),
    ("before the first trade no stop is triggered", "p1 c1 NEW sell 9@101", "p3 c10 NEW sell 2@98 stop=101",
        "p3 ACCEPTED c10 o10 #2 s0 sell 2@98 leaves 2 RESTING HIDDEN"),
    ("a stop-limit order that does not trade rests when it is triggered", TOUCH + "; p3 c10 NEW buy 2@100 stop=102; p1 c3 NEW sell 1@102", "p2 c2 NEW buy 9@102", """
        p2 ACCEPTED c2 o2 #0 s0 buy 9@102 leaves 9
        p1 FILL c0 o1 #1 s0 sell 8@101 leaves 0 MAKER m2
        p2 FILL c2 o2 #0 s0 buy 8@101 leaves 1 m2
        p1 FILL c0 o3 #4 s0 sell 1@102 leaves 0 MAKER m3
        p2 FILL c2 o2 #0 s0 buy 1@102 leaves 0 m3
        p3 TRIGGERED c0 o10 #3 s0 buy 2@100 leaves 2 HIDDEN
        p3 RESTED c0 o10 #5 s0 buy 2@100 leaves 2"""),
    ("a stop market order", TOUCH + "; p3 c10 NEW sell 12@0 market stop=99", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #3 s0 sell 12@0 leaves 12 HIDDEN
        p1 FILL c0 o2 #2 s0 buy 8@99 leaves 0 MAKER m3
        p3 FILL c0 o10 #0 s0 sell 8@99 leaves 4 m3
        p3 CANCELLED c0 o10 #0 s0 sell 4@0 leaves 0 MARKET_REMAINDER"""),
    ("one tick short of the stop price", TOUCH + "; p3 c10 NEW buy 2@0 market stop=102", "p2 c2 NEW buy 1@101", """
        p2 ACCEPTED c2 o2 #0 s0 buy 1@101 leaves 1
        p1 FILL c0 o1 #1 s0 sell 1@101 leaves 7 MAKER m2
        p2 FILL c2 o2 #0 s0 buy 1@101 leaves 0 m2"""),
    ("stop IOC", TOUCH + "; p3 c10 NEW sell 12@99 ioc stop=99", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #3 s0 sell 12@99 leaves 12 HIDDEN
        p1 FILL c0 o2 #2 s0 buy 8@99 leaves 0 MAKER m3
        p3 FILL c0 o10 #0 s0 sell 8@99 leaves 4 m3
        p3 CANCELLED c0 o10 #0 s0 sell 4@99 leaves 0 IOC_REMAINDER"""),
    ("stop FOK that cannot be filled", TOUCH + "; p3 c10 NEW sell 12@99 fok stop=99", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #3 s0 sell 12@99 leaves 12 HIDDEN
        p3 CANCELLED c0 o10 #0 s0 sell 12@99 leaves 0 FOK_UNFILLABLE"""),
    ("a stop of a hidden order", TOUCH + "; p3 c10 NEW sell 2@100 hidden stop=99", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #3 s0 sell 2@100 leaves 2 HIDDEN
        p3 RESTED c0 o10 #4 s0 sell 2@100 leaves 2 HIDDEN"""),
    ("a stop of an iceberg is split when it rests", TOUCH, "p3 c10 NEW sell 8@100 display=3 stop=99; p2 c2 NEW sell 1@99", """
        p3 ACCEPTED c10 o10 #3 s0 sell 8@100 leaves 8 RESTING HIDDEN
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #3 s0 sell 8@100 leaves 8 HIDDEN
        p3 RESTED c0 o10 #4 s0 sell 3@100 leaves 8"""),
    ("by stop price, then time: the highest sell first", TOUCH + "; p3 c10 NEW sell 1@97 stop=98; p3 c20 NEW sell 1@97 stop=99; p4 c10 NEW sell 1@97 stop=99", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o20 #4 s0 sell 1@97 leaves 1 HIDDEN
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 7 MAKER m3
        p3 FILL c0 o20 #0 s0 sell 1@99 leaves 0 m3
        p4 TRIGGERED c0 o10 #5 s0 sell 1@97 leaves 1 HIDDEN
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 6 MAKER m4
        p4 FILL c0 o10 #0 s0 sell 1@99 leaves 0 m4"""),
    ("the lowest buy first", TOUCH + "; p3 c10 NEW buy 1@105 stop=104; p3 c20 NEW buy 1@105 stop=103; p1 c3 NEW sell 1@104", "p2 c2 NEW buy 9@104", """
        p2 ACCEPTED c2 o2 #0 s0 buy 9@104 leaves 9
        p1 FILL c0 o1 #1 s0 sell 8@101 leaves 0 MAKER m2
        p2 FILL c2 o2 #0 s0 buy 8@101 leaves 1 m2
        p1 FILL c0 o3 #5 s0 sell 1@104 leaves 0 MAKER m3
        p2 FILL c2 o2 #0 s0 buy 1@104 leaves 0 m3
        p3 TRIGGERED c0 o20 #4 s0 buy 1@105 leaves 1 HIDDEN
        p3 RESTED c0 o20 #6 s0 buy 1@105 leaves 1
        p3 TRIGGERED c0 o10 #3 s0 buy 1@105 leaves 1 HIDDEN
        p3 RESTED c0 o10 #7 s0 buy 1@105 leaves 1"""),
    ("a cascade: each trade triggers the next", "p1 c1 NEW buy 1@99; p1 c2 NEW buy 1@98; p1 c3 NEW buy 1@97; p3 c10 NEW sell 1@0 market stop=99; p4 c10 NEW sell 1@0 market stop=98", "p2 c1 NEW sell 1@99", """
        p2 ACCEPTED c1 o1 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o1 #1 s0 buy 1@99 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 1@99 leaves 0 m1
        p3 TRIGGERED c0 o10 #4 s0 sell 1@0 leaves 1 HIDDEN
        p1 FILL c0 o2 #2 s0 buy 1@98 leaves 0 MAKER m2
        p3 FILL c0 o10 #0 s0 sell 1@98 leaves 0 m2
        p4 TRIGGERED c0 o10 #5 s0 sell 1@0 leaves 1 HIDDEN
        p1 FILL c0 o3 #3 s0 buy 1@97 leaves 0 MAKER m3
        p4 FILL c0 o10 #0 s0 sell 1@97 leaves 0 m3"""),
    ("cancelled and reduced while it waits; not replaceable", TOUCH, "p3 c10 NEW buy 5@105 stop=103; p3 c11 REDUCE o10 2@0; p3 c12 REPLACE o10 9@105; p3 c13 CANCEL o10", """
        p3 ACCEPTED c10 o10 #3 s0 buy 5@105 leaves 5 RESTING HIDDEN
        p3 REDUCED c11 o10 #3 s0 buy 2@105 leaves 3 HIDDEN
        p3 REJECTED c12 o10 #0 s0 buy 9@105 leaves 0 NOT_REPLACEABLE
        p3 CANCELLED c13 o10 #3 s0 buy 3@105 leaves 0 REQUESTED RESTING HIDDEN"""),
    ("trades of an auction count, which is not held while halted", TOUCH + "; p3 c10 NEW sell 2@0 market stop=100; p9 c1 PHASE OPENING; p1 c3 NEW sell 3@99; p9 c2 HALT", "p9 c3 PHASE; p9 c4 RESUME; p9 c5 PHASE", """
        p9 REJECTED c3 o0 #0 s0 buy 0@0 leaves 0 HALTED
        p9 RESUMED c4 o0 #0 s0 buy 0@0 leaves 0
        p1 FILL c0 o3 #4 s0 sell 3@99 leaves 0 MAKER AUCTION m2
        p1 FILL c0 o2 #2 s0 buy 3@99 leaves 6 AUCTION m2
        p9 PHASED c5 o0 #0 s0 buy 3@99 leaves 0 CONTINUOUS
        p3 TRIGGERED c0 o10 #3 s0 sell 2@0 leaves 2 HIDDEN
        p1 FILL c0 o2 #2 s0 buy 2@99 leaves 4 MAKER m3
        p3 FILL c0 o10 #0 s0 sell 2@99 leaves 0 m3"""),
]  # fmt: skip

TRAILING: list[Case] = [
    ("begins at its distance from the last trade", TOUCH, "p3 c10 NEW sell 1@0 market trail=3; p1 c3 NEW buy 1@98; p2 c2 NEW sell 10@98", """
        p3 ACCEPTED c10 o10 #3 s0 sell 1@0 leaves 1 RESTING HIDDEN
        p1 ACCEPTED c3 o3 #4 s0 buy 1@98 leaves 1 RESTING
        p2 ACCEPTED c2 o2 #0 s0 sell 10@98 leaves 10
        p1 FILL c0 o2 #2 s0 buy 9@99 leaves 0 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 9@99 leaves 1 m2
        p1 FILL c0 o3 #4 s0 buy 1@98 leaves 0 MAKER m3
        p2 FILL c2 o2 #0 s0 sell 1@98 leaves 0 m3
        p3 TRIGGERED c0 o10 #3 s0 sell 1@0 leaves 1 HIDDEN
        p3 CANCELLED c0 o10 #0 s0 sell 1@0 leaves 0 MARKET_REMAINDER"""),
    ("follows the last trade up, not down", TOUCH + "; p3 c10 NEW sell 1@0 market trail=3; p1 c3 NEW sell 1@105; p2 c2 NEW buy 8@101; p2 c9 NEW buy 1@105; p1 c4 NEW buy 1@103; p1 c5 NEW buy 1@102", "p2 c10 NEW sell 1@103; p2 c11 NEW sell 1@102", """
        p2 ACCEPTED c10 o10 #0 s0 sell 1@103 leaves 1
        p1 FILL c0 o4 #6 s0 buy 1@103 leaves 0 MAKER m4
        p2 FILL c10 o10 #0 s0 sell 1@103 leaves 0 m4
        p2 ACCEPTED c11 o11 #0 s0 sell 1@102 leaves 1
        p1 FILL c0 o5 #7 s0 buy 1@102 leaves 0 MAKER m5
        p2 FILL c11 o11 #0 s0 sell 1@102 leaves 0 m5
        p3 TRIGGERED c0 o10 #5 s0 sell 1@0 leaves 1 HIDDEN
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m6
        p3 FILL c0 o10 #0 s0 sell 1@99 leaves 0 m6"""),
    ("STOP_TICKS is where it begins", TOUCH,
        "p3 c20 NEW buy 1@0 market stop=104 trail=5; p1 c3 NEW sell 1@103; p1 c4 NEW sell 1@104; "
        "p2 c2 NEW buy 9@103; p2 c3 NEW buy 1@104", """
        p3 ACCEPTED c20 o20 #3 s0 buy 1@0 leaves 1 RESTING HIDDEN
        p1 ACCEPTED c3 o3 #4 s0 sell 1@103 leaves 1 RESTING
        p1 ACCEPTED c4 o4 #5 s0 sell 1@104 leaves 1 RESTING
        p2 ACCEPTED c2 o2 #0 s0 buy 9@103 leaves 9
        p1 FILL c0 o1 #1 s0 sell 8@101 leaves 0 MAKER m2
        p2 FILL c2 o2 #0 s0 buy 8@101 leaves 1 m2
        p1 FILL c0 o3 #4 s0 sell 1@103 leaves 0 MAKER m3
        p2 FILL c2 o2 #0 s0 buy 1@103 leaves 0 m3
        p2 ACCEPTED c3 o3 #0 s0 buy 1@104 leaves 1
        p1 FILL c0 o4 #5 s0 sell 1@104 leaves 0 MAKER m4
        p2 FILL c3 o3 #0 s0 buy 1@104 leaves 0 m4
        p3 TRIGGERED c0 o20 #3 s0 buy 1@0 leaves 1 HIDDEN
        p3 CANCELLED c0 o20 #0 s0 buy 1@0 leaves 0 MARKET_REMAINDER"""),
    ("without a stop price and without a trade", "p1 c1 NEW buy 1@99", "p3 c10 NEW buy 1@0 market trail=5; p3 c20 NEW buy 1@0 market stop=120 trail=5", """
        p3 REJECTED c10 o10 #0 s0 buy 1@0 leaves 0 BAD_TERMS
        p3 ACCEPTED c20 o20 #2 s0 buy 1@0 leaves 1 RESTING HIDDEN"""),
    ("a buy follows the last trade down", TOUCH + "; p3 c10 NEW buy 1@0 market trail=3; p2 c2 NEW sell 1@99", "p1 c3 NEW sell 1@102; p1 c4 NEW sell 1@110; p2 c3 NEW buy 10@102", """
        p1 ACCEPTED c3 o3 #5 s0 sell 1@102 leaves 1 RESTING
        p1 ACCEPTED c4 o4 #6 s0 sell 1@110 leaves 1 RESTING
        p2 ACCEPTED c3 o3 #0 s0 buy 10@102 leaves 10
        p1 FILL c0 o1 #1 s0 sell 8@101 leaves 0 MAKER m3
        p2 FILL c3 o3 #0 s0 buy 8@101 leaves 2 m3
        p1 FILL c0 o3 #5 s0 sell 1@102 leaves 0 MAKER m4
        p2 FILL c3 o3 #0 s0 buy 1@102 leaves 1 m4
        p2 RESTED c3 o3 #7 s0 buy 1@102 leaves 1
        p3 TRIGGERED c0 o10 #4 s0 buy 1@0 leaves 1 HIDDEN
        p1 FILL c0 o4 #6 s0 sell 1@110 leaves 0 MAKER m5
        p3 FILL c0 o10 #0 s0 buy 1@110 leaves 0 m5"""),
]  # fmt: skip

PEGS: list[Case] = [
    ("primary, out of sight at the best bid", QUOTES, "p3 c10 NEW buy 4@0 peg=primary; p2 c1 NEW sell 7@98", """
        p3 ACCEPTED c10 o10 #3 s0 buy 4@0 leaves 4 RESTING HIDDEN
        p2 ACCEPTED c1 o1 #0 s0 sell 7@98 leaves 7
        p1 FILL c0 o1 #1 s0 buy 5@98 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 5@98 leaves 2 m1
        p3 FILL c0 o10 #3 s0 buy 2@98 leaves 2 MAKER HIDDEN m2
        p2 FILL c1 o1 #0 s0 sell 2@98 leaves 0 m2"""),
    ("primary to sell, with an offset", QUOTES, "p3 c20 NEW sell 4@0 peg=primary offset=2; p2 c1 NEW buy 9@104", """
        p3 ACCEPTED c20 o20 #3 s0 sell 4@0 leaves 4 RESTING HIDDEN
        p2 ACCEPTED c1 o1 #0 s0 buy 9@104 leaves 9
        p1 FILL c0 o2 #2 s0 sell 5@102 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 5@102 leaves 4 m1
        p3 FILL c0 o20 #3 s0 sell 4@104 leaves 0 MAKER HIDDEN m2
        p2 FILL c1 o1 #0 s0 buy 4@104 leaves 0 m2"""),
    ("follows a better price, and a worse one, without events", QUOTES + "; p3 c10 NEW buy 4@0 peg=primary", "p1 c3 NEW buy 1@99; p1 c4 CANCEL o1; p1 c5 CANCEL o3; p1 c6 NEW buy 1@97; p2 c1 NEW sell 5@97", """
        p1 ACCEPTED c3 o3 #4 s0 buy 1@99 leaves 1 RESTING
        p1 CANCELLED c4 o1 #1 s0 buy 5@98 leaves 0 REQUESTED RESTING
        p1 CANCELLED c5 o3 #4 s0 buy 1@99 leaves 0 REQUESTED RESTING
        p1 ACCEPTED c6 o6 #7 s0 buy 1@97 leaves 1 RESTING
        p2 ACCEPTED c1 o1 #0 s0 sell 5@97 leaves 5
        p1 FILL c0 o6 #7 s0 buy 1@97 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 1@97 leaves 4 m1
        p3 FILL c0 o10 #8 s0 buy 4@97 leaves 0 MAKER HIDDEN m2
        p2 FILL c1 o1 #0 s0 sell 4@97 leaves 0 m2"""),
    ("not beyond its limit", QUOTES + "; p3 c10 NEW buy 4@99 peg=primary", "p1 c3 NEW buy 1@100; p2 c1 NEW sell 9@99 ioc", """
        p1 ACCEPTED c3 o3 #4 s0 buy 1@100 leaves 1 RESTING
        p2 ACCEPTED c1 o1 #0 s0 sell 9@99 leaves 9
        p1 FILL c0 o3 #4 s0 buy 1@100 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 1@100 leaves 8 m1
        p3 FILL c0 o10 #5 s0 buy 4@99 leaves 0 MAKER HIDDEN m2
        p2 FILL c1 o1 #0 s0 sell 4@99 leaves 4 m2
        p2 CANCELLED c1 o1 #0 s0 sell 4@99 leaves 0 IOC_REMAINDER"""),
    ("mid, rounded down for a buy and up for a sell", "p1 c1 NEW buy 5@98; p1 c2 NEW sell 5@101", "p3 c10 NEW buy 4@0 peg=mid; p4 c10 NEW sell 4@0 peg=mid; p2 c1 NEW sell 1@99; p2 c2 NEW buy 1@100", """
        p3 ACCEPTED c10 o10 #3 s0 buy 4@0 leaves 4 RESTING HIDDEN
        p4 ACCEPTED c10 o10 #4 s0 sell 4@0 leaves 4 RESTING HIDDEN
        p2 ACCEPTED c1 o1 #0 s0 sell 1@99 leaves 1
        p3 FILL c0 o10 #3 s0 buy 1@99 leaves 3 MAKER HIDDEN m1
        p2 FILL c1 o1 #0 s0 sell 1@99 leaves 0 m1
        p2 ACCEPTED c2 o2 #0 s0 buy 1@100 leaves 1
        p4 FILL c0 o10 #4 s0 sell 1@100 leaves 3 MAKER HIDDEN m2
        p2 FILL c2 o2 #0 s0 buy 1@100 leaves 0 m2"""),
    ("two mid pegs meet where the middle is a price", QUOTES, "p3 c10 NEW buy 4@0 peg=mid; p4 c10 NEW sell 6@0 peg=mid", """
        p3 ACCEPTED c10 o10 #3 s0 buy 4@0 leaves 4 RESTING HIDDEN
        p4 ACCEPTED c10 o10 #0 s0 sell 6@0 leaves 6
        p3 FILL c0 o10 #3 s0 buy 4@100 leaves 0 MAKER HIDDEN m1
        p4 FILL c10 o10 #0 s0 sell 4@100 leaves 2 m1
        p4 RESTED c10 o10 #4 s0 sell 2@0 leaves 2 HIDDEN"""),
    ("mid pegs meet when the book moves", "p1 c1 NEW buy 5@98; p1 c2 NEW sell 5@101; p3 c10 NEW buy 4@0 peg=mid; p4 c10 NEW sell 6@0 peg=mid", "p1 c3 NEW buy 1@99", """
        p1 ACCEPTED c3 o3 #5 s0 buy 1@99 leaves 1 RESTING
        p4 FILL c0 o10 #4 s0 sell 4@100 leaves 2 MAKER HIDDEN m1
        p3 FILL c0 o10 #0 s0 buy 4@100 leaves 0 m1"""),
    ("waits where there is no price, comes when there is one", "", "p3 c10 NEW buy 4@0 peg=primary; p1 c1 NEW buy 1@98; p2 c1 NEW sell 3@98", """
        p3 ACCEPTED c10 o10 #1 s0 buy 4@0 leaves 4 RESTING HIDDEN
        p1 ACCEPTED c1 o1 #2 s0 buy 1@98 leaves 1 RESTING
        p2 ACCEPTED c1 o1 #0 s0 sell 3@98 leaves 3
        p1 FILL c0 o1 #2 s0 buy 1@98 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 1@98 leaves 2 m1
        p3 FILL c0 o10 #3 s0 buy 2@98 leaves 2 MAKER HIDDEN m2
        p2 FILL c1 o1 #0 s0 sell 2@98 leaves 0 m2"""),
    ("waits again when the price goes", QUOTES + "; p3 c10 NEW buy 4@0 peg=primary", "p1 c3 CANCEL o1; p2 c1 NEW sell 1@1 ioc; p1 c4 NEW buy 1@97; p2 c2 NEW sell 2@97 ioc", """
        p1 CANCELLED c3 o1 #1 s0 buy 5@98 leaves 0 REQUESTED RESTING
        p2 ACCEPTED c1 o1 #0 s0 sell 1@1 leaves 1
        p2 CANCELLED c1 o1 #0 s0 sell 1@1 leaves 0 IOC_REMAINDER
        p1 ACCEPTED c4 o4 #5 s0 buy 1@97 leaves 1 RESTING
        p2 ACCEPTED c2 o2 #0 s0 sell 2@97 leaves 2
        p1 FILL c0 o4 #5 s0 buy 1@97 leaves 0 MAKER m1
        p2 FILL c2 o2 #0 s0 sell 1@97 leaves 1 m1
        p3 FILL c0 o10 #6 s0 buy 1@97 leaves 3 MAKER HIDDEN m2
        p2 FILL c2 o2 #0 s0 sell 1@97 leaves 0 m2"""),
    ("a moved peg queues after the others at its new price", QUOTES + "; p3 c10 NEW buy 1@0 peg=primary; p4 c1 NEW buy 1@99 hidden", "p1 c3 NEW buy 1@99; p2 c1 NEW sell 3@99", """
        p1 ACCEPTED c3 o3 #5 s0 buy 1@99 leaves 1 RESTING
        p2 ACCEPTED c1 o1 #0 s0 sell 3@99 leaves 3
        p1 FILL c0 o3 #5 s0 buy 1@99 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 1@99 leaves 2 m1
        p4 FILL c0 o1 #4 s0 buy 1@99 leaves 0 MAKER HIDDEN m2
        p2 FILL c1 o1 #0 s0 sell 1@99 leaves 1 m2
        p3 FILL c0 o10 #6 s0 buy 1@99 leaves 0 MAKER HIDDEN m3
        p2 FILL c1 o1 #0 s0 sell 1@99 leaves 0 m3"""),
    ("cancelled, reduced; not replaceable", QUOTES,
        "p3 c10 NEW buy 4@100 peg=primary; p3 c11 REDUCE o10 1@0; p3 c12 REPLACE o10 9@100; p3 c13 CANCEL o10", """
        p3 ACCEPTED c10 o10 #3 s0 buy 4@100 leaves 4 RESTING HIDDEN
        p3 REDUCED c11 o10 #3 s0 buy 1@100 leaves 3 HIDDEN
        p3 REJECTED c12 o10 #0 s0 buy 9@100 leaves 0 NOT_REPLACEABLE
        p3 CANCELLED c13 o10 #3 s0 buy 3@100 leaves 0 REQUESTED RESTING HIDDEN"""),
]  # fmt: skip

EXPIRING: list[Case] = [
    ("expires by the time of any command, also of another's", "", "p1 c10 NEW buy 5@100 gtt until=1050; p2 c1 NEW buy 1@90 t1049; p2 c2 NEW buy 1@91 t1050", """
        p1 ACCEPTED c10 o10 #1 s0 buy 5@100 leaves 5 RESTING
        p2 ACCEPTED c1 o1 #2 s0 buy 1@90 leaves 1 RESTING
        p1 CANCELLED c0 o10 #1 s0 buy 5@100 leaves 0 EXPIRED RESTING
        p2 ACCEPTED c2 o2 #3 s0 buy 1@91 leaves 1 RESTING"""),
    ("does not trade any more with the command of its last moment", "p1 c10 NEW buy 5@100 gtt until=1050", "p2 c1 NEW sell 5@100 t1050", """
        p1 CANCELLED c0 o10 #1 s0 buy 5@100 leaves 0 EXPIRED RESTING
        p2 ACCEPTED c1 o1 #2 s0 sell 5@100 leaves 5 RESTING"""),
    ("by time, then order_number", "",
        "p1 c10 NEW buy 5@100 gtt until=1100; p1 c20 NEW buy 5@101 gtt until=1090; "
        "p1 c30 NEW sell 5@110 gtt until=1100; p9 c1 TIME t1100", """
        p1 ACCEPTED c10 o10 #1 s0 buy 5@100 leaves 5 RESTING
        p1 ACCEPTED c20 o20 #2 s0 buy 5@101 leaves 5 RESTING
        p1 ACCEPTED c30 o30 #3 s0 sell 5@110 leaves 5 RESTING
        p1 CANCELLED c0 o20 #2 s0 buy 5@101 leaves 0 EXPIRED RESTING
        p1 CANCELLED c0 o10 #1 s0 buy 5@100 leaves 0 EXPIRED RESTING
        p1 CANCELLED c0 o30 #3 s0 sell 5@110 leaves 0 EXPIRED RESTING"""),
    ("until must be a time, also before time 0", "", "p1 c10 NEW buy 5@100 gtt until=0 t-9; p1 c20 NEW buy 5@100 gtt until=-1 t-9; p1 c30 NEW buy 5@100 gtt until=1 t-9; p1 c31 CANCEL o30 t1", """
        p1 REJECTED c10 o10 #0 s0 buy 5@100 leaves 0 BAD_TERMS
        p1 REJECTED c20 o20 #0 s0 buy 5@100 leaves 0 BAD_TERMS
        p1 ACCEPTED c30 o30 #1 s0 buy 5@100 leaves 5 RESTING
        p1 CANCELLED c0 o30 #1 s0 buy 5@100 leaves 0 EXPIRED RESTING
        p1 REJECTED c31 o30 #0 s0 buy 0@0 leaves 0 UNKNOWN_ORDER"""),
    ("until must be later than the command", "", "p1 c10 NEW buy 5@100 gtt until=1000; p1 c20 NEW buy 5@100 gtt until=1011", """
        p1 REJECTED c10 o10 #0 s0 buy 5@100 leaves 0 BAD_TERMS
        p1 ACCEPTED c20 o20 #1 s0 buy 5@100 leaves 5 RESTING"""),
    ("a GTT market order is a market order", "p1 c1 NEW sell 1@100", "p2 c10 NEW buy 3@0 market gtt until=5000", """
        p2 ACCEPTED c10 o10 #0 s0 buy 3@0 leaves 3
        p1 FILL c0 o1 #1 s0 sell 1@100 leaves 0 MAKER m1
        p2 FILL c10 o10 #0 s0 buy 1@100 leaves 2 m1
        p2 CANCELLED c10 o10 #0 s0 buy 2@0 leaves 0 MARKET_REMAINDER"""),
    ("a stop with a time", "", "p1 c20 NEW buy 5@100 stop=90 gtt until=1100; p9 c1 TIME t1100", """
        p1 ACCEPTED c20 o20 #1 s0 buy 5@100 leaves 5 RESTING HIDDEN
        p1 CANCELLED c0 o20 #1 s0 buy 5@100 leaves 0 EXPIRED RESTING HIDDEN"""),
    ("what follows settles before the command", "p1 c10 NEW buy 5@100 gtt until=1100; p1 c11 NEW buy 1@99; p2 c10 NEW buy 3@0 peg=primary", "p3 c1 NEW sell 4@99 t1100", """
        p1 CANCELLED c0 o10 #1 s0 buy 5@100 leaves 0 EXPIRED RESTING
        p3 ACCEPTED c1 o1 #0 s0 sell 4@99 leaves 4
        p1 FILL c0 o11 #2 s0 buy 1@99 leaves 0 MAKER m1
        p3 FILL c1 o1 #0 s0 sell 1@99 leaves 3 m1
        p2 FILL c0 o10 #4 s0 buy 3@99 leaves 0 MAKER HIDDEN m2
        p3 FILL c1 o1 #0 s0 sell 3@99 leaves 0 m2"""),
    ("END_DAY leaves GTT", "p1 c10 NEW buy 5@100 gtt until=5000; p1 c11 NEW buy 1@99", "p9 c1 END_DAY", """
        p1 CANCELLED c0 o11 #2 s0 buy 1@99 leaves 0 DAY_END RESTING
        p9 DAY_ENDED c1 o0 #0 s0 buy 1@0 leaves 0"""),
]  # fmt: skip


@cases(STOPS, TRAILING, PEGS, EXPIRING)
def test_events(market: AnyMarket, before: str, text: str, expected: str) -> None:
    assert_case(market, before, text, expected)
