"""If-touched orders and post-only stops, case by case."""

from tests.exchange.tables import AnyMarket, Case, assert_case, cases

TRADED = "p1 c1 NEW sell 9@101; p1 c2 NEW buy 9@99; p2 c1 NEW buy 1@101"
"""Last trade at 101; p1 asks for 8 at 101 and bids for 9 at 99."""

TOUCHED: list[Case] = [
    ("waits in its queue", TRADED, "p3 c10 NEW buy 2@105 touch=99",
        "p3 ACCEPTED c10 o10 #3 s0 buy 2@105 leaves 2 RESTING HIDDEN"),
    ("a sell waits above", TRADED, "p3 c10 NEW sell 2@90 touch=102",
        "p3 ACCEPTED c10 o10 #3 s0 sell 2@90 leaves 2 RESTING HIDDEN"),
    ("due at once by the last trade: at or above it for a sell", TRADED, "p3 c10 NEW sell 2@98 touch=101", """
        p3 ACCEPTED c10 o10 #3 s0 sell 2@98 leaves 2 RESTING HIDDEN
        p3 TRIGGERED c0 o10 #3 s0 sell 2@98 leaves 2 HIDDEN
        p1 FILL c0 o2 #2 s0 buy 2@99 leaves 7 MAKER m2
        p3 FILL c0 o10 #0 s0 sell 2@99 leaves 0 m2"""),
    ("and at or below it for a buy", TRADED, "p3 c10 NEW buy 2@101 touch=101", """
        p3 ACCEPTED c10 o10 #3 s0 buy 2@101 leaves 2 RESTING HIDDEN
        p3 TRIGGERED c0 o10 #3 s0 buy 2@101 leaves 2 HIDDEN
        p1 FILL c0 o1 #1 s0 sell 2@101 leaves 6 MAKER m2
        p3 FILL c0 o10 #0 s0 buy 2@101 leaves 0 m2"""),
    ("before the first trade none is triggered", "p1 c1 NEW sell 9@101", "p3 c10 NEW buy 2@101 touch=101",
        "p3 ACCEPTED c10 o10 #2 s0 buy 2@101 leaves 2 RESTING HIDDEN"),
    ("market if touched: a buy by a trade below", TRADED + "; p3 c10 NEW buy 2@0 market touch=99", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #3 s0 buy 2@0 leaves 2 HIDDEN
        p1 FILL c0 o1 #1 s0 sell 2@101 leaves 6 MAKER m3
        p3 FILL c0 o10 #0 s0 buy 2@101 leaves 0 m3"""),
    ("market if touched: a sell by a trade above", TRADED + "; p1 c3 NEW sell 1@103; p3 c10 NEW sell 12@0 market touch=103", "p2 c2 NEW buy 9@103", """
        p2 ACCEPTED c2 o2 #0 s0 buy 9@103 leaves 9
        p1 FILL c0 o1 #1 s0 sell 8@101 leaves 0 MAKER m2
        p2 FILL c2 o2 #0 s0 buy 8@101 leaves 1 m2
        p1 FILL c0 o3 #3 s0 sell 1@103 leaves 0 MAKER m3
        p2 FILL c2 o2 #0 s0 buy 1@103 leaves 0 m3
        p3 TRIGGERED c0 o10 #4 s0 sell 12@0 leaves 12 HIDDEN
        p1 FILL c0 o2 #2 s0 buy 9@99 leaves 0 MAKER m4
        p3 FILL c0 o10 #0 s0 sell 9@99 leaves 3 m4
        p3 CANCELLED c0 o10 #0 s0 sell 3@0 leaves 0 MARKET_REMAINDER"""),
    ("one tick short", TRADED + "; p3 c10 NEW buy 2@0 market touch=98", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2"""),
    ("limit if touched rests when it does not trade", TRADED + "; p3 c10 NEW buy 2@97 touch=99", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #3 s0 buy 2@97 leaves 2 HIDDEN
        p3 RESTED c0 o10 #4 s0 buy 2@97 leaves 2"""),
    ("rising prices trigger from the lowest, stops and touched orders in one order, the oldest first", TRADED + "; p1 c3 NEW sell 5@103; p3 c10 NEW sell 1@110 touch=103; p4 c10 NEW buy 1@90 stop=102; p5 c10 NEW sell 1@111 touch=102; p6 c10 NEW buy 1@91 stop=102", "p2 c2 NEW buy 9@103", """
        p2 ACCEPTED c2 o2 #0 s0 buy 9@103 leaves 9
        p1 FILL c0 o1 #1 s0 sell 8@101 leaves 0 MAKER m2
        p2 FILL c2 o2 #0 s0 buy 8@101 leaves 1 m2
        p1 FILL c0 o3 #3 s0 sell 1@103 leaves 4 MAKER m3
        p2 FILL c2 o2 #0 s0 buy 1@103 leaves 0 m3
        p4 TRIGGERED c0 o10 #5 s0 buy 1@90 leaves 1 HIDDEN
        p4 RESTED c0 o10 #8 s0 buy 1@90 leaves 1
        p5 TRIGGERED c0 o10 #6 s0 sell 1@111 leaves 1 HIDDEN
        p5 RESTED c0 o10 #9 s0 sell 1@111 leaves 1
        p6 TRIGGERED c0 o10 #7 s0 buy 1@91 leaves 1 HIDDEN
        p6 RESTED c0 o10 #10 s0 buy 1@91 leaves 1
        p3 TRIGGERED c0 o10 #4 s0 sell 1@110 leaves 1 HIDDEN
        p3 RESTED c0 o10 #11 s0 sell 1@110 leaves 1"""),
    ("falling prices trigger from the highest", TRADED + "; p1 c3 NEW buy 5@97; p3 c10 NEW buy 1@90 touch=97; p4 c10 NEW sell 1@110 stop=98; p5 c10 NEW buy 1@91 touch=99; p6 c10 NEW sell 1@111 stop=98", "p2 c2 NEW sell 10@97", """
        p2 ACCEPTED c2 o2 #0 s0 sell 10@97 leaves 10
        p1 FILL c0 o2 #2 s0 buy 9@99 leaves 0 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 9@99 leaves 1 m2
        p1 FILL c0 o3 #3 s0 buy 1@97 leaves 4 MAKER m3
        p2 FILL c2 o2 #0 s0 sell 1@97 leaves 0 m3
        p5 TRIGGERED c0 o10 #6 s0 buy 1@91 leaves 1 HIDDEN
        p5 RESTED c0 o10 #8 s0 buy 1@91 leaves 1
        p4 TRIGGERED c0 o10 #5 s0 sell 1@110 leaves 1 HIDDEN
        p4 RESTED c0 o10 #9 s0 sell 1@110 leaves 1
        p6 TRIGGERED c0 o10 #7 s0 sell 1@111 leaves 1 HIDDEN
        p6 RESTED c0 o10 #10 s0 sell 1@111 leaves 1
        p3 TRIGGERED c0 o10 #4 s0 buy 1@90 leaves 1 HIDDEN
        p3 RESTED c0 o10 #11 s0 buy 1@90 leaves 1"""),
    ("a take profit and a stop loss, linked: one cancels the other", TRADED + "; p3 c10 NEW sell 2@0 market stop=99; p3 c20 NEW sell 2@0 market touch=103 link=10", "p1 c3 NEW sell 1@103; p2 c2 NEW buy 9@103", """
        p1 ACCEPTED c3 o3 #5 s0 sell 1@103 leaves 1 RESTING
        p2 ACCEPTED c2 o2 #0 s0 buy 9@103 leaves 9
        p1 FILL c0 o1 #1 s0 sell 8@101 leaves 0 MAKER m2
        p2 FILL c2 o2 #0 s0 buy 8@101 leaves 1 m2
        p1 FILL c0 o3 #5 s0 sell 1@103 leaves 0 MAKER m3
        p2 FILL c2 o2 #0 s0 buy 1@103 leaves 0 m3
        p3 TRIGGERED c0 o20 #4 s0 sell 2@0 leaves 2 HIDDEN
        p3 CANCELLED c0 o10 #3 s0 sell 2@0 leaves 0 LINKED RESTING HIDDEN
        p1 FILL c0 o2 #2 s0 buy 2@99 leaves 7 MAKER m4
        p3 FILL c0 o20 #0 s0 sell 2@99 leaves 0 m4"""),
    ("the other way", TRADED + "; p1 c3 NEW buy 3@100; p3 c10 NEW sell 2@0 market touch=103; p3 c20 NEW sell 2@0 market stop=100 link=10", "p2 c2 NEW sell 1@100", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@100 leaves 1
        p1 FILL c0 o3 #3 s0 buy 1@100 leaves 2 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@100 leaves 0 m2
        p3 TRIGGERED c0 o20 #5 s0 sell 2@0 leaves 2 HIDDEN
        p3 CANCELLED c0 o10 #4 s0 sell 2@0 leaves 0 LINKED RESTING HIDDEN
        p1 FILL c0 o3 #3 s0 buy 2@100 leaves 0 MAKER m3
        p3 FILL c0 o20 #0 s0 sell 2@100 leaves 0 m3"""),
    ("cancel, reduce and replace", TRADED + "; p3 c10 NEW buy 5@97 touch=98; p3 c20 NEW sell 5@97 touch=108", "p3 c21 REDUCE o10 2@0; p3 c22 REPLACE o10 2@90; p3 c23 CANCEL o10; p3 c24 REDUCE o20 5@0", """
        p3 REDUCED c21 o10 #3 s0 buy 2@97 leaves 3 HIDDEN
        p3 REJECTED c22 o10 #0 s0 buy 2@90 leaves 0 NOT_REPLACEABLE
        p3 CANCELLED c23 o10 #3 s0 buy 3@97 leaves 0 REQUESTED RESTING HIDDEN
        p3 CANCELLED c24 o20 #4 s0 sell 5@97 leaves 0 REQUESTED RESTING HIDDEN"""),
    ("a mass cancel takes those above first", TRADED + "; p3 c10 NEW buy 1@97 touch=98; p3 c20 NEW sell 1@97 touch=108; p3 c30 NEW buy 1@97 stop=107; p3 c40 NEW sell 1@97 stop=97", "p3 c41 MASS_CANCEL s0", """
        p3 CANCELLED c41 o30 #5 s0 buy 1@97 leaves 0 MASS_CANCEL RESTING HIDDEN
        p3 CANCELLED c41 o20 #4 s0 sell 1@97 leaves 0 MASS_CANCEL RESTING HIDDEN
        p3 CANCELLED c41 o10 #3 s0 buy 1@97 leaves 0 MASS_CANCEL RESTING HIDDEN
        p3 CANCELLED c41 o40 #6 s0 sell 1@97 leaves 0 MASS_CANCEL RESTING HIDDEN
        p3 MASS_CANCELLED c41 o0 #0 s0 buy 4@0 leaves 0"""),
    ("a mass cancel of buys", TRADED + "; p3 c10 NEW buy 1@97 touch=98; p3 c20 NEW sell 1@97 touch=108; p3 c30 NEW buy 1@97 stop=107; p3 c40 NEW sell 1@97 stop=97", "p3 c41 MASS_CANCEL s0 flags=1", """
        p3 CANCELLED c41 o30 #5 s0 buy 1@97 leaves 0 MASS_CANCEL RESTING HIDDEN
        p3 CANCELLED c41 o10 #3 s0 buy 1@97 leaves 0 MASS_CANCEL RESTING HIDDEN
        p3 MASS_CANCELLED c41 o0 #0 s0 buy 2@0 leaves 0"""),
    ("expires", TRADED + "; p3 c10 NEW buy 1@97 touch=98 gtt until=2000", "p2 c2 NEW buy 1@1 t2000", """
        p3 CANCELLED c0 o10 #3 s0 buy 1@97 leaves 0 EXPIRED RESTING HIDDEN
        p2 ACCEPTED c2 o2 #4 s0 buy 1@1 leaves 1 RESTING"""),
    ("an iceberg, if touched", TRADED + "; p3 c10 NEW buy 6@98 touch=99 display=2", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #3 s0 buy 6@98 leaves 6 HIDDEN
        p3 RESTED c0 o10 #4 s0 buy 2@98 leaves 6"""),
    ("reduce only, if touched", TRADED + "; p3 c1 NEW buy 1@101; p3 c10 NEW sell 1@0 market reduce touch=102; p3 c20 NEW sell 1@99", "p1 c3 NEW buy 8@102; p2 c2 NEW sell 1@102", """
        p1 ACCEPTED c3 o3 #0 s0 buy 8@102 leaves 8
        p1 FILL c0 o1 #1 s0 sell 7@101 leaves 0 MAKER m4
        p1 FILL c3 o3 #0 s0 buy 7@101 leaves 1 m4
        p1 RESTED c3 o3 #4 s0 buy 1@102 leaves 1
        p2 ACCEPTED c2 o2 #0 s0 sell 1@102 leaves 1
        p1 FILL c0 o3 #4 s0 buy 1@102 leaves 0 MAKER m5
        p2 FILL c2 o2 #0 s0 sell 1@102 leaves 0 m5
        p3 TRIGGERED c0 o10 #3 s0 sell 1@0 leaves 1 HIDDEN
        p3 CANCELLED c0 o10 #0 s0 sell 1@0 leaves 0 NOT_REDUCING"""),
    ("an auction triggers", TRADED + "; p3 c10 NEW sell 2@0 market touch=105; p9 c1 PHASE INTRADAY; p1 c3 NEW sell 1@105; p2 c2 NEW buy 10@105", "p9 c2 PHASE", """
        p1 FILL c0 o1 #1 s0 sell 8@105 leaves 0 MAKER AUCTION m2
        p2 FILL c0 o2 #5 s0 buy 8@105 leaves 2 AUCTION m2
        p1 FILL c0 o3 #4 s0 sell 1@105 leaves 0 MAKER AUCTION m3
        p2 FILL c0 o2 #5 s0 buy 1@105 leaves 1 AUCTION m3
        p9 PHASED c2 o0 #0 s0 buy 9@105 leaves 0 CONTINUOUS
        p3 TRIGGERED c0 o10 #3 s0 sell 2@0 leaves 2 HIDDEN
        p2 FILL c0 o2 #5 s0 buy 1@105 leaves 0 MAKER m4
        p3 FILL c0 o10 #0 s0 sell 1@105 leaves 1 m4
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m5
        p3 FILL c0 o10 #0 s0 sell 1@99 leaves 0 m5"""),
    ("one triggers another in sequence", TRADED + "; p1 c3 NEW buy 1@98; p3 c10 NEW sell 10@98 stop=100; p4 c10 NEW buy 1@95 touch=98; p5 c10 NEW buy 1@96 touch=97", "p1 c4 NEW sell 1@99", """
        p1 ACCEPTED c4 o4 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p1 FILL c4 o4 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #4 s0 sell 10@98 leaves 10 HIDDEN
        p1 FILL c0 o2 #2 s0 buy 8@99 leaves 0 MAKER m3
        p3 FILL c0 o10 #0 s0 sell 8@99 leaves 2 m3
        p1 FILL c0 o3 #3 s0 buy 1@98 leaves 0 MAKER m4
        p3 FILL c0 o10 #0 s0 sell 1@98 leaves 1 m4
        p3 RESTED c0 o10 #7 s0 sell 1@98 leaves 1
        p4 TRIGGERED c0 o10 #5 s0 buy 1@95 leaves 1 HIDDEN
        p4 RESTED c0 o10 #8 s0 buy 1@95 leaves 1"""),
]  # fmt: skip

POST_ONLY: list[Case] = [
    ("a stop that rests when it is triggered", TRADED + "; p3 c10 NEW sell 2@100 post stop=99", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #3 s0 sell 2@100 leaves 2 HIDDEN
        p3 RESTED c0 o10 #4 s0 sell 2@100 leaves 2"""),
    ("a stop that would trade", TRADED + "; p3 c10 NEW sell 2@99 post stop=99", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #3 s0 sell 2@99 leaves 2 HIDDEN
        p3 CANCELLED c0 o10 #0 s0 sell 2@99 leaves 0 WOULD_CROSS"""),
    ("if touched, it rests", TRADED + "; p3 c10 NEW buy 2@100 post touch=99", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #3 s0 buy 2@100 leaves 2 HIDDEN
        p3 RESTED c0 o10 #4 s0 buy 2@100 leaves 2"""),
    ("if touched, it would trade", TRADED + "; p3 c10 NEW buy 2@101 post touch=99", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #3 s0 buy 2@101 leaves 2 HIDDEN
        p3 CANCELLED c0 o10 #0 s0 buy 2@101 leaves 0 WOULD_CROSS"""),
    ("across its price while it waits", TRADED, "p3 c10 NEW buy 2@105 post stop=103",
        "p3 ACCEPTED c10 o10 #3 s0 buy 2@105 leaves 2 RESTING HIDDEN"),
    ("due at once", TRADED, "p3 c10 NEW buy 2@101 post stop=101; p3 c20 NEW buy 2@100 post stop=101", """
        p3 ACCEPTED c10 o10 #3 s0 buy 2@101 leaves 2 RESTING HIDDEN
        p3 TRIGGERED c0 o10 #3 s0 buy 2@101 leaves 2 HIDDEN
        p3 CANCELLED c0 o10 #0 s0 buy 2@101 leaves 0 WOULD_CROSS
        p3 ACCEPTED c20 o20 #4 s0 buy 2@100 leaves 2 RESTING HIDDEN
        p3 TRIGGERED c0 o20 #4 s0 buy 2@100 leaves 2 HIDDEN
        p3 RESTED c0 o20 #5 s0 buy 2@100 leaves 2"""),
    ("trailing", TRADED + "; p3 c10 NEW sell 2@100 post trail=2", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #3 s0 sell 2@100 leaves 2 HIDDEN
        p3 RESTED c0 o10 #4 s0 sell 2@100 leaves 2"""),
    ("a hidden order is met, too", TRADED + "; p4 c1 NEW buy 1@100 hidden", "p3 c10 NEW sell 2@100 post touch=101", """
        p3 ACCEPTED c10 o10 #4 s0 sell 2@100 leaves 2 RESTING HIDDEN
        p3 TRIGGERED c0 o10 #4 s0 sell 2@100 leaves 2 HIDDEN
        p3 CANCELLED c0 o10 #0 s0 sell 2@100 leaves 0 WOULD_CROSS"""),
    ("hidden and post-only", TRADED + "; p3 c10 NEW sell 2@100 post hidden stop=99", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #3 s0 sell 2@100 leaves 2 HIDDEN
        p3 RESTED c0 o10 #4 s0 sell 2@100 leaves 2 HIDDEN"""),
    ("the linked order goes when it is triggered, also in vain", TRADED + "; p3 c1 NEW buy 1@90; p3 c10 NEW sell 2@99 post stop=99 link=1", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #4 s0 sell 2@99 leaves 2 HIDDEN
        p3 CANCELLED c0 o1 #3 s0 buy 1@90 leaves 0 LINKED RESTING
        p3 CANCELLED c0 o10 #0 s0 sell 2@99 leaves 0 WOULD_CROSS"""),
    ("reduce only and post-only", TRADED + "; p3 c1 NEW buy 2@101; p3 c10 NEW sell 2@100 post reduce stop=99; p3 c20 NEW sell 2@99 post reduce stop=99", "p2 c2 NEW sell 1@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@99 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m3
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m3
        p3 TRIGGERED c0 o10 #3 s0 sell 2@100 leaves 2 HIDDEN
        p3 RESTED c0 o10 #5 s0 sell 2@100 leaves 2
        p3 TRIGGERED c0 o20 #4 s0 sell 2@99 leaves 2 HIDDEN
        p3 CANCELLED c0 o20 #0 s0 sell 2@99 leaves 0 WOULD_CROSS"""),
    ("afterwards it is a post-only order", TRADED + "; p3 c10 NEW sell 2@100 post stop=99; p2 c2 NEW sell 1@99", "p3 c11 REPLACE o10 2@99",
        "p3 REJECTED c11 o10 #0 s0 buy 2@99 leaves 0 WOULD_CROSS"),
    ("where a band would interrupt, it would trade", TRADED + "; p3 c10 NEW sell 2@95 post stop=99; p1 c3 NEW buy 1@95; p9 c1 RULE BAND_LOW 97; p9 c2 RULE BAND_ACTION 1", "p2 c2 NEW sell 9@99", """
        p2 ACCEPTED c2 o2 #0 s0 sell 9@99 leaves 9
        p1 FILL c0 o2 #2 s0 buy 9@99 leaves 0 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 9@99 leaves 0 m2
        p3 TRIGGERED c0 o10 #3 s0 sell 2@95 leaves 2 HIDDEN
        p3 CANCELLED c0 o10 #0 s0 sell 2@95 leaves 0 WOULD_CROSS"""),
]  # fmt: skip


@cases(TOUCHED, POST_ONLY)
def test_events(market: AnyMarket, before: str, text: str, expected: str) -> None:
    assert_case(market, before, text, expected)
