"""Accounts and rules of a symbol, case by case, and every check of them."""

import pytest

from serl.exchange.records import Reason
from tests.exchange.notation import parse_all
from tests.exchange.tables import AnyMarket, Case, assert_case, cases, last_reason

ACCOUNTS: list[Case] = [
    ("killed: its orders are cancelled, NEW and REPLACE rejected, CANCEL works", "p1 c1 NEW buy 1@99; p1 c2 NEW sell 1@105 hidden; p1 c12 NEW sell 1@0 market stop=90; p2 c1 NEW buy 1@98",
        "p9 c1 ACCOUNT o1 KILLED 1; p1 c13 NEW buy 1@99; p1 c14 CANCEL o1; p9 c2 ACCOUNT o1 KILLED 0; "
        "p1 c15 NEW buy 1@99", """
        p1 CANCELLED c0 o1 #1 s0 buy 1@99 leaves 0 KILL RESTING
        p1 CANCELLED c0 o2 #2 s0 sell 1@105 leaves 0 KILL RESTING HIDDEN
        p1 CANCELLED c0 o12 #3 s0 sell 1@0 leaves 0 KILL RESTING HIDDEN
        p9 SET c1 o1 #0 s0 buy 3@1 leaves 0 flags=6
        p1 REJECTED c13 o13 #0 s0 buy 1@99 leaves 0 KILLED
        p1 REJECTED c14 o1 #0 s0 buy 0@0 leaves 0 UNKNOWN_ORDER
        p9 SET c2 o1 #0 s0 buy 0@0 leaves 0 flags=6
        p1 ACCEPTED c15 o15 #5 s0 buy 1@99 leaves 1 RESTING"""),
    ("killed: linked orders count once", "p1 c1 NEW buy 1@99; p1 c10 NEW buy 1@98 link=1", "p9 c1 ACCOUNT o1 KILLED 1", """
        p1 CANCELLED c0 o1 #1 s0 buy 1@99 leaves 0 KILL RESTING
        p1 CANCELLED c0 o10 #2 s0 buy 1@98 leaves 0 LINKED RESTING
        p9 SET c1 o1 #0 s0 buy 1@1 leaves 0 flags=6"""),
    ("a participant sets its own self-trade prevention only", "",
        "p1 c1 ACCOUNT o1 SELF_TRADE 4; p1 c2 ACCOUNT o2 SELF_TRADE 4; p1 c3 ACCOUNT o1 KILLED 0; "
        "p9 c1 ACCOUNT o2 SELF_TRADE 3", """
        p1 SET c1 o1 #0 s0 buy 0@4 leaves 0 flags=0
        p1 REJECTED c2 o2 #0 s0 buy 0@4 leaves 0 NOT_PERMITTED
        p1 REJECTED c3 o1 #0 s0 buy 0@0 leaves 0 NOT_PERMITTED
        p9 SET c1 o2 #0 s0 buy 0@3 leaves 0 flags=0"""),
    ("values out of range", "",
        "p9 c1 ACCOUNT o16 KILLED 1; p9 c2 ACCOUNT o1 KILLED 2; p9 c3 ACCOUNT o1 SELF_TRADE 5; "
        "p9 c4 ACCOUNT o1 COLLAR_TICKS -1; p9 c5 ACCOUNT o1 flags=16; p9 c6 ACCOUNT o-1 KILLED 1; "
        "p9 c7 ACCOUNT o15 ORDER_LOTS_MAX 4611686018427387904", """
        p9 REJECTED c1 o16 #0 s0 buy 0@1 leaves 0 BAD_SETTING
        p9 REJECTED c2 o1 #0 s0 buy 0@2 leaves 0 BAD_SETTING
        p9 REJECTED c3 o1 #0 s0 buy 0@5 leaves 0 BAD_SETTING
        p9 REJECTED c4 o1 #0 s0 buy 0@-1 leaves 0 BAD_SETTING
        p9 REJECTED c5 o1 #0 s0 buy 0@0 leaves 0 BAD_SETTING
        p9 REJECTED c6 o-1 #0 s0 buy 0@1 leaves 0 BAD_SETTING
        p9 SET c7 o15 #0 s0 buy 0@4611686018427387904 leaves 0 flags=1"""),
    ("fees of an account: as high and as low as a symbol's, set by an operator", "",
        "p9 c1 ACCOUNT o1 OWN_FEES 1; p9 c2 ACCOUNT o1 OWN_FEES 2; p9 c3 ACCOUNT o1 OWN_FEES -1; p9 c4 ACCOUNT o1 MAKER_PPM -1000000; "
        "p9 c5 ACCOUNT o1 AUCTION_PPM 1000001; p9 c6 ACCOUNT o1 TAKER_PPM -1000001; p9 c7 ACCOUNT o1 TAKER_MICROTICKS 4611686018427387; "
        "p9 c8 ACCOUNT o1 AUCTION_MICROTICKS 4611686018427388; p9 c9 ACCOUNT o1 MAKER_MICROTICKS -4611686018427388; "
        "p1 c1 ACCOUNT o1 TAKER_PPM 0", """
        p9 SET c1 o1 #0 s0 buy 0@1 leaves 0 flags=7
        p9 REJECTED c2 o1 #0 s0 buy 0@2 leaves 0 BAD_SETTING
        p9 REJECTED c3 o1 #0 s0 buy 0@-1 leaves 0 BAD_SETTING
        p9 SET c4 o1 #0 s0 buy 0@-1000000 leaves 0 flags=9
        p9 REJECTED c5 o1 #0 s0 buy 0@1000001 leaves 0 BAD_SETTING
        p9 REJECTED c6 o1 #0 s0 buy 0@-1000001 leaves 0 BAD_SETTING
        p9 SET c7 o1 #0 s0 buy 0@4611686018427387 leaves 0 flags=10
        p9 REJECTED c8 o1 #0 s0 buy 0@4611686018427388 leaves 0 BAD_SETTING
        p9 REJECTED c9 o1 #0 s0 buy 0@-4611686018427388 leaves 0 BAD_SETTING
        p1 REJECTED c1 o1 #0 s0 buy 0@0 leaves 0 NOT_PERMITTED"""),
]  # fmt: skip

RULES: list[Case] = [
    ("a rule is answered with what was set", "", "p9 c1 RULE LOT 5; p9 c2 RULE TICK 5 o1000 s1; p9 c3 RULE BAND_LOW 90; p9 c4 RULE BAND_ACTION 1", """
        p9 SET c1 o0 #0 s0 buy 0@5 leaves 0 flags=0
        p9 SET c2 o1000 #0 s1 buy 0@5 leaves 0 flags=1
        p9 SET c3 o0 #0 s0 buy 0@90 leaves 0 flags=3
        p9 SET c4 o0 #0 s0 buy 0@1 leaves 0 flags=5"""),
    ("values out of range", "",
        "p9 c1 RULE LOT 0; p9 c2 RULE TICK 0 o-1; p9 c3 RULE TICK 1 o-1; p9 c4 RULE MATCHING 2; "
        "p9 c5 RULE BAND_LOW -1; p9 c6 RULE BAND_ACTION 2; p9 c7 RULE flags=16 1; p9 c8 RULE BAND_HIGH 10001; "
        "p9 c9 RULE LOT 1001; p9 c10 RULE TICK 1 o10001; p1 c1 RULE LOT 1", """
        p9 REJECTED c1 o0 #0 s0 buy 0@0 leaves 0 BAD_SETTING
        p9 REJECTED c2 o-1 #0 s0 buy 0@0 leaves 0 BAD_SETTING
        p9 REJECTED c3 o-1 #0 s0 buy 0@1 leaves 0 BAD_SETTING
        p9 REJECTED c4 o0 #0 s0 buy 0@2 leaves 0 BAD_SETTING
        p9 REJECTED c5 o0 #0 s0 buy 0@-1 leaves 0 BAD_SETTING
        p9 REJECTED c6 o0 #0 s0 buy 0@2 leaves 0 BAD_SETTING
        p9 REJECTED c7 o0 #0 s0 buy 0@1 leaves 0 BAD_SETTING
        p9 REJECTED c8 o0 #0 s0 buy 0@10001 leaves 0 BAD_SETTING
        p9 REJECTED c9 o0 #0 s0 buy 0@1001 leaves 0 BAD_SETTING
        p9 REJECTED c10 o10001 #0 s0 buy 0@1 leaves 0 BAD_SETTING
        p1 REJECTED c1 o0 #0 s0 buy 0@1 leaves 0 NOT_PERMITTED"""),
    ("a tick entry of 0 removes the entry: the one below applies there; without an entry nothing happens", "p9 c1 RULE TICK 5; p9 c2 RULE TICK 10 o100; p9 c3 RULE TICK 7 o200",
        "p9 c4 RULE TICK 0 o100; p9 c5 RULE TICK 0 o150; p1 c1 NEW buy 1@105; p1 c2 NEW buy 1@203; p9 c6 RULE TICK 0; p1 c3 NEW buy 1@106; p1 c4 NEW buy 1@204; p9 c7 RULE TICK 0 o200; p1 c5 NEW buy 1@204", """
        p9 SET c4 o100 #0 s0 buy 0@0 leaves 0 flags=1
        p9 SET c5 o150 #0 s0 buy 0@0 leaves 0 flags=1
        p1 ACCEPTED c1 o1 #1 s0 buy 1@105 leaves 1 RESTING
        p1 ACCEPTED c2 o2 #2 s0 buy 1@203 leaves 1 RESTING
        p9 SET c6 o0 #0 s0 buy 0@0 leaves 0 flags=1
        p1 ACCEPTED c3 o3 #3 s0 buy 1@106 leaves 1 RESTING
        p1 REJECTED c4 o4 #0 s0 buy 1@204 leaves 0 BAD_PRICE
        p9 SET c7 o200 #0 s0 buy 0@0 leaves 0 flags=1
        p1 ACCEPTED c5 o5 #4 s0 buy 1@204 leaves 1 RESTING"""),
    ("one of eight tick entries is removed, so a ninth fits", "p9 c1 RULE TICK 2 o100; p9 c2 RULE TICK 2 o200; p9 c3 RULE TICK 2 o300; p9 c4 RULE TICK 2 o400; p9 c5 RULE TICK 2 o500; p9 c6 RULE TICK 2 o600; p9 c7 RULE TICK 2 o700; p9 c8 RULE TICK 2 o800", "p9 c9 RULE TICK 0 o900; p9 c10 RULE TICK 0 o800; p9 c11 RULE TICK 3 o50; p1 c1 NEW buy 1@51; p1 c2 NEW buy 1@901", """
        p9 SET c9 o900 #0 s0 buy 0@0 leaves 0 flags=1
        p9 SET c10 o800 #0 s0 buy 0@0 leaves 0 flags=1
        p9 SET c11 o50 #0 s0 buy 0@3 leaves 0 flags=1
        p1 ACCEPTED c1 o1 #1 s0 buy 1@51 leaves 1 RESTING
        p1 REJECTED c2 o2 #0 s0 buy 1@901 leaves 0 BAD_PRICE"""),
    ("a ninth tick entry is one too many, a replaced one is not", "p9 c1 RULE TICK 2 o100; p9 c2 RULE TICK 2 o200; p9 c3 RULE TICK 2 o300; p9 c4 RULE TICK 2 o400; p9 c5 RULE TICK 2 o500; p9 c6 RULE TICK 2 o600; p9 c7 RULE TICK 2 o700; p9 c8 RULE TICK 2 o800", "p9 c9 RULE TICK 2 o900; p9 c10 RULE TICK 3 o800", """
        p9 REJECTED c9 o900 #0 s0 buy 0@2 leaves 0 BAD_SETTING
        p9 SET c10 o800 #0 s0 buy 0@3 leaves 0 flags=1"""),
    ("pro-rata: shares of the displayed quantity, the oldest first with the rest", "p9 c1 RULE MATCHING 1; p1 c1 NEW sell 10@100; p2 c1 NEW sell 20@100; p3 c1 NEW sell 5@100", "p4 c1 NEW buy 20@100", """
        p4 ACCEPTED c1 o1 #0 s0 buy 20@100 leaves 20
        p1 FILL c0 o1 #1 s0 sell 7@100 leaves 3 MAKER m1
        p4 FILL c1 o1 #0 s0 buy 7@100 leaves 13 m1
        p2 FILL c0 o1 #2 s0 sell 11@100 leaves 9 MAKER m2
        p4 FILL c1 o1 #0 s0 buy 11@100 leaves 2 m2
        p3 FILL c0 o1 #3 s0 sell 2@100 leaves 3 MAKER m3
        p4 FILL c1 o1 #0 s0 buy 2@100 leaves 0 m3"""),
    ("pro-rata: as much as there is takes all, in time order", "p9 c1 RULE MATCHING 1; p1 c1 NEW sell 2@100; p2 c1 NEW sell 3@100; p3 c1 NEW sell 5@101", "p4 c1 NEW buy 6@101", """
        p4 ACCEPTED c1 o1 #0 s0 buy 6@101 leaves 6
        p1 FILL c0 o1 #1 s0 sell 2@100 leaves 0 MAKER m1
        p4 FILL c1 o1 #0 s0 buy 2@100 leaves 4 m1
        p2 FILL c0 o1 #2 s0 sell 3@100 leaves 0 MAKER m2
        p4 FILL c1 o1 #0 s0 buy 3@100 leaves 1 m2
        p3 FILL c0 o1 #3 s0 sell 1@101 leaves 4 MAKER m3
        p4 FILL c1 o1 #0 s0 buy 1@101 leaves 0 m3"""),
    ("pro-rata: one lot goes to the oldest", "p9 c1 RULE MATCHING 1; p1 c1 NEW sell 2@100; p2 c1 NEW sell 3@100", "p4 c1 NEW buy 1@100", """
        p4 ACCEPTED c1 o1 #0 s0 buy 1@100 leaves 1
        p1 FILL c0 o1 #1 s0 sell 1@100 leaves 1 MAKER m1
        p4 FILL c1 o1 #0 s0 buy 1@100 leaves 0 m1"""),
    ("pro-rata: all that is displayed goes before an iceberg's next part", "p9 c1 RULE MATCHING 1; p1 c10 NEW buy 60@100 display=6; p2 c1 NEW buy 5@100", "p3 c1 NEW sell 11@100", """
        p3 ACCEPTED c1 o1 #0 s0 sell 11@100 leaves 11
        p1 FILL c0 o10 #1 s0 buy 6@100 leaves 54 MAKER m1
        p3 FILL c1 o1 #0 s0 sell 6@100 leaves 5 m1
        p1 RESTED c0 o10 #3 s0 buy 6@100 leaves 54
        p2 FILL c0 o1 #2 s0 buy 5@100 leaves 0 MAKER m2
        p3 FILL c1 o1 #0 s0 sell 5@100 leaves 0 m2"""),
    ("pro-rata: hidden orders only after, by time", "p9 c1 RULE MATCHING 1; p1 c1 NEW sell 2@100 hidden; p2 c1 NEW sell 3@100; p3 c1 NEW sell 5@100 hidden", "p4 c1 NEW buy 6@100", """
        p4 ACCEPTED c1 o1 #0 s0 buy 6@100 leaves 6
        p2 FILL c0 o1 #2 s0 sell 3@100 leaves 0 MAKER m1
        p4 FILL c1 o1 #0 s0 buy 3@100 leaves 3 m1
        p1 FILL c0 o1 #1 s0 sell 2@100 leaves 0 MAKER HIDDEN m2
        p4 FILL c1 o1 #0 s0 buy 2@100 leaves 1 m2
        p3 FILL c0 o1 #3 s0 sell 1@100 leaves 4 MAKER HIDDEN m3
        p4 FILL c1 o1 #0 s0 buy 1@100 leaves 0 m3"""),
    ("pro-rata: an iceberg shares with its displayed part", "p9 c1 RULE MATCHING 1; p1 c10 NEW sell 12@100 display=4; p2 c1 NEW sell 4@100", "p4 c1 NEW buy 4@100; p4 c2 NEW buy 7@100", """
        p4 ACCEPTED c1 o1 #0 s0 buy 4@100 leaves 4
        p1 FILL c0 o10 #1 s0 sell 2@100 leaves 10 MAKER m1
        p4 FILL c1 o1 #0 s0 buy 2@100 leaves 2 m1
        p2 FILL c0 o1 #2 s0 sell 2@100 leaves 2 MAKER m2
        p4 FILL c1 o1 #0 s0 buy 2@100 leaves 0 m2
        p4 ACCEPTED c2 o2 #0 s0 buy 7@100 leaves 7
        p1 FILL c0 o10 #1 s0 sell 2@100 leaves 8 MAKER m3
        p4 FILL c2 o2 #0 s0 buy 2@100 leaves 5 m3
        p1 RESTED c0 o10 #3 s0 sell 4@100 leaves 8
        p2 FILL c0 o1 #2 s0 sell 2@100 leaves 0 MAKER m4
        p4 FILL c2 o2 #0 s0 buy 2@100 leaves 3 m4
        p1 FILL c0 o10 #3 s0 sell 3@100 leaves 5 MAKER m5
        p4 FILL c2 o2 #0 s0 buy 3@100 leaves 0 m5"""),
    ("pro-rata: shares are computed again where an order is cancelled instead", "p9 c1 RULE MATCHING 1; p1 c1 NEW sell 4@100; p2 c1 NEW sell 4@100; p3 c1 NEW sell 4@100", "p2 c10 NEW buy 6@100 stp=oldest", """
        p2 ACCEPTED c10 o10 #0 s0 buy 6@100 leaves 6
        p1 FILL c0 o1 #1 s0 sell 2@100 leaves 2 MAKER m1
        p2 FILL c10 o10 #0 s0 buy 2@100 leaves 4 m1
        p2 CANCELLED c0 o1 #2 s0 sell 4@100 leaves 0 SELF_TRADE RESTING
        p1 FILL c0 o1 #1 s0 sell 2@100 leaves 0 MAKER m2
        p2 FILL c10 o10 #0 s0 buy 2@100 leaves 2 m2
        p3 FILL c0 o1 #3 s0 sell 2@100 leaves 2 MAKER m3
        p2 FILL c10 o10 #0 s0 buy 2@100 leaves 0 m3"""),
    ("pro-rata: not in an auction", "p9 c1 RULE MATCHING 1; p9 c2 PHASE OPENING; p1 c1 NEW sell 4@100; p2 c1 NEW sell 4@100; p3 c1 NEW buy 4@100", "p9 c3 UNCROSS", """
        p1 FILL c0 o1 #1 s0 sell 4@100 leaves 0 MAKER AUCTION m1
        p3 FILL c0 o1 #3 s0 buy 4@100 leaves 0 AUCTION m1
        p9 PHASED c3 o0 #0 s0 buy 4@100 leaves 0 OPENING"""),
    ("band, rejecting: prices outside; market orders trade up to it", "p1 c1 NEW sell 2@104; p1 c2 NEW sell 2@106; p9 c1 RULE BAND_HIGH 105; p9 c2 RULE BAND_LOW 95",
        "p2 c1 NEW buy 1@106; p2 c2 NEW sell 1@94; p2 c3 NEW buy 1@105; p2 c4 NEW buy 5@0 market; "
        "p1 c3 REPLACE o2 2@107; p1 c4 REPLACE o2 2@105", """
        p2 REJECTED c1 o1 #0 s0 buy 1@106 leaves 0 OUTSIDE_BAND
        p2 REJECTED c2 o2 #0 s0 sell 1@94 leaves 0 OUTSIDE_BAND
        p2 ACCEPTED c3 o3 #0 s0 buy 1@105 leaves 1
        p1 FILL c0 o1 #1 s0 sell 1@104 leaves 1 MAKER m1
        p2 FILL c3 o3 #0 s0 buy 1@104 leaves 0 m1
        p2 ACCEPTED c4 o4 #0 s0 buy 5@0 leaves 5
        p1 FILL c0 o1 #1 s0 sell 1@104 leaves 0 MAKER m2
        p2 FILL c4 o4 #0 s0 buy 1@104 leaves 4 m2
        p2 CANCELLED c4 o4 #0 s0 buy 4@0 leaves 0 MARKET_REMAINDER
        p1 REJECTED c3 o2 #0 s0 buy 2@107 leaves 0 OUTSIDE_BAND
        p1 REPLACED c4 o2 #2 s0 sell 2@106 leaves 2
        p1 RESTED c4 o2 #3 s0 sell 2@105 leaves 2"""),
    ("band, rejecting: nothing rests across an order outside", "p1 c1 NEW buy 2@90; p9 c1 RULE BAND_LOW 95",
        "p2 c1 NEW sell 1@95; p9 c2 RULE BAND_LOW 89; p9 c3 RULE BAND_HIGH 89; p2 c2 NEW sell 1@89; "
        "p2 c3 NEW sell 1@89 ioc; p2 c4 NEW sell 1@89 post", """
        p2 ACCEPTED c1 o1 #2 s0 sell 1@95 leaves 1 RESTING
        p9 SET c2 o0 #0 s0 buy 0@89 leaves 0 flags=3
        p9 SET c3 o0 #0 s0 buy 0@89 leaves 0 flags=4
        p2 ACCEPTED c2 o2 #0 s0 sell 1@89 leaves 1
        p2 CANCELLED c2 o2 #0 s0 sell 1@89 leaves 0 OUTSIDE_BAND
        p2 ACCEPTED c3 o3 #0 s0 sell 1@89 leaves 1
        p2 CANCELLED c3 o3 #0 s0 sell 1@89 leaves 0 IOC_REMAINDER
        p2 ACCEPTED c4 o4 #0 s0 sell 1@89 leaves 1
        p2 CANCELLED c4 o4 #0 s0 sell 1@89 leaves 0 OUTSIDE_BAND"""),
    ("band, rejecting: a peg moves across a conditional order outside, without an event", "p1 c10 NEW buy 10@110 min=5; p1 c11 NEW sell 1@112; p2 c10 NEW sell 6@0 peg=primary; p9 c1 RULE BAND_HIGH 105", "p3 c1 NEW sell 3@104", """
        p3 ACCEPTED c1 o1 #4 s0 sell 3@104 leaves 3 RESTING
        p3 FILL c0 o1 #4 s0 sell 3@104 leaves 0 MAKER m1
        p1 FILL c0 o10 #0 s0 buy 3@104 leaves 7 m1
        p2 FILL c0 o10 #5 s0 sell 6@104 leaves 0 MAKER HIDDEN m2
        p1 FILL c0 o10 #0 s0 buy 6@104 leaves 1 m2
        p1 RESTED c0 o10 #6 s0 buy 1@110 leaves 1 HIDDEN"""),
    ("band, interrupting: VOLATILITY, and the rest rests", "p1 c1 NEW sell 2@104; p1 c2 NEW sell 2@106; p9 c1 RULE BAND_HIGH 105; p9 c2 RULE BAND_ACTION 1", "p2 c1 NEW buy 3@107; p3 c1 NEW buy 1@120; p9 c3 PHASE", """
        p2 ACCEPTED c1 o1 #0 s0 buy 3@107 leaves 3
        p1 FILL c0 o1 #1 s0 sell 2@104 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 2@104 leaves 1 m1
        p2 PHASED c0 o0 #0 s0 buy 0@0 leaves 0 VOLATILITY
        p2 RESTED c1 o1 #3 s0 buy 1@107 leaves 1
        p3 ACCEPTED c1 o1 #4 s0 buy 1@120 leaves 1 RESTING
        p1 FILL c0 o2 #2 s0 sell 1@106 leaves 1 MAKER AUCTION m2
        p3 FILL c0 o1 #4 s0 buy 1@106 leaves 0 AUCTION m2
        p1 FILL c0 o2 #2 s0 sell 1@106 leaves 0 MAKER AUCTION m3
        p2 FILL c0 o1 #3 s0 buy 1@106 leaves 0 AUCTION m3
        p9 PHASED c3 o0 #0 s0 buy 2@106 leaves 0 CONTINUOUS"""),
    ("band, interrupting: IOC, FOK and market orders are cancelled", "p1 c1 NEW sell 2@106; p9 c1 RULE BAND_HIGH 105; p9 c2 RULE BAND_ACTION 1",
        "p2 c1 NEW buy 1@107 fok; p2 c2 NEW buy 1@107 ioc; p9 c3 RULE BAND_HIGH 110; p9 c4 PHASE; "
        "p9 c5 RULE BAND_HIGH 105; p2 c3 NEW buy 1@0 market", """
        p2 ACCEPTED c1 o1 #0 s0 buy 1@107 leaves 1
        p2 CANCELLED c1 o1 #0 s0 buy 1@107 leaves 0 FOK_UNFILLABLE
        p2 ACCEPTED c2 o2 #0 s0 buy 1@107 leaves 1
        p2 PHASED c0 o0 #0 s0 buy 0@0 leaves 0 VOLATILITY
        p2 CANCELLED c2 o2 #0 s0 buy 1@107 leaves 0 IOC_REMAINDER
        p9 SET c3 o0 #0 s0 buy 0@110 leaves 0 flags=4
        p9 PHASED c4 o0 #0 s0 buy 0@0 leaves 0 CONTINUOUS
        p9 SET c5 o0 #0 s0 buy 0@105 leaves 0 flags=4
        p2 ACCEPTED c3 o3 #0 s0 buy 1@0 leaves 1
        p2 PHASED c0 o0 #0 s0 buy 0@0 leaves 0 VOLATILITY
        p2 CANCELLED c3 o3 #0 s0 buy 1@0 leaves 0 MARKET_REMAINDER"""),
    ("band, interrupting: a stop that is triggered meets it; pegs go to wait", "p1 c1 NEW buy 2@99; p1 c2 NEW buy 2@94; p4 c10 NEW buy 1@0 peg=primary; p9 c1 RULE BAND_LOW 95; p9 c2 RULE BAND_ACTION 1; p3 c10 NEW sell 3@90 stop=99", "p2 c1 NEW sell 2@99; p1 c3 CANCEL o2", """
        p2 ACCEPTED c1 o1 #0 s0 sell 2@99 leaves 2
        p1 FILL c0 o1 #1 s0 buy 2@99 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 2@99 leaves 0 m1
        p3 TRIGGERED c0 o10 #4 s0 sell 3@90 leaves 3 HIDDEN
        p4 FILL c0 o10 #3 s0 buy 1@99 leaves 0 MAKER HIDDEN m2
        p3 FILL c0 o10 #0 s0 sell 1@99 leaves 2 m2
        p3 PHASED c0 o0 #0 s0 sell 0@0 leaves 0 VOLATILITY
        p3 RESTED c0 o10 #5 s0 sell 2@90 leaves 2
        p1 CANCELLED c3 o2 #2 s0 buy 2@94 leaves 0 REQUESTED RESTING"""),
    ("the band does not hold in an auction with action 1", "p9 c1 RULE BAND_HIGH 105; p9 c2 RULE BAND_ACTION 1; p9 c3 PHASE INTRADAY; p1 c1 NEW buy 1@110; p2 c1 NEW sell 1@110", "p9 c4 UNCROSS", """
        p2 FILL c0 o1 #2 s0 sell 1@110 leaves 0 MAKER AUCTION m1
        p1 FILL c0 o1 #1 s0 buy 1@110 leaves 0 AUCTION m1
        p9 PHASED c4 o0 #0 s0 buy 1@110 leaves 0 INTRADAY"""),
]  # fmt: skip


DEAR = "p9 c1 ACCOUNT o1 COLLAR_TICKS 2; p2 c1 NEW sell 1@100; p3 c1 NEW buy 1@100; p2 c2 NEW sell 1@102; p2 c3 NEW sell 9@103"
"""Last trade at 100; p1 may buy no higher than 102, where one lot is offered."""
COLLARS: list[Case] = [
    ("a market order trades no further than the collar", DEAR, "p1 c1 NEW buy 5@0 market", """
        p1 ACCEPTED c1 o1 #0 s0 buy 5@0 leaves 5
        p2 FILL c0 o2 #2 s0 sell 1@102 leaves 0 MAKER m2
        p1 FILL c1 o1 #0 s0 buy 1@102 leaves 4 m2
        p1 CANCELLED c1 o1 #0 s0 buy 4@0 leaves 0 MARKET_REMAINDER"""),
    ("a sell likewise; of others it is no limit", "p9 c1 ACCOUNT o1 COLLAR_TICKS 2; p2 c1 NEW sell 1@100; p3 c1 NEW buy 1@100; p2 c2 NEW buy 2@97", "p1 c1 NEW sell 1@0 market; p3 c2 NEW sell 1@0 market", """
        p1 ACCEPTED c1 o1 #0 s0 sell 1@0 leaves 1
        p1 CANCELLED c1 o1 #0 s0 sell 1@0 leaves 0 MARKET_REMAINDER
        p3 ACCEPTED c2 o2 #0 s0 sell 1@0 leaves 1
        p2 FILL c0 o2 #2 s0 buy 1@97 leaves 1 MAKER m2
        p3 FILL c2 o2 #0 s0 sell 1@97 leaves 0 m2"""),
    ("all or nothing: quantity beyond the collar does not count", DEAR, "p1 c1 NEW buy 2@0 market fok", """
        p1 ACCEPTED c1 o1 #0 s0 buy 2@0 leaves 2
        p1 CANCELLED c1 o1 #0 s0 buy 2@0 leaves 0 FOK_UNFILLABLE"""),
    ("before the first trade there is none, and the largest one reaches all", "p9 c1 ACCOUNT o1 COLLAR_TICKS 9223372036854775807; p2 c1 NEW sell 1@10000; p2 c2 NEW sell 1@10000", "p1 c1 NEW buy 1@0 market; p1 c2 NEW buy 1@0 market", """
        p1 ACCEPTED c1 o1 #0 s0 buy 1@0 leaves 1
        p2 FILL c0 o1 #1 s0 sell 1@10000 leaves 0 MAKER m1
        p1 FILL c1 o1 #0 s0 buy 1@10000 leaves 0 m1
        p1 ACCEPTED c2 o2 #0 s0 buy 1@0 leaves 1
        p2 FILL c0 o2 #2 s0 sell 1@10000 leaves 0 MAKER m2
        p1 FILL c2 o2 #0 s0 buy 1@10000 leaves 0 m2"""),
    ("a market stop, by the trade that triggered it", DEAR + "; p2 c4 NEW sell 9@106; p1 c2 NEW buy 20@0 market stop=102", "p3 c2 NEW buy 2@103", """
        p3 ACCEPTED c2 o2 #0 s0 buy 2@103 leaves 2
        p2 FILL c0 o2 #2 s0 sell 1@102 leaves 0 MAKER m2
        p3 FILL c2 o2 #0 s0 buy 1@102 leaves 1 m2
        p2 FILL c0 o3 #3 s0 sell 1@103 leaves 8 MAKER m3
        p3 FILL c2 o2 #0 s0 buy 1@103 leaves 0 m3
        p1 TRIGGERED c0 o2 #5 s0 buy 20@0 leaves 20 HIDDEN
        p2 FILL c0 o3 #3 s0 sell 8@103 leaves 0 MAKER m4
        p1 FILL c0 o2 #0 s0 buy 8@103 leaves 12 m4
        p1 CANCELLED c0 o2 #0 s0 buy 12@0 leaves 0 MARKET_REMAINDER"""),
    ("an auction has none", DEAR + "; p9 c2 PHASE INTRADAY; p1 c1 NEW buy 2@0 market", "p9 c3 UNCROSS", """
        p2 FILL c0 o2 #2 s0 sell 1@103 leaves 0 MAKER AUCTION m2
        p1 FILL c0 o1 #4 s0 buy 1@103 leaves 1 HIDDEN AUCTION m2
        p2 FILL c0 o3 #3 s0 sell 1@103 leaves 8 MAKER AUCTION m3
        p1 FILL c0 o1 #4 s0 buy 1@103 leaves 0 HIDDEN AUCTION m3
        p9 PHASED c3 o0 #0 s0 buy 2@103 leaves 0 INTRADAY"""),
]  # fmt: skip


@cases(ACCOUNTS, RULES, COLLARS)
def test_events(market: AnyMarket, before: str, text: str, expected: str) -> None:
    assert_case(market, before, text, expected)


SIZES = "p9 c1 ACCOUNT o1 ORDER_LOTS_MAX 10"
NOTIONAL = "p9 c1 ACCOUNT o1 ORDER_NOTIONAL_MAX 1000"
COLLAR = "p9 c1 ACCOUNT o1 COLLAR_TICKS 5"
TRADED = "p2 c1 NEW sell 1@100; p3 c1 NEW buy 1@100"
ORDERS = "p9 c1 ACCOUNT o1 ORDERS_OPEN_MAX 2; p1 c1 NEW buy 1@90; p1 c2 NEW sell 1@110 s1"
POSITION = "p9 c1 ACCOUNT o1 POSITION_LOTS_MAX 10; p2 c1 NEW sell 4@100; p1 c1 NEW buy 4@100; p1 c2 NEW buy 3@90 hidden"
TICKS = "p9 c1 RULE TICK 5; p9 c2 RULE TICK 10 o100; p9 c3 RULE TICK 1 o200; p1 c1 NEW buy 10@90"
LOTS = "p9 c1 RULE LOT 5; p1 c1 NEW buy 10@90"
BAND = "p1 c1 NEW buy 5@100; p9 c1 RULE BAND_LOW 90; p9 c2 RULE BAND_HIGH 110"
CHECKS: list[tuple[str, str, str]] = [
    (SIZES, "p1 c2 NEW buy 10@9", "NONE"), (SIZES, "p1 c2 NEW buy 11@9", "LIMIT_QTY"), (SIZES, "p2 c2 NEW buy 11@9", "NONE"),
    (SIZES + "; p1 c1 NEW buy 9@9", "p1 c2 REPLACE o1 11@9", "LIMIT_QTY"),
    (NOTIONAL, "p1 c2 NEW buy 10@100", "NONE"), (NOTIONAL, "p1 c2 NEW buy 11@91", "LIMIT_NOTIONAL"),
    (NOTIONAL, "p1 c2 NEW buy 999@0 market", "NONE"), (NOTIONAL + "; p1 c1 NEW buy 9@9", "p1 c2 REPLACE o1 9@112", "LIMIT_NOTIONAL"),
    (NOTIONAL + ";" + TRADED, "p1 c2 NEW buy 10@0 market", "NONE"), (NOTIONAL + ";" + TRADED, "p1 c2 NEW sell 11@0 market", "LIMIT_NOTIONAL"),
    (NOTIONAL + "; p2 c1 NEW sell 1@500", "p1 c2 NEW buy 2@0 market", "NONE"), (NOTIONAL + "; p2 c1 NEW sell 1@500", "p1 c2 NEW buy 3@0 market", "LIMIT_NOTIONAL"),
    (NOTIONAL + ";" + TRADED + "; p2 c2 NEW sell 1@500", "p1 c2 NEW buy 3@0 market", "LIMIT_NOTIONAL"),
    (NOTIONAL + ";" + TRADED + "; p9 c2 ACCOUNT o1 COLLAR_TICKS 25", "p1 c2 NEW buy 8@0 market", "NONE"),
    (NOTIONAL + ";" + TRADED + "; p9 c2 ACCOUNT o1 COLLAR_TICKS 25", "p1 c2 NEW buy 9@0 market", "LIMIT_NOTIONAL"),
    (NOTIONAL + ";" + TRADED + "; p9 c2 ACCOUNT o1 COLLAR_TICKS 25", "p1 c2 NEW sell 10@0 market", "NONE"),
    (NOTIONAL, "p1 c3 NEW buy 5@0 market stop=200", "NONE"), (NOTIONAL, "p1 c3 NEW buy 5@0 market stop=201", "LIMIT_NOTIONAL"),
    (NOTIONAL + ";" + TRADED, "p1 c3 NEW buy 5@0 market trail=101", "LIMIT_NOTIONAL"), (NOTIONAL + ";" + TRADED, "p1 c3 NEW buy 11@0 peg=mid", "LIMIT_NOTIONAL"),
    (COLLAR, "p1 c2 NEW buy 1@999", "NONE"), (COLLAR + ";" + TRADED, "p1 c2 NEW buy 1@105", "NONE"),
    (COLLAR + ";" + TRADED, "p1 c2 NEW buy 1@106", "LIMIT_PRICE"), (COLLAR + ";" + TRADED, "p1 c2 NEW buy 1@1", "NONE"),
    (COLLAR + ";" + TRADED, "p1 c2 NEW sell 1@94", "LIMIT_PRICE"), (COLLAR + ";" + TRADED, "p1 c2 NEW sell 1@999", "NONE"),
    (COLLAR + ";" + TRADED + "; p1 c1 NEW buy 1@99", "p1 c2 REPLACE o1 1@106", "LIMIT_PRICE"),
    (ORDERS, "p1 c3 NEW buy 1@91", "LIMIT_ORDERS"), (ORDERS, "p1 c3 NEW buy 1@91 ioc", "NONE"), (ORDERS, "p1 c3 NEW buy 1@0 market", "NONE"),
    (ORDERS, "p1 c4 NEW buy 1@0 market stop=99", "LIMIT_ORDERS"), (ORDERS, "p1 c4 NEW buy 1@90 ioc stop=99", "LIMIT_ORDERS"),
    (ORDERS, "p1 c3 REPLACE o1 5@80", "NONE"), (ORDERS + "; p9 c2 PHASE OPENING", "p1 c3 NEW buy 1@0 market", "LIMIT_ORDERS"),
    (POSITION, "p1 c3 NEW buy 3@80", "NONE"), (POSITION, "p1 c3 NEW buy 4@80", "LIMIT_POSITION"), (POSITION, "p1 c3 NEW sell 14@180", "NONE"),
    (POSITION, "p1 c3 NEW sell 15@180", "LIMIT_POSITION"), (POSITION, "p1 c3 REPLACE o2 6@80", "NONE"),
    (POSITION, "p1 c3 REPLACE o2 7@80", "LIMIT_POSITION"), (POSITION, "p1 c3 NEW buy 10@80 s1", "NONE"),
    (POSITION, "p1 c3 NEW buy 11@80 s1 ioc", "LIMIT_POSITION"),
    (TICKS, "p1 c2 NEW buy 10@95", "NONE"), (TICKS, "p1 c2 NEW buy 10@96", "BAD_PRICE"), (TICKS, "p1 c2 NEW buy 10@105", "BAD_PRICE"),
    (TICKS, "p1 c2 NEW buy 10@110", "NONE"), (TICKS, "p1 c2 NEW buy 10@201", "NONE"), (TICKS, "p1 c2 REPLACE o1 10@91", "BAD_PRICE"),
    (TICKS, "p1 c3 NEW buy 10@90 stop=105", "BAD_TERMS"), (TICKS, "p1 c3 NEW buy 10@90 stop=110", "NONE"),
    (TICKS, "p9 c4 PRINT 1@96", "NONE"), (TICKS, "p1 c2 NEW buy 10@96 s1", "NONE"),
    (LOTS, "p1 c2 NEW buy 7@90", "BAD_QTY"), (LOTS, "p1 c2 REDUCE o1 3@0", "BAD_QTY"), (LOTS, "p1 c2 REPLACE o1 12@90", "BAD_QTY"),
    (LOTS, "p9 c2 PRINT 3@90", "NONE"), (LOTS, "p1 c3 NEW buy 10@90 display=3", "BAD_TERMS"), (LOTS, "p1 c3 NEW buy 10@90 min=3", "BAD_TERMS"),
    (BAND, "p2 c1 NEW sell 1@89", "OUTSIDE_BAND"), (BAND, "p2 c1 NEW sell 1@90", "NONE"), (BAND, "p2 c1 NEW buy 1@111", "OUTSIDE_BAND"),
    (BAND, "p2 c1 NEW buy 1@110", "NONE"), (BAND, "p1 c2 REPLACE o1 5@89", "OUTSIDE_BAND"), (BAND, "p2 c2 NEW buy 1@89 peg=mid", "OUTSIDE_BAND"),
    (BAND, "p2 c2 NEW buy 1@0 peg=mid", "NONE"), (BAND + "; p9 c3 PHASE OPENING", "p2 c1 NEW buy 1@111", "OUTSIDE_BAND"),
    (BAND + "; p9 c3 RULE BAND_ACTION 1", "p2 c1 NEW buy 1@111", "NONE"),
    ("", "p9 c1 PHASE flags=7", "BAD_FLAGS"), ("", "p1 c1 MASS_CANCEL flags=3", "BAD_FLAGS"), ("", "p1 c1 MASS_CANCEL flags=2", "NONE"),
    ("", "p9 c1 PHASE s2 flags=7", "UNKNOWN_SYMBOL"), ("", "p9 c1 UNCROSS s2", "UNKNOWN_SYMBOL"), ("", "p9 c1 RULE s2 LOT 0", "UNKNOWN_SYMBOL"),
    ("", "p1 c1 PHASE flags=7", "NOT_PERMITTED"), ("", "p1 c1 UNCROSS s9", "NOT_PERMITTED"), ("", "p1 c1 TIME", "NOT_PERMITTED"),
    ("", "p9 c1 ACCOUNT s9 o1 KILLED 0", "NONE"),
]  # fmt: skip
KILLED_AND_WRONG = "p1 c1 NEW buy 5@90; p9 c1 ACCOUNT o1 ORDER_LOTS_MAX 1; p9 c2 ACCOUNT o1 KILLED 1; p9 c3 PHASE CLOSED; p9 c4 HALT s1"
IN_ORDER: list[tuple[str, str, str]] = [  # wrong in all that comes later, too
    (KILLED_AND_WRONG, "p1 c2 NEW s1 side=2 0@0", "HALTED"), (KILLED_AND_WRONG, "p1 c2 NEW side=2 0@0 tif=9", "KILLED"),
    ("p9 c3 PHASE CLOSED", "p1 c2 NEW buy 0@0 terms", "BAD_TERMS"), ("p9 c3 PHASE CLOSED", "p1 c2 NEW buy 0@0", "WRONG_PHASE"),
    ("p1 c2 NEW buy 5@90 aon; p9 c3 PHASE CLOSED", "p1 c3 REPLACE o2 0@0", "NOT_REPLACEABLE"),
    ("p1 c2 NEW buy 5@90; p9 c3 PHASE CLOSED", "p1 c3 REPLACE o2 0@0", "WRONG_PHASE"),
    (SIZES + "; p9 c2 RULE BAND_LOW 50", "p1 c2 NEW buy 11@9 post", "OUTSIDE_BAND"),
    (SIZES + "; p9 c2 ACCOUNT o1 ORDER_NOTIONAL_MAX 9", "p1 c2 NEW buy 11@9", "LIMIT_QTY"),
    (NOTIONAL + "; p9 c2 ACCOUNT o1 COLLAR_TICKS 1;" + TRADED, "p1 c2 NEW buy 11@105", "LIMIT_NOTIONAL"),
    (COLLAR + ";" + TRADED + "; p9 c2 ACCOUNT o1 POSITION_LOTS_MAX 1", "p1 c2 NEW buy 2@106", "LIMIT_PRICE"),
    (ORDERS + "; p9 c2 ACCOUNT o1 POSITION_LOTS_MAX 1", "p1 c3 NEW buy 2@95 reduce", "LIMIT_ORDERS"),
    ("p9 c2 ACCOUNT o1 POSITION_LOTS_MAX 1", "p1 c3 NEW buy 2@95 reduce", "LIMIT_POSITION"),
    ("p2 c1 NEW sell 5@95", "p1 c3 NEW buy 2@95 reduce post", "REDUCE_ONLY"),
]  # fmt: skip


def test_a_peg_without_a_limit_stands_within_the_collar(market: AnyMarket) -> None:
    """It follows the last trade too, and the setting itself."""
    before = "p2 c1 NEW sell 1@100; p3 c1 NEW buy 1@100; p2 c2 NEW sell 9@110; p3 c2 NEW buy 9@105; p1 c2 NEW buy 5@0 peg=primary"
    market.submit(parse_all(before))
    stands = []
    for text in ("p9 c1 ACCOUNT o1 COLLAR_TICKS 2", "p4 c1 NEW sell 1@105", "p9 c2 ACCOUNT o1 COLLAR_TICKS 0"):
        stands.append(int(market.specials()["queue_ticks"][0]))
        market.submit(parse_all(text))
        market.validate()
    assert [*stands, int(market.specials()["queue_ticks"][0])] == [105, 102, 105, 105]


@pytest.mark.parametrize(("before", "text", "reason"), CHECKS + IN_ORDER)
def test_the_check_of_a_command(market: AnyMarket, before: str, text: str, reason: str) -> None:
    events = market.submit(parse_all(before))
    assert not events["reason"].any() or "KILLED" in before
    assert Reason(last_reason(market, text)).name == reason
