"""Plain orders, case by case: trading, changes, operator commands, and the order of the checks."""

import pytest

from serl.exchange.records import CommandKind, Reason
from tests.exchange.notation import parse_all, show
from tests.exchange.tables import AnyMarket, Case, assert_case, cases

ASKS = "p1 c1 NEW sell 10@100; p1 c2 NEW sell 5@101; p2 c1 NEW sell 7@100; p2 c2 NEW buy 4@90"
"""Asks: p1 10 and p2 7 at 100 (#1, #3), p1 5 at 101 (#2). Bid: p2 4 at 90 (#4)."""
FULL = "; ".join(f"p1 c{number} NEW buy 1@{number}" for number in range(1, 33))

TRADING: list[Case] = [
    ("rests untouched", "", "p1 c7 NEW buy 10@100 gtc", "p1 ACCEPTED c7 o7 #1 s0 buy 10@100 leaves 10 RESTING"),
    ("best price first, oldest first, at the resting price, in full", ASKS, "p3 c1 NEW buy 19@105", """
        p3 ACCEPTED c1 o1 #0 s0 buy 19@105 leaves 19
        p1 FILL c0 o1 #1 s0 sell 10@100 leaves 0 MAKER m1
        p3 FILL c1 o1 #0 s0 buy 10@100 leaves 9 m1
        p2 FILL c0 o1 #3 s0 sell 7@100 leaves 0 MAKER m2
        p3 FILL c1 o1 #0 s0 buy 7@100 leaves 2 m2
        p1 FILL c0 o2 #2 s0 sell 2@101 leaves 3 MAKER m3
        p3 FILL c1 o1 #0 s0 buy 2@101 leaves 0 m3"""),
    ("DAY: the remainder rests in the book", ASKS, "p3 c1 NEW buy 20@100 day", """
        p3 ACCEPTED c1 o1 #0 s0 buy 20@100 leaves 20
        p1 FILL c0 o1 #1 s0 sell 10@100 leaves 0 MAKER m1
        p3 FILL c1 o1 #0 s0 buy 10@100 leaves 10 m1
        p2 FILL c0 o1 #3 s0 sell 7@100 leaves 0 MAKER m2
        p3 FILL c1 o1 #0 s0 buy 7@100 leaves 3 m2
        p3 RESTED c1 o1 #5 s0 buy 3@100 leaves 3"""),
    ("GTC: the remainder rests in the book", "p1 c1 NEW buy 2@90", "p2 c1 NEW sell 3@80 gtc", """
        p2 ACCEPTED c1 o1 #0 s0 sell 3@80 leaves 3
        p1 FILL c0 o1 #1 s0 buy 2@90 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 2@90 leaves 1 m1
        p2 RESTED c1 o1 #2 s0 sell 1@80 leaves 1"""),
    ("IOC: the remainder is cancelled", "p1 c1 NEW buy 2@90; p1 c2 NEW buy 9@70", "p2 c1 NEW sell 3@80 ioc", """
        p2 ACCEPTED c1 o1 #0 s0 sell 3@80 leaves 3
        p1 FILL c0 o1 #1 s0 buy 2@90 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 2@90 leaves 1 m1
        p2 CANCELLED c1 o1 #0 s0 sell 1@80 leaves 0 IOC_REMAINDER"""),
    ("IOC with nothing to trade", "", "p2 c1 NEW sell 3@80 ioc", """
        p2 ACCEPTED c1 o1 #0 s0 sell 3@80 leaves 3
        p2 CANCELLED c1 o1 #0 s0 sell 3@80 leaves 0 IOC_REMAINDER"""),
    ("FOK trades in full, over two prices", ASKS, "p3 c1 NEW buy 18@101 fok", """
        p3 ACCEPTED c1 o1 #0 s0 buy 18@101 leaves 18
        p1 FILL c0 o1 #1 s0 sell 10@100 leaves 0 MAKER m1
        p3 FILL c1 o1 #0 s0 buy 10@100 leaves 8 m1
        p2 FILL c0 o1 #3 s0 sell 7@100 leaves 0 MAKER m2
        p3 FILL c1 o1 #0 s0 buy 7@100 leaves 1 m2
        p1 FILL c0 o2 #2 s0 sell 1@101 leaves 4 MAKER m3
        p3 FILL c1 o1 #0 s0 buy 1@101 leaves 0 m3"""),
    ("FOK, one lot too many within its limit", ASKS, "p3 c1 NEW buy 18@100 fok", """
        p3 ACCEPTED c1 o1 #0 s0 buy 18@100 leaves 18
        p3 CANCELLED c1 o1 #0 s0 buy 18@100 leaves 0 FOK_UNFILLABLE"""),
    ("FOK to sell, unfillable", ASKS, "p3 c1 NEW sell 5@90 fok", """
        p3 ACCEPTED c1 o1 #0 s0 sell 5@90 leaves 5
        p3 CANCELLED c1 o1 #0 s0 sell 5@90 leaves 0 FOK_UNFILLABLE"""),
    ("market order: no limit, the remainder is cancelled even if DAY", "p1 c1 NEW sell 1@10000", "p2 c1 NEW buy 3@0 market day", """
        p2 ACCEPTED c1 o1 #0 s0 buy 3@0 leaves 3
        p1 FILL c0 o1 #1 s0 sell 1@10000 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 1@10000 leaves 2 m1
        p2 CANCELLED c1 o1 #0 s0 buy 2@0 leaves 0 MARKET_REMAINDER"""),
    ("market order to sell, IOC, reaches price 1", "p1 c1 NEW buy 1@1", "p2 c1 NEW sell 2@0 market ioc", """
        p2 ACCEPTED c1 o1 #0 s0 sell 2@0 leaves 2
        p1 FILL c0 o1 #1 s0 buy 1@1 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 1@1 leaves 1 m1
        p2 CANCELLED c1 o1 #0 s0 sell 1@0 leaves 0 MARKET_REMAINDER"""),
    ("market FOK stays all or nothing", ASKS, "p3 c1 NEW buy 23@0 market fok; p3 c2 NEW buy 4@0 market fok", """
        p3 ACCEPTED c1 o1 #0 s0 buy 23@0 leaves 23
        p3 CANCELLED c1 o1 #0 s0 buy 23@0 leaves 0 FOK_UNFILLABLE
        p3 ACCEPTED c2 o2 #0 s0 buy 4@0 leaves 4
        p1 FILL c0 o1 #1 s0 sell 4@100 leaves 6 MAKER m1
        p3 FILL c2 o2 #0 s0 buy 4@100 leaves 0 m1"""),
    ("market order into an empty book", "", "p1 c1 NEW sell 5@0 market gtc", """
        p1 ACCEPTED c1 o1 #0 s0 sell 5@0 leaves 5
        p1 CANCELLED c1 o1 #0 s0 sell 5@0 leaves 0 MARKET_REMAINDER"""),
    ("post-only rests if it does not trade", ASKS, "p3 c1 NEW buy 1@99 post; p3 c2 NEW sell 1@91 gtc post", """
        p3 ACCEPTED c1 o1 #5 s0 buy 1@99 leaves 1 RESTING
        p3 REJECTED c2 o2 #0 s0 sell 1@91 leaves 0 WOULD_CROSS"""),
    ("post-only at the touch of the other side", ASKS, "p3 c1 NEW buy 1@100 post; p3 c2 NEW sell 1@91 post", """
        p3 REJECTED c1 o1 #0 s0 buy 1@100 leaves 0 WOULD_CROSS
        p3 ACCEPTED c2 o2 #5 s0 sell 1@91 leaves 1 RESTING"""),
    ("a participant trades with itself; a partial fill keeps priority", ASKS, "p1 c3 NEW buy 4@100; p3 c1 NEW buy 7@100", """
        p1 ACCEPTED c3 o3 #0 s0 buy 4@100 leaves 4
        p1 FILL c0 o1 #1 s0 sell 4@100 leaves 6 MAKER m1
        p1 FILL c3 o3 #0 s0 buy 4@100 leaves 0 m1
        p3 ACCEPTED c1 o1 #0 s0 buy 7@100 leaves 7
        p1 FILL c0 o1 #1 s0 sell 6@100 leaves 0 MAKER m2
        p3 FILL c1 o1 #0 s0 buy 6@100 leaves 1 m2
        p2 FILL c0 o1 #3 s0 sell 1@100 leaves 6 MAKER m3
        p3 FILL c1 o1 #0 s0 buy 1@100 leaves 0 m3"""),
    ("symbols do not trade with each other", ASKS, "p3 c1 NEW buy 1@100 s1", "p3 ACCEPTED c1 o1 #5 s1 buy 1@100 leaves 1 RESTING"),
]  # fmt: skip

CHANGING: list[Case] = [
    ("CANCEL", ASKS, "p1 c3 CANCEL o1; p1 c4 CANCEL o1", """
        p1 CANCELLED c3 o1 #1 s0 sell 10@100 leaves 0 REQUESTED RESTING
        p1 REJECTED c4 o1 #0 s0 buy 0@0 leaves 0 UNKNOWN_ORDER"""),
    ("CANCEL of the open quantity after a fill", ASKS + "; p3 c1 NEW buy 4@100", "p1 c3 CANCEL o1",
        "p1 CANCELLED c3 o1 #1 s0 sell 6@100 leaves 0 REQUESTED RESTING"),
    ("REDUCE keeps priority", ASKS, "p1 c3 REDUCE o1 4@0; p3 c1 NEW buy 7@100 ioc", """
        p1 REDUCED c3 o1 #1 s0 sell 4@100 leaves 6
        p3 ACCEPTED c1 o1 #0 s0 buy 7@100 leaves 7
        p1 FILL c0 o1 #1 s0 sell 6@100 leaves 0 MAKER m1
        p3 FILL c1 o1 #0 s0 buy 6@100 leaves 1 m1
        p2 FILL c0 o1 #3 s0 sell 1@100 leaves 6 MAKER m2
        p3 FILL c1 o1 #0 s0 buy 1@100 leaves 0 m2"""),
    ("REDUCE by the whole open quantity", ASKS, "p1 c3 REDUCE o1 10@0",
        "p1 CANCELLED c3 o1 #1 s0 sell 10@100 leaves 0 REQUESTED RESTING"),
    ("REDUCE by more than what is open", ASKS, "p1 c3 REDUCE o2 1000@0",
        "p1 CANCELLED c3 o2 #2 s0 sell 5@101 leaves 0 REQUESTED RESTING"),
    ("REDUCE by all but one", ASKS, "p1 c3 REDUCE o1 9@0", "p1 REDUCED c3 o1 #1 s0 sell 9@100 leaves 1"),
    ("REPLACE, same price, smaller total: priority kept", ASKS, "p1 c3 REPLACE o1 8@100; p3 c1 NEW buy 1@100", """
        p1 REDUCED c3 o1 #1 s0 sell 2@100 leaves 8
        p3 ACCEPTED c1 o1 #0 s0 buy 1@100 leaves 1
        p1 FILL c0 o1 #1 s0 sell 1@100 leaves 7 MAKER m1
        p3 FILL c1 o1 #0 s0 buy 1@100 leaves 0 m1"""),
    ("REPLACE to the same: nothing reduced, priority kept", ASKS, "p1 c3 REPLACE o1 10@100; p3 c1 NEW buy 1@100", """
        p1 REDUCED c3 o1 #1 s0 sell 0@100 leaves 10
        p3 ACCEPTED c1 o1 #0 s0 buy 1@100 leaves 1
        p1 FILL c0 o1 #1 s0 sell 1@100 leaves 9 MAKER m1
        p3 FILL c1 o1 #0 s0 buy 1@100 leaves 0 m1"""),
    ("REPLACE, same price, larger total: after the last order", ASKS, "p1 c3 REPLACE o1 11@100; p3 c1 NEW buy 8@100", """
        p1 REPLACED c3 o1 #1 s0 sell 10@100 leaves 11
        p1 RESTED c3 o1 #5 s0 sell 11@100 leaves 11
        p3 ACCEPTED c1 o1 #0 s0 buy 8@100 leaves 8
        p2 FILL c0 o1 #3 s0 sell 7@100 leaves 0 MAKER m1
        p3 FILL c1 o1 #0 s0 buy 7@100 leaves 1 m1
        p1 FILL c0 o1 #5 s0 sell 1@100 leaves 10 MAKER m2
        p3 FILL c1 o1 #0 s0 buy 1@100 leaves 0 m2"""),
    ("REPLACE, other price, smaller total: priority lost", ASKS, "p1 c3 REPLACE o1 2@102; p2 c3 REPLACE o1 3@101", """
        p1 REPLACED c3 o1 #1 s0 sell 10@100 leaves 2
        p1 RESTED c3 o1 #5 s0 sell 2@102 leaves 2
        p2 REPLACED c3 o1 #3 s0 sell 7@100 leaves 3
        p2 RESTED c3 o1 #6 s0 sell 3@101 leaves 3"""),
    ("REPLACE there and back: the place is lost", ASKS, "p1 c3 REPLACE o1 10@99; p1 c4 REPLACE o1 10@100; p3 c1 NEW buy 1@100", """
        p1 REPLACED c3 o1 #1 s0 sell 10@100 leaves 10
        p1 RESTED c3 o1 #5 s0 sell 10@99 leaves 10
        p1 REPLACED c4 o1 #5 s0 sell 10@99 leaves 10
        p1 RESTED c4 o1 #6 s0 sell 10@100 leaves 10
        p3 ACCEPTED c1 o1 #0 s0 buy 1@100 leaves 1
        p2 FILL c0 o1 #3 s0 sell 1@100 leaves 6 MAKER m1
        p3 FILL c1 o1 #0 s0 buy 1@100 leaves 0 m1"""),
    ("REPLACE trades first if it crosses, the rest rests", ASKS, "p2 c3 REPLACE o2 20@100", """
        p2 REPLACED c3 o2 #4 s0 buy 4@90 leaves 20
        p1 FILL c0 o1 #1 s0 sell 10@100 leaves 0 MAKER m1
        p2 FILL c3 o2 #0 s0 buy 10@100 leaves 10 m1
        p2 FILL c0 o1 #3 s0 sell 7@100 leaves 0 MAKER m2
        p2 FILL c3 o2 #0 s0 buy 7@100 leaves 3 m2
        p2 RESTED c3 o2 #5 s0 buy 3@100 leaves 3"""),
    ("REPLACE trades in full: gone", ASKS, "p2 c3 REPLACE o2 4@101; p2 c4 CANCEL o2", """
        p2 REPLACED c3 o2 #4 s0 buy 4@90 leaves 4
        p1 FILL c0 o1 #1 s0 sell 4@100 leaves 6 MAKER m1
        p2 FILL c3 o2 #0 s0 buy 4@100 leaves 0 m1
        p2 REJECTED c4 o2 #0 s0 buy 0@0 leaves 0 UNKNOWN_ORDER"""),
    ("REPLACE: the total counts what is filled", ASKS + "; p3 c1 NEW buy 4@100",
        "p1 c3 REPLACE o1 9@100; p1 c4 REPLACE o1 10@100; p1 c5 REPLACE o1 5@99", """
        p1 REDUCED c3 o1 #1 s0 sell 1@100 leaves 5
        p1 REPLACED c4 o1 #1 s0 sell 5@100 leaves 6
        p1 RESTED c4 o1 #5 s0 sell 6@100 leaves 6
        p1 REPLACED c5 o1 #5 s0 sell 6@100 leaves 1
        p1 RESTED c5 o1 #6 s0 sell 1@99 leaves 1"""),
    ("REPLACE to what is filled cancels", ASKS + "; p3 c1 NEW buy 4@100", "p1 c3 REPLACE o1 4@100",
        "p1 CANCELLED c3 o1 #1 s0 sell 6@100 leaves 0 REPLACED_BELOW_FILLED RESTING"),
    ("REPLACE below what is filled, other price, cancels", ASKS + "; p3 c1 NEW buy 4@100", "p1 c3 REPLACE o1 3@90",
        "p1 CANCELLED c3 o1 #1 s0 sell 6@100 leaves 0 REPLACED_BELOW_FILLED RESTING"),
    ("REDUCE lowers the total, not the filled part", ASKS + "; p3 c1 NEW buy 4@100", "p1 c3 REDUCE o1 2@0; p1 c4 REPLACE o1 8@100", """
        p1 REDUCED c3 o1 #1 s0 sell 2@100 leaves 4
        p1 REDUCED c4 o1 #1 s0 sell 0@100 leaves 4"""),
    ("REPLACE of a post-only order that would trade: the old order stays", ASKS + "; p3 c1 NEW buy 2@95 post",
        "p3 c2 REPLACE o1 2@100; p3 c3 REPLACE o1 3@99; p3 c4 CANCEL o1", """
        p3 REJECTED c2 o1 #0 s0 buy 2@100 leaves 0 WOULD_CROSS
        p3 REPLACED c3 o1 #5 s0 buy 2@95 leaves 3
        p3 RESTED c3 o1 #6 s0 buy 3@99 leaves 3
        p3 CANCELLED c4 o1 #6 s0 buy 3@99 leaves 0 REQUESTED RESTING"""),
    ("orders are named by participant and command id", ASKS, "p2 c3 CANCEL o1; p3 c1 CANCEL o1", """
        p2 CANCELLED c3 o1 #3 s0 sell 7@100 leaves 0 REQUESTED RESTING
        p3 REJECTED c1 o1 #0 s0 buy 0@0 leaves 0 UNKNOWN_ORDER"""),
]  # fmt: skip

MANY = "p1 c1 NEW buy 1@90; p1 c2 NEW sell 2@110 s1 gtc; p2 c1 NEW buy 3@95; p1 c3 NEW buy 4@95; p1 c4 NEW buy 5@95 gtc; p1 c5 NEW sell 6@99"
OPERATING: list[Case] = [
    ("MASS_CANCEL of a symbol", MANY, "p1 c6 MASS_CANCEL s0", """
        p1 CANCELLED c6 o3 #4 s0 buy 4@95 leaves 0 MASS_CANCEL RESTING
        p1 CANCELLED c6 o4 #5 s0 buy 5@95 leaves 0 MASS_CANCEL RESTING
        p1 CANCELLED c6 o1 #1 s0 buy 1@90 leaves 0 MASS_CANCEL RESTING
        p1 CANCELLED c6 o5 #6 s0 sell 6@99 leaves 0 MASS_CANCEL RESTING
        p1 MASS_CANCELLED c6 o0 #0 s0 buy 4@0 leaves 0"""),
    ("MASS_CANCEL everywhere, on disconnect", MANY, "p1 c0 MASS_CANCEL s65535 reason=37", """
        p1 CANCELLED c0 o3 #4 s0 buy 4@95 leaves 0 DISCONNECT RESTING
        p1 CANCELLED c0 o4 #5 s0 buy 5@95 leaves 0 DISCONNECT RESTING
        p1 CANCELLED c0 o1 #1 s0 buy 1@90 leaves 0 DISCONNECT RESTING
        p1 CANCELLED c0 o5 #6 s0 sell 6@99 leaves 0 DISCONNECT RESTING
        p1 CANCELLED c0 o2 #2 s1 sell 2@110 leaves 0 DISCONNECT RESTING
        p1 MASS_CANCELLED c0 o0 #0 s65535 buy 5@0 leaves 0"""),
    ("MASS_CANCEL of nothing", MANY, "p3 c1 MASS_CANCEL s65535", "p3 MASS_CANCELLED c1 o0 #0 s65535 buy 0@0 leaves 0"),
    ("END_DAY cancels all DAY orders; only the operator's own carry its command id", MANY + "; p9 c1 NEW sell 1@99", "p9 c2 END_DAY", """
        p2 CANCELLED c0 o1 #3 s0 buy 3@95 leaves 0 DAY_END RESTING
        p1 CANCELLED c0 o3 #4 s0 buy 4@95 leaves 0 DAY_END RESTING
        p1 CANCELLED c0 o1 #1 s0 buy 1@90 leaves 0 DAY_END RESTING
        p1 CANCELLED c0 o5 #6 s0 sell 6@99 leaves 0 DAY_END RESTING
        p9 CANCELLED c2 o1 #7 s0 sell 1@99 leaves 0 DAY_END RESTING
        p9 DAY_ENDED c2 o0 #0 s0 buy 5@0 leaves 0"""),
    ("HALT: cancelling works, trading does not, other symbols go on", ASKS,
        "p9 c1 HALT s0; p3 c1 NEW buy 1@100; p1 c3 REPLACE o1 9@100; p1 c4 REDUCE o1 1@0; p1 c5 CANCEL o2; p3 c2 NEW buy 1@9 s1; "
        "p9 c2 PRINT sell 5@100; p2 c3 MASS_CANCEL s0; p9 c3 END_DAY; p9 c4 RESUME s0; p3 c3 NEW buy 1@100", """
        p9 HALTED c1 o0 #0 s0 buy 0@0 leaves 0
        p3 REJECTED c1 o1 #0 s0 buy 1@100 leaves 0 HALTED
        p1 REJECTED c3 o1 #0 s0 buy 9@100 leaves 0 HALTED
        p1 REDUCED c4 o1 #1 s0 sell 1@100 leaves 9
        p1 CANCELLED c5 o2 #2 s0 sell 5@101 leaves 0 REQUESTED RESTING
        p3 ACCEPTED c2 o2 #5 s1 buy 1@9 leaves 1 RESTING
        p9 PRINT c2 o0 #0 s0 sell 5@100 leaves 0 m1
        p2 CANCELLED c3 o2 #4 s0 buy 4@90 leaves 0 MASS_CANCEL RESTING
        p2 CANCELLED c3 o1 #3 s0 sell 7@100 leaves 0 MASS_CANCEL RESTING
        p2 MASS_CANCELLED c3 o0 #0 s0 buy 2@0 leaves 0
        p1 CANCELLED c0 o1 #1 s0 sell 9@100 leaves 0 DAY_END RESTING
        p3 CANCELLED c0 o2 #5 s1 buy 1@9 leaves 0 DAY_END RESTING
        p9 DAY_ENDED c3 o0 #0 s0 buy 2@0 leaves 0
        p9 RESUMED c4 o0 #0 s0 buy 0@0 leaves 0
        p3 ACCEPTED c3 o3 #6 s0 buy 1@100 leaves 1 RESTING"""),
    ("PRINT counts among the matches and changes nothing", ASKS, "p9 c1 PRINT sell 500@95; p3 c1 NEW buy 1@100", """
        p9 PRINT c1 o0 #0 s0 sell 500@95 leaves 0 m1
        p3 ACCEPTED c1 o1 #0 s0 buy 1@100 leaves 1
        p1 FILL c0 o1 #1 s0 sell 1@100 leaves 9 MAKER m2
        p3 FILL c1 o1 #0 s0 buy 1@100 leaves 0 m2"""),
    ("a refused command uses up its id, a stale one nothing", "p1 c5 NEW buy 1@0",
        "p1 c5 NEW buy 1@50; p1 c4 NEW buy 1@50; p1 c6 NEW buy 1@50; p1 c6 CANCEL o6; p1 c7 CANCEL o6", """
        p1 REJECTED c5 o5 #0 s0 buy 1@50 leaves 0 STALE_COMMAND_ID
        p1 REJECTED c4 o4 #0 s0 buy 1@50 leaves 0 STALE_COMMAND_ID
        p1 ACCEPTED c6 o6 #1 s0 buy 1@50 leaves 1 RESTING
        p1 REJECTED c6 o6 #0 s0 buy 0@0 leaves 0 STALE_COMMAND_ID
        p1 CANCELLED c7 o6 #1 s0 buy 1@50 leaves 0 REQUESTED RESTING"""),
    ("stale ids of operators and mass cancels; negative ids", ASKS, "p9 c2 HALT s1; p9 c2 RESUME s1; p1 c1 MASS_CANCEL s0; p3 c-1 NEW buy 1@1", """
        p9 HALTED c2 o0 #0 s1 buy 0@0 leaves 0
        p9 REJECTED c2 o0 #0 s1 buy 0@0 leaves 0 STALE_COMMAND_ID
        p1 REJECTED c1 o0 #0 s0 buy 0@0 leaves 0 STALE_COMMAND_ID
        p3 REJECTED c-1 o-1 #0 s0 buy 1@1 leaves 0 STALE_COMMAND_ID"""),
    ("a full book: what cannot rest still trades, a place that is free is used", FULL,
        "p2 c1 NEW buy 1@40 gtc; p2 c2 NEW sell 1@32 ioc; p2 c3 NEW sell 1@50; p1 c33 REPLACE o1 5@2; p2 c4 NEW sell 1@60", """
        p2 REJECTED c1 o1 #0 s0 buy 1@40 leaves 0 BOOK_FULL
        p2 ACCEPTED c2 o2 #0 s0 sell 1@32 leaves 1
        p1 FILL c0 o32 #32 s0 buy 1@32 leaves 0 MAKER m1
        p2 FILL c2 o2 #0 s0 sell 1@32 leaves 0 m1
        p2 ACCEPTED c3 o3 #33 s0 sell 1@50 leaves 1 RESTING
        p1 REPLACED c33 o1 #1 s0 buy 1@1 leaves 5
        p1 RESTED c33 o1 #34 s0 buy 5@2 leaves 5
        p2 REJECTED c4 o4 #0 s0 sell 1@60 leaves 0 BOOK_FULL"""),
]  # fmt: skip

# Each of these is wrong in all that comes after its own fault, too: the first check that fails gives the reason.
PREPARED = ASKS + "; p3 c1 NEW buy 2@95 post; p9 c1 HALT s1; p5 c1 NEW buy 9@9"
CHECKS: list[tuple[str, Reason]] = [
    ("p1 c2 kind=99 s9 o99", Reason.STALE_COMMAND_ID),
    ("p1 c1 NEW s9 side=7 0@0", Reason.STALE_COMMAND_ID),
    ("p1 c8 kind=0", Reason.UNKNOWN_KIND),
    ("p1 c8 kind=7 s9", Reason.UNKNOWN_KIND),
    ("p1 c8 kind=15 o1", Reason.UNKNOWN_KIND),
    ("p9 c8 kind=27", Reason.UNKNOWN_KIND),
    ("p9 c8 kind=255", Reason.UNKNOWN_KIND),
    ("p1 c8 END_DAY", Reason.NOT_PERMITTED),
    ("p1 c8 HALT s9", Reason.NOT_PERMITTED),
    ("p1 c8 RESUME s9", Reason.NOT_PERMITTED),
    ("p1 c8 PRINT s9 side=2 0@0", Reason.NOT_PERMITTED),
    ("p1 c8 NEW s2 side=2 0@0 tif=9 flags=255", Reason.UNKNOWN_SYMBOL),
    ("p1 c8 NEW s65535 buy 1@1", Reason.UNKNOWN_SYMBOL),
    ("p1 c8 MASS_CANCEL s2", Reason.UNKNOWN_SYMBOL),
    ("p1 c8 MASS_CANCEL s65534", Reason.UNKNOWN_SYMBOL),
    ("p9 c8 HALT s2", Reason.UNKNOWN_SYMBOL),
    ("p9 c8 RESUME s65535", Reason.UNKNOWN_SYMBOL),
    ("p9 c8 PRINT s2 side=2 0@0", Reason.UNKNOWN_SYMBOL),
    ("p1 c8 CANCEL o99", Reason.UNKNOWN_ORDER),
    ("p1 c8 CANCEL o0", Reason.UNKNOWN_ORDER),
    ("p3 c8 CANCEL o2", Reason.UNKNOWN_ORDER),
    ("p1 c8 REDUCE o99 0@0", Reason.UNKNOWN_ORDER),
    ("p1 c8 REPLACE o99 0@0", Reason.UNKNOWN_ORDER),
    ("p1 c8 REPLACE o-1 0@0", Reason.UNKNOWN_ORDER),
    ("p1 c8 NEW s1 side=2 0@0 tif=9 flags=255", Reason.HALTED),
    ("p1 c8 NEW side=2 0@0 tif=9 flags=255", Reason.BAD_SIDE),
    ("p9 c8 PRINT side=2 0@0", Reason.BAD_SIDE),
    ("p1 c8 NEW 0@0 tif=7 flags=255", Reason.BAD_TIME_IN_FORCE),
    ("p1 c8 NEW 0@0 flags=64", Reason.BAD_FLAGS),
    ("p1 c8 NEW 0@0 flags=128", Reason.BAD_FLAGS),
    ("p1 c8 NEW 0@5 market post", Reason.BAD_FLAGS),
    ("p1 c8 NEW 0@0 post ioc", Reason.BAD_FLAGS),
    ("p1 c8 NEW 0@0 post fok", Reason.BAD_FLAGS),
    ("p1 c8 NEW 0@0", Reason.BAD_QTY),
    ("p1 c8 NEW -1@0", Reason.BAD_QTY),
    ("p1 c8 NEW 1001@0", Reason.BAD_QTY),
    ("p1 c8 NEW 0@5 market", Reason.BAD_QTY),
    ("p1 c8 REDUCE o1 0@0", Reason.BAD_QTY),
    ("p1 c8 REDUCE o1 1001@0", Reason.BAD_QTY),
    ("p1 c8 REPLACE o1 0@0", Reason.BAD_QTY),
    ("p1 c8 REPLACE o1 1001@0", Reason.BAD_QTY),
    ("p9 c8 PRINT 0@0", Reason.BAD_QTY),
    ("p9 c8 PRINT 1001@0", Reason.BAD_QTY),
    ("p1 c8 NEW 1@0 post", Reason.BAD_PRICE),
    ("p1 c8 NEW 1@-1", Reason.BAD_PRICE),
    ("p1 c8 NEW 1000@10001 post", Reason.BAD_PRICE),
    ("p1 c8 NEW 1@100 market", Reason.BAD_PRICE),
    ("p1 c8 REPLACE o1 1@0", Reason.BAD_PRICE),
    ("p3 c8 REPLACE o1 1@10001", Reason.BAD_PRICE),
    ("p9 c8 PRINT 1@0", Reason.BAD_PRICE),
    ("p9 c8 PRINT 1@10001", Reason.BAD_PRICE),
    ("p1 c8 NEW 1@100 post", Reason.WOULD_CROSS),
    ("p3 c8 REPLACE o1 1000@10000", Reason.WOULD_CROSS),
]


@cases(TRADING, CHANGING, OPERATING)
def test_events(market: AnyMarket, before: str, text: str, expected: str) -> None:
    assert_case(market, before, text, expected)


@pytest.mark.parametrize(("text", "reason"), CHECKS)
def test_first_check_that_fails_gives_the_reason_and_changes_nothing(
    market: AnyMarket, text: str, reason: Reason
) -> None:
    market.submit(parse_all(PREPARED))
    before, sent = market.snapshot(), parse_all(text)
    events = market.submit(sent)
    assert len(events) == 1
    order_id = sent[0]["command_id"] if sent[0]["kind"] == CommandKind.NEW else sent[0]["order_id"]
    answer = f"p{sent[0]['participant']} REJECTED c{sent[0]['command_id']} o{order_id} #0 s{sent[0]['symbol']}"
    assert show(events[0]).startswith(answer)
    assert show(events[0]).endswith(f" {sent[0]['qty_lots']}@{sent[0]['price_ticks']} leaves 0 {reason.name}")
    after = market.snapshot()
    for name in ("orders", "balances", "halted"):
        kept = min(len(getattr(before, name)), len(getattr(after, name)))
        assert (getattr(after, name)[:kept] == getattr(before, name)[:kept]).all(), name
    used = 0 if reason == Reason.STALE_COMMAND_ID else 8
    assert after.last_command_id[sent[0]["participant"]] == max(before.last_command_id[sent[0]["participant"]], used)


@pytest.mark.parametrize(
    ("command", "reason"),
    [("p1 c33 NEW sell 1@20 post", Reason.WOULD_CROSS), ("p1 c33 NEW sell 1@40 post", Reason.BOOK_FULL)],
)
def test_book_full_is_the_last_check(market: AnyMarket, command: str, reason: Reason) -> None:
    market.submit(parse_all(FULL))
    assert Reason(market.submit(parse_all(command))[0]["reason"]) == reason


@pytest.mark.parametrize(
    ("before", "command", "shown"),
    [
        (
            "p1 c1 NEW sell 10@100 gtc post; p2 c1 NEW buy 4@100; p2 c2 NEW buy 1@99",
            "p1 c2 REPLACE o1 4@99",
            "p1 CANCELLED c2 o1 #1 s0 sell 6@100 leaves 0 REPLACED_BELOW_FILLED RESTING",
        ),
        (
            "p1 c1 NEW sell 10@100; p1 c2 REDUCE o1 4@0",
            "p1 c3 REPLACE o1 7@100",
            "p1 REPLACED c3 o1 #1 s0 sell 6@100 leaves 7",
        ),
        ("", "p1 c-1 NEW buy 1@10", "p1 REJECTED c-1 o-1 #0 s0 buy 1@10 leaves 0 STALE_COMMAND_ID"),
        ("", "p1 c0 NEW buy 1@10", "p1 REJECTED c0 o0 #0 s0 buy 1@10 leaves 0 STALE_COMMAND_ID"),
        ("", "p1 c0 NEW buy 1@10 hidden", "p1 REJECTED c0 o0 #0 s0 buy 1@10 leaves 0 STALE_COMMAND_ID"),
        ("", "p1 c1 MASS_CANCEL o7 s1 sell", "p1 MASS_CANCELLED c1 o7 #0 s1 sell 0@0 leaves 0"),
        ("", "p9 c1 END_DAY o7 s1 sell", "p9 DAY_ENDED c1 o7 #0 s1 sell 0@0 leaves 0"),
        ("", "p9 c1 HALT o7 s1 sell", "p9 HALTED c1 o7 #0 s1 sell 0@0 leaves 0"),
        ("", "p9 c1 RESUME o7 s1 sell", "p9 RESUMED c1 o7 #0 s1 sell 0@0 leaves 0"),
        ("", "p9 c1 PRINT o7 s1 sell 3@50", "p9 PRINT c1 o7 #0 s1 sell 3@50 leaves 0 m1"),
    ],
)
def test_first_event(market: AnyMarket, before: str, command: str, shown: str) -> None:
    market.submit(parse_all(before))
    assert show(market.submit(parse_all(command))[0]) == shown


def test_a_halted_order_cannot_be_replaced_whatever_the_symbol_of_the_command(market: AnyMarket) -> None:
    events = market.submit(
        parse_all(
            "p1 c1 NEW buy 5@10 s1; p9 c1 HALT s1; p1 c2 REPLACE o1 0@0 s0; p9 c2 RESUME s1; p1 c3 REPLACE o1 6@10 s0"
        )
    )
    assert [show(event) for event in events[2:]] == [
        "p1 REJECTED c2 o1 #0 s0 buy 0@0 leaves 0 HALTED",
        "p9 RESUMED c2 o0 #0 s1 buy 0@0 leaves 0",
        "p1 REPLACED c3 o1 #1 s1 buy 5@10 leaves 6",
        "p1 RESTED c3 o1 #2 s1 buy 6@10 leaves 6",
    ]
