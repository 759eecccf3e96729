"""Market-to-limit orders, case by case."""

from tests.exchange.tables import AnyMarket, Case, assert_case, cases

TRADED = "p1 c1 NEW sell 9@101; p1 c2 NEW buy 9@99; p2 c1 NEW buy 1@101"
"""Last trade at 101; p1 asks for 8 at 101 and bids for 9 at 99."""

TO_LIMIT: list[Case] = [
    ("trades at one price, and the remainder rests there", "p1 c1 NEW sell 4@101; p1 c2 NEW sell 4@102", "p2 c1 NEW buy 6@0 market to_limit gtc; p3 c1 NEW sell 2@101", """
        p2 ACCEPTED c1 o1 #0 s0 buy 6@0 leaves 6
        p1 FILL c0 o1 #1 s0 sell 4@101 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 4@101 leaves 2 m1
        p2 RESTED c1 o1 #3 s0 buy 2@101 leaves 2
        p3 ACCEPTED c1 o1 #0 s0 sell 2@101 leaves 2
        p2 FILL c0 o1 #3 s0 buy 2@101 leaves 0 MAKER m2
        p3 FILL c1 o1 #0 s0 sell 2@101 leaves 0 m2"""),
    ("several orders of that price", "p1 c1 NEW sell 4@101; p3 c1 NEW sell 4@101; p1 c2 NEW sell 4@102", "p2 c1 NEW buy 10@0 market to_limit", """
        p2 ACCEPTED c1 o1 #0 s0 buy 10@0 leaves 10
        p1 FILL c0 o1 #1 s0 sell 4@101 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 4@101 leaves 6 m1
        p3 FILL c0 o1 #2 s0 sell 4@101 leaves 0 MAKER m2
        p2 FILL c1 o1 #0 s0 buy 4@101 leaves 2 m2
        p2 RESTED c1 o1 #4 s0 buy 2@101 leaves 2"""),
    ("filled at once", "p1 c1 NEW sell 4@101", "p2 c1 NEW buy 4@0 market to_limit", """
        p2 ACCEPTED c1 o1 #0 s0 buy 4@0 leaves 4
        p1 FILL c0 o1 #1 s0 sell 4@101 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 4@101 leaves 0 m1"""),
    ("nobody there: cancelled", "p1 c1 NEW buy 4@101", "p2 c1 NEW buy 4@0 market to_limit", """
        p2 ACCEPTED c1 o1 #0 s0 buy 4@0 leaves 4
        p2 CANCELLED c1 o1 #0 s0 buy 4@0 leaves 0 MARKET_REMAINDER"""),
    ("a hidden order sets the limit", "p1 c1 NEW sell 4@101; p1 c2 NEW sell 2@100 hidden", "p2 c1 NEW buy 6@0 market to_limit", """
        p2 ACCEPTED c1 o1 #0 s0 buy 6@0 leaves 6
        p1 FILL c0 o2 #2 s0 sell 2@100 leaves 0 MAKER HIDDEN m1
        p2 FILL c1 o1 #0 s0 buy 2@100 leaves 4 m1
        p2 RESTED c1 o1 #3 s0 buy 4@100 leaves 4"""),
    ("a sell", "p1 c1 NEW buy 4@99; p1 c2 NEW buy 4@98", "p2 c1 NEW sell 6@0 market to_limit; p2 c2 REPLACE o1 6@100", """
        p2 ACCEPTED c1 o1 #0 s0 sell 6@0 leaves 6
        p1 FILL c0 o1 #1 s0 buy 4@99 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 4@99 leaves 2 m1
        p2 RESTED c1 o1 #3 s0 sell 2@99 leaves 2
        p2 REPLACED c2 o1 #3 s0 sell 2@99 leaves 2
        p2 RESTED c2 o1 #4 s0 sell 2@100 leaves 2"""),
    ("a conditional order sets the limit, others are passed over", "p1 c1 NEW sell 4@100 min=3; p1 c10 NEW sell 9@99 aon; p1 c11 NEW sell 4@101", "p2 c1 NEW buy 6@0 market to_limit", """
        p2 ACCEPTED c1 o1 #0 s0 buy 6@0 leaves 6
        p1 FILL c0 o1 #1 s0 sell 4@100 leaves 0 MAKER HIDDEN m1
        p2 FILL c1 o1 #0 s0 buy 4@100 leaves 2 m1
        p2 RESTED c1 o1 #4 s0 buy 2@100 leaves 2"""),
    ("self-trade prevention before the first fill", "p2 c1 NEW sell 2@100; p1 c1 NEW sell 2@101", "p2 c10 NEW buy 6@0 market to_limit stp=oldest; p2 c20 NEW buy 2@0 market to_limit stp=newest", """
        p2 ACCEPTED c10 o10 #0 s0 buy 6@0 leaves 6
        p2 CANCELLED c0 o1 #1 s0 sell 2@100 leaves 0 SELF_TRADE RESTING
        p1 FILL c0 o1 #2 s0 sell 2@101 leaves 0 MAKER m1
        p2 FILL c10 o10 #0 s0 buy 2@101 leaves 4 m1
        p2 RESTED c10 o10 #3 s0 buy 4@101 leaves 4
        p2 ACCEPTED c20 o20 #0 s0 buy 2@0 leaves 2
        p2 CANCELLED c20 o20 #0 s0 buy 2@0 leaves 0 MARKET_REMAINDER"""),
    ("as a stop", TRADED + "; p3 c10 NEW buy 12@0 market to_limit stop=102; p1 c3 NEW sell 1@102; p1 c4 NEW sell 3@103; p1 c5 NEW sell 3@104", "p2 c2 NEW buy 9@102", """
        p2 ACCEPTED c2 o2 #0 s0 buy 9@102 leaves 9
        p1 FILL c0 o1 #1 s0 sell 8@101 leaves 0 MAKER m2
        p2 FILL c2 o2 #0 s0 buy 8@101 leaves 1 m2
        p1 FILL c0 o3 #4 s0 sell 1@102 leaves 0 MAKER m3
        p2 FILL c2 o2 #0 s0 buy 1@102 leaves 0 m3
        p3 TRIGGERED c0 o10 #3 s0 buy 12@0 leaves 12 HIDDEN
        p1 FILL c0 o4 #5 s0 sell 3@103 leaves 0 MAKER m4
        p3 FILL c0 o10 #0 s0 buy 3@103 leaves 9 m4
        p3 RESTED c0 o10 #7 s0 buy 9@103 leaves 9"""),
    ("if touched, with nobody there", TRADED + "; p3 c10 NEW sell 2@0 market to_limit touch=102; p1 c3 CANCEL o2", "p1 c4 NEW sell 1@102; p2 c2 NEW buy 9@102", """
        p1 ACCEPTED c4 o4 #4 s0 sell 1@102 leaves 1 RESTING
        p2 ACCEPTED c2 o2 #0 s0 buy 9@102 leaves 9
        p1 FILL c0 o1 #1 s0 sell 8@101 leaves 0 MAKER m2
        p2 FILL c2 o2 #0 s0 buy 8@101 leaves 1 m2
        p1 FILL c0 o4 #4 s0 sell 1@102 leaves 0 MAKER m3
        p2 FILL c2 o2 #0 s0 buy 1@102 leaves 0 m3
        p3 TRIGGERED c0 o10 #3 s0 sell 2@0 leaves 2 HIDDEN
        p3 CANCELLED c0 o10 #0 s0 sell 2@0 leaves 0 MARKET_REMAINDER"""),
    ("pro-rata", "p9 c1 RULE MATCHING 1; p1 c1 NEW sell 4@101; p3 c1 NEW sell 8@101; p1 c2 NEW sell 4@102", "p2 c1 NEW buy 6@0 market to_limit; p2 c2 NEW buy 8@0 market to_limit", """
        p2 ACCEPTED c1 o1 #0 s0 buy 6@0 leaves 6
        p1 FILL c0 o1 #1 s0 sell 2@101 leaves 2 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 2@101 leaves 4 m1
        p3 FILL c0 o1 #2 s0 sell 4@101 leaves 4 MAKER m2
        p2 FILL c1 o1 #0 s0 buy 4@101 leaves 0 m2
        p2 ACCEPTED c2 o2 #0 s0 buy 8@0 leaves 8
        p1 FILL c0 o1 #1 s0 sell 2@101 leaves 0 MAKER m3
        p2 FILL c2 o2 #0 s0 buy 2@101 leaves 6 m3
        p3 FILL c0 o1 #2 s0 sell 4@101 leaves 0 MAKER m4
        p2 FILL c2 o2 #0 s0 buy 4@101 leaves 2 m4
        p2 RESTED c2 o2 #4 s0 buy 2@101 leaves 2"""),
    ("within the collar", TRADED + "; p9 c1 ACCOUNT o2 COLLAR_TICKS 2; p1 c9 CANCEL o1; p1 c10 NEW sell 4@104", "p2 c5 NEW buy 4@0 market to_limit", """
        p2 ACCEPTED c5 o5 #0 s0 buy 4@0 leaves 4
        p2 CANCELLED c5 o5 #0 s0 buy 4@0 leaves 0 MARKET_REMAINDER"""),
    ("a band that interrupts after the first fill", "p1 c1 NEW sell 2@104; p1 c2 NEW sell 2@106; p9 c1 RULE BAND_HIGH 105; p9 c2 RULE BAND_ACTION 1", "p2 c1 NEW buy 3@0 market to_limit; p2 c2 NEW buy 3@0 market to_limit", """
        p2 ACCEPTED c1 o1 #0 s0 buy 3@0 leaves 3
        p1 FILL c0 o1 #1 s0 sell 2@104 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 2@104 leaves 1 m1
        p2 RESTED c1 o1 #3 s0 buy 1@104 leaves 1
        p2 ACCEPTED c2 o2 #0 s0 buy 3@0 leaves 3
        p2 PHASED c0 o0 #0 s0 buy 0@0 leaves 0 VOLATILITY
        p2 CANCELLED c2 o2 #0 s0 buy 3@0 leaves 0 MARKET_REMAINDER"""),
    ("a band that interrupts before", "p1 c2 NEW sell 2@106; p9 c1 RULE BAND_HIGH 105; p9 c2 RULE BAND_ACTION 1", "p2 c1 NEW buy 3@0 market to_limit", """
        p2 ACCEPTED c1 o1 #0 s0 buy 3@0 leaves 3
        p2 PHASED c0 o0 #0 s0 buy 0@0 leaves 0 VOLATILITY
        p2 CANCELLED c1 o1 #0 s0 buy 3@0 leaves 0 MARKET_REMAINDER"""),
    ("a book that is full", "p9 c1 ACCOUNT o2 ORDERS_OPEN_MAX 1; p2 c1 NEW buy 1@90; p1 c1 NEW sell 1@100", "p2 c2 NEW buy 3@0 market to_limit; p2 c3 NEW buy 1@0 market", """
        p2 REJECTED c2 o2 #0 s0 buy 3@0 leaves 0 LIMIT_ORDERS
        p2 ACCEPTED c3 o3 #0 s0 buy 1@0 leaves 1
        p1 FILL c0 o1 #2 s0 sell 1@100 leaves 0 MAKER m1
        p2 FILL c3 o3 #0 s0 buy 1@100 leaves 0 m1"""),
    ("phases that collect orders do not take it", "p9 c1 PHASE INTRADAY", "p2 c1 NEW buy 3@0 market to_limit",
        "p2 REJECTED c1 o1 #0 s0 buy 3@0 leaves 0 WRONG_PHASE"),
    ("reduce only", TRADED, "p2 c2 NEW sell 1@0 market to_limit reduce; p2 c3 NEW sell 1@0 market to_limit reduce", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@0 leaves 1
        p1 FILL c0 o2 #2 s0 buy 1@99 leaves 8 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@99 leaves 0 m2
        p2 REJECTED c3 o3 #0 s0 sell 1@0 leaves 0 REDUCE_ONLY"""),
    ("the remainder of the day ends with it", "p1 c1 NEW sell 4@101", "p2 c1 NEW buy 6@0 market to_limit; p9 c1 END_DAY", """
        p2 ACCEPTED c1 o1 #0 s0 buy 6@0 leaves 6
        p1 FILL c0 o1 #1 s0 sell 4@101 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 4@101 leaves 2 m1
        p2 RESTED c1 o1 #2 s0 buy 2@101 leaves 2
        p2 CANCELLED c0 o1 #2 s0 buy 2@101 leaves 0 DAY_END RESTING
        p9 DAY_ENDED c1 o0 #0 s0 buy 1@0 leaves 0"""),
]  # fmt: skip


@cases(TO_LIMIT)
def test_events(market: AnyMarket, before: str, text: str, expected: str) -> None:
    assert_case(market, before, text, expected)
