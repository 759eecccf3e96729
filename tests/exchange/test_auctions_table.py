"""Phases and auctions, case by case, and every order in every phase."""

from tests.exchange.tables import AnyMarket, Case, assert_case, cases

CROSSED = "p9 c1 PHASE OPENING; p1 c1 NEW buy 5@102; p2 c1 NEW buy 3@101; p3 c1 NEW sell 4@99; p4 c1 NEW sell 6@100"
"""Demand is 8 at 100 and 101, supply 10."""

AUCTIONS: list[Case] = [
    ("orders rest although they cross", "", "p9 c1 PHASE PRE_OPEN; p1 c1 NEW buy 5@102; p2 c1 NEW sell 3@100; p2 c2 REPLACE o1 3@99", """
        p9 PHASED c1 o0 #0 s0 buy 0@0 leaves 0 PRE_OPEN
        p1 ACCEPTED c1 o1 #1 s0 buy 5@102 leaves 5 RESTING
        p2 ACCEPTED c1 o1 #2 s0 sell 3@100 leaves 3 RESTING
        p2 REPLACED c2 o1 #2 s0 sell 3@100 leaves 3
        p2 RESTED c2 o1 #3 s0 sell 3@99 leaves 3"""),
    ("buys and sells in pairs at one price; the sell is told first", CROSSED, "p9 c2 PHASE", """
        p3 FILL c0 o1 #3 s0 sell 4@100 leaves 0 MAKER AUCTION m1
        p1 FILL c0 o1 #1 s0 buy 4@100 leaves 1 AUCTION m1
        p4 FILL c0 o1 #4 s0 sell 1@100 leaves 5 MAKER AUCTION m2
        p1 FILL c0 o1 #1 s0 buy 1@100 leaves 0 AUCTION m2
        p4 FILL c0 o1 #4 s0 sell 3@100 leaves 2 MAKER AUCTION m3
        p2 FILL c0 o1 #2 s0 buy 3@100 leaves 0 AUCTION m3
        p9 PHASED c2 o0 #0 s0 buy 8@100 leaves 0 CONTINUOUS"""),
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
    ("market orders first, their rest is cancelled", "p9 c1 PHASE OPENING; p1 c1 NEW buy 5@102; p2 c1 NEW sell 9@0 market; p3 c1 NEW sell 2@101", "p9 c2 UNCROSS", """
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
    ("hidden orders take part, behind what is displayed", "p9 c1 PHASE OPENING; p1 c1 NEW buy 5@100 hidden; p2 c1 NEW buy 5@100; p3 c1 NEW sell 7@100", "p9 c2 UNCROSS", """
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
    ("what waited for CONTINUOUS comes after the auction", "p9 c1 PHASE OPENING; p1 c10 NEW buy 5@102 min=5; p2 c1 NEW sell 5@100", "p9 c2 PHASE", """
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
    ("AT_CLOSE waits, comes to the closing auction, is cancelled behind it", "p1 c1 NEW buy 5@102 at_close; p1 c2 NEW sell 1@0 market at_close; p2 c1 NEW sell 3@101", "p3 c1 NEW buy 1@101 ioc; p9 c1 PHASE CLOSING; p3 c2 NEW buy 1@90 at_close; p9 c2 PHASE CLOSED", """
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
    ("linked orders: one that trades in it cancels the other, behind the match", "p9 c1 PHASE OPENING; p1 c1 NEW sell 5@100; p1 c10 NEW sell 5@101 link=1; p2 c1 NEW buy 8@101", "p9 c2 UNCROSS", """
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
