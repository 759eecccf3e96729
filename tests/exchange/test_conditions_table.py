"""Icebergs, hidden orders, minimum quantities and all-or-none orders, case by case."""

from tests.exchange.tables import AnyMarket, Case, assert_case, cases

ICEBERG: list[Case] = [
    ("rests with its displayed part", "", "p1 c10 NEW buy 10@100 gtc display=3",
        "p1 ACCEPTED c10 o10 #1 s0 buy 3@100 leaves 10 RESTING"),
    ("a display of the whole quantity or more hides nothing", "", "p1 c10 NEW buy 10@100 display=10; p1 c20 NEW buy 10@99 display=11", """
        p1 ACCEPTED c10 o10 #1 s0 buy 10@100 leaves 10 RESTING
        p1 ACCEPTED c20 o20 #2 s0 buy 10@99 leaves 10 RESTING"""),
    ("the next part queues after the others", "p1 c10 NEW sell 10@100 display=4; p2 c1 NEW sell 5@100", "p3 c1 NEW buy 11@100", """
        p3 ACCEPTED c1 o1 #0 s0 buy 11@100 leaves 11
        p1 FILL c0 o10 #1 s0 sell 4@100 leaves 6 MAKER m1
        p3 FILL c1 o1 #0 s0 buy 4@100 leaves 7 m1
        p1 RESTED c0 o10 #3 s0 sell 4@100 leaves 6
        p2 FILL c0 o1 #2 s0 sell 5@100 leaves 0 MAKER m2
        p3 FILL c1 o1 #0 s0 buy 5@100 leaves 2 m2
        p1 FILL c0 o10 #3 s0 sell 2@100 leaves 4 MAKER m3
        p3 FILL c1 o1 #0 s0 buy 2@100 leaves 0 m3"""),
    ("part by part, the last part smaller", "p1 c10 NEW sell 10@100 display=4", "p3 c1 NEW buy 12@100", """
        p3 ACCEPTED c1 o1 #0 s0 buy 12@100 leaves 12
        p1 FILL c0 o10 #1 s0 sell 4@100 leaves 6 MAKER m1
        p3 FILL c1 o1 #0 s0 buy 4@100 leaves 8 m1
        p1 RESTED c0 o10 #2 s0 sell 4@100 leaves 6
        p1 FILL c0 o10 #2 s0 sell 4@100 leaves 2 MAKER m2
        p3 FILL c1 o1 #0 s0 buy 4@100 leaves 4 m2
        p1 RESTED c0 o10 #3 s0 sell 2@100 leaves 2
        p1 FILL c0 o10 #3 s0 sell 2@100 leaves 0 MAKER m3
        p3 FILL c1 o1 #0 s0 buy 2@100 leaves 2 m3
        p3 RESTED c1 o1 #4 s0 buy 2@100 leaves 2"""),
    ("the remainder after trading on arrival is split", "p1 c1 NEW sell 5@100", "p2 c10 NEW buy 12@100 display=3", """
        p2 ACCEPTED c10 o10 #0 s0 buy 12@100 leaves 12
        p1 FILL c0 o1 #1 s0 sell 5@100 leaves 0 MAKER m1
        p2 FILL c10 o10 #0 s0 buy 5@100 leaves 7 m1
        p2 RESTED c10 o10 #2 s0 buy 3@100 leaves 7"""),
    ("a sweep takes an iceberg with its reserve before the next price", "p1 c10 NEW sell 6@100 display=2; p2 c1 NEW sell 1@101", "p3 c1 NEW buy 7@101 fok", """
        p3 ACCEPTED c1 o1 #0 s0 buy 7@101 leaves 7
        p1 FILL c0 o10 #1 s0 sell 2@100 leaves 4 MAKER m1
        p3 FILL c1 o1 #0 s0 buy 2@100 leaves 5 m1
        p1 RESTED c0 o10 #3 s0 sell 2@100 leaves 4
        p1 FILL c0 o10 #3 s0 sell 2@100 leaves 2 MAKER m2
        p3 FILL c1 o1 #0 s0 buy 2@100 leaves 3 m2
        p1 RESTED c0 o10 #4 s0 sell 2@100 leaves 2
        p1 FILL c0 o10 #4 s0 sell 2@100 leaves 0 MAKER m3
        p3 FILL c1 o1 #0 s0 buy 2@100 leaves 1 m3
        p2 FILL c0 o1 #2 s0 sell 1@101 leaves 0 MAKER m4
        p3 FILL c1 o1 #0 s0 buy 1@101 leaves 0 m4"""),
    ("REDUCE takes from the reserve first", "p1 c10 NEW sell 10@100 display=4", "p1 c11 REDUCE o10 5@0; p1 c12 REDUCE o10 3@0; p1 c13 REDUCE o10 2@0", """
        p1 REDUCED c11 o10 #1 s0 sell 5@100 leaves 5 HIDDEN
        p1 REDUCED c12 o10 #1 s0 sell 1@100 leaves 4 HIDDEN
        p1 REDUCED c12 o10 #1 s0 sell 2@100 leaves 2
        p1 CANCELLED c13 o10 #1 s0 sell 2@100 leaves 0 REQUESTED RESTING"""),
    ("REDUCE of the displayed part only after the reserve", "p1 c10 NEW sell 10@100 display=4", "p1 c11 REDUCE o10 6@0; p1 c12 REDUCE o10 1@0", """
        p1 REDUCED c11 o10 #1 s0 sell 6@100 leaves 4 HIDDEN
        p1 REDUCED c12 o10 #1 s0 sell 1@100 leaves 3"""),
    ("CANCEL reports the reserve first", "p1 c10 NEW sell 10@100 display=4", "p1 c11 CANCEL o10", """
        p1 REDUCED c11 o10 #1 s0 sell 6@100 leaves 4 REQUESTED HIDDEN
        p1 CANCELLED c11 o10 #1 s0 sell 4@100 leaves 0 REQUESTED RESTING"""),
    ("MASS_CANCEL reports the reserve first and counts one order", "p1 c10 NEW sell 10@100 display=4", "p1 c11 MASS_CANCEL s0", """
        p1 REDUCED c11 o10 #1 s0 sell 6@100 leaves 4 MASS_CANCEL HIDDEN
        p1 CANCELLED c11 o10 #1 s0 sell 4@100 leaves 0 MASS_CANCEL RESTING
        p1 MASS_CANCELLED c11 o0 #0 s0 buy 1@0 leaves 0"""),
    ("REPLACE, smaller total, same price: priority kept", "p1 c10 NEW sell 10@100 display=4", "p1 c11 REPLACE o10 7@100; p1 c12 REPLACE o10 7@100; p1 c13 REPLACE o10 3@100", """
        p1 REDUCED c11 o10 #1 s0 sell 3@100 leaves 7 HIDDEN
        p1 REDUCED c12 o10 #1 s0 sell 0@100 leaves 7
        p1 REDUCED c13 o10 #1 s0 sell 3@100 leaves 4 HIDDEN
        p1 REDUCED c13 o10 #1 s0 sell 1@100 leaves 3"""),
    ("REPLACE loses priority and keeps DISPLAY_LOTS", "p1 c10 NEW sell 10@100 display=4", "p1 c11 REPLACE o10 12@101", """
        p1 REDUCED c11 o10 #1 s0 sell 6@100 leaves 4 HIDDEN
        p1 REPLACED c11 o10 #1 s0 sell 4@100 leaves 12
        p1 RESTED c11 o10 #2 s0 sell 4@101 leaves 12"""),
    ("REPLACE counts what is filled of displayed part and reserve", "p1 c10 NEW sell 10@100 display=4; p2 c1 NEW buy 5@100", "p1 c11 REPLACE o10 5@100", """
        p1 REDUCED c11 o10 #2 s0 sell 2@100 leaves 3 REPLACED_BELOW_FILLED HIDDEN
        p1 CANCELLED c11 o10 #2 s0 sell 3@100 leaves 0 REPLACED_BELOW_FILLED RESTING"""),
    ("post-only may be an iceberg", "p2 c1 NEW sell 1@101", "p1 c10 NEW buy 9@100 post display=2; p1 c20 NEW buy 9@101 post display=2", """
        p1 ACCEPTED c10 o10 #2 s0 buy 2@100 leaves 9 RESTING
        p1 REJECTED c20 o20 #0 s0 buy 9@101 leaves 0 WOULD_CROSS"""),
]  # fmt: skip

MINIMUM: list[Case] = [
    ("rests undisplayed if the minimum is not available", "p1 c1 NEW sell 4@100", "p2 c10 NEW buy 10@100 min=5",
        "p2 ACCEPTED c10 o10 #2 s0 buy 10@100 leaves 10 RESTING HIDDEN"),
    ("trades if the minimum is available, from several orders", "p1 c1 NEW sell 4@100; p3 c1 NEW sell 2@101", "p2 c10 NEW buy 10@101 min=5", """
        p2 ACCEPTED c10 o10 #0 s0 buy 10@101 leaves 10
        p1 FILL c0 o1 #1 s0 sell 4@100 leaves 0 MAKER m1
        p2 FILL c10 o10 #0 s0 buy 4@100 leaves 6 m1
        p3 FILL c0 o1 #2 s0 sell 2@101 leaves 0 MAKER m2
        p2 FILL c10 o10 #0 s0 buy 2@101 leaves 4 m2
        p2 RESTED c10 o10 #3 s0 buy 4@101 leaves 4 HIDDEN"""),
    ("lots beyond its limit do not count", "p1 c1 NEW sell 4@100; p3 c1 NEW sell 2@102", "p2 c10 NEW buy 10@101 min=5",
        "p2 ACCEPTED c10 o10 #3 s0 buy 10@101 leaves 10 RESTING HIDDEN"),
    ("is passed over by less than the minimum", "p2 c10 NEW buy 10@100 min=5", "p1 c1 NEW sell 4@100 ioc; p1 c2 NEW sell 5@100 ioc", """
        p1 ACCEPTED c1 o1 #0 s0 sell 4@100 leaves 4
        p1 CANCELLED c1 o1 #0 s0 sell 4@100 leaves 0 IOC_REMAINDER
        p1 ACCEPTED c2 o2 #0 s0 sell 5@100 leaves 5
        p2 FILL c0 o10 #1 s0 buy 5@100 leaves 5 MAKER HIDDEN m1
        p1 FILL c2 o2 #0 s0 sell 5@100 leaves 0 m1"""),
    ("the remainder has the smaller minimum", "p2 c10 NEW buy 10@100 min=6", "p1 c1 NEW sell 7@100 ioc; p1 c2 NEW sell 2@100 ioc; p1 c3 NEW sell 3@100 ioc", """
        p1 ACCEPTED c1 o1 #0 s0 sell 7@100 leaves 7
        p2 FILL c0 o10 #1 s0 buy 7@100 leaves 3 MAKER HIDDEN m1
        p1 FILL c1 o1 #0 s0 sell 7@100 leaves 0 m1
        p1 ACCEPTED c2 o2 #0 s0 sell 2@100 leaves 2
        p1 CANCELLED c2 o2 #0 s0 sell 2@100 leaves 0 IOC_REMAINDER
        p1 ACCEPTED c3 o3 #0 s0 sell 3@100 leaves 3
        p2 FILL c0 o10 #1 s0 buy 3@100 leaves 0 MAKER HIDDEN m2
        p1 FILL c3 o3 #0 s0 sell 3@100 leaves 0 m2"""),
    ("queues after displayed and hidden orders at its price", "p2 c10 NEW buy 5@100 min=2; p3 c1 NEW buy 1@100 hidden; p4 c1 NEW buy 1@100", "p1 c1 NEW sell 4@100", """
        p1 ACCEPTED c1 o1 #0 s0 sell 4@100 leaves 4
        p4 FILL c0 o1 #3 s0 buy 1@100 leaves 0 MAKER m1
        p1 FILL c1 o1 #0 s0 sell 1@100 leaves 3 m1
        p3 FILL c0 o1 #2 s0 buy 1@100 leaves 0 MAKER HIDDEN m2
        p1 FILL c1 o1 #0 s0 sell 1@100 leaves 2 m2
        p2 FILL c0 o10 #1 s0 buy 2@100 leaves 3 MAKER HIDDEN m3
        p1 FILL c1 o1 #0 s0 sell 2@100 leaves 0 m3"""),
    ("trades when enough quantity has arrived", "p2 c10 NEW buy 10@100 min=5; p1 c1 NEW sell 4@100 gtc", "p3 c1 NEW sell 2@99", """
        p3 ACCEPTED c1 o1 #3 s0 sell 2@99 leaves 2 RESTING
        p3 FILL c0 o1 #3 s0 sell 2@99 leaves 0 MAKER m1
        p2 FILL c0 o10 #0 s0 buy 2@99 leaves 8 m1
        p1 FILL c0 o1 #2 s0 sell 4@100 leaves 0 MAKER m2
        p2 FILL c0 o10 #0 s0 buy 4@100 leaves 4 m2
        p2 RESTED c0 o10 #4 s0 buy 4@100 leaves 4 HIDDEN"""),
    ("IOC with an unavailable minimum", "p1 c1 NEW sell 4@100", "p2 c10 NEW buy 10@100 ioc min=5", """
        p2 ACCEPTED c10 o10 #0 s0 buy 10@100 leaves 10
        p2 CANCELLED c10 o10 #0 s0 buy 10@100 leaves 0 IOC_REMAINDER"""),
    ("IOC with an available minimum", "p1 c1 NEW sell 6@100", "p2 c10 NEW buy 10@100 ioc min=5", """
        p2 ACCEPTED c10 o10 #0 s0 buy 10@100 leaves 10
        p1 FILL c0 o1 #1 s0 sell 6@100 leaves 0 MAKER m1
        p2 FILL c10 o10 #0 s0 buy 6@100 leaves 4 m1
        p2 CANCELLED c10 o10 #0 s0 buy 4@100 leaves 0 IOC_REMAINDER"""),
    ("two minimums must both be met", "p2 c10 NEW buy 10@100 min=8", "p1 c10 NEW sell 9@100 min=9; p3 c10 NEW sell 7@100 min=7", """
        p1 ACCEPTED c10 o10 #0 s0 sell 9@100 leaves 9
        p2 FILL c0 o10 #1 s0 buy 9@100 leaves 1 MAKER HIDDEN m1
        p1 FILL c10 o10 #0 s0 sell 9@100 leaves 0 m1
        p3 ACCEPTED c10 o10 #2 s0 sell 7@100 leaves 7 RESTING HIDDEN"""),
    ("REDUCE also reduces the minimum", "p1 c1 NEW sell 4@100; p2 c10 NEW buy 10@100 min=8", "p2 c11 REDUCE o10 7@0", """
        p2 REDUCED c11 o10 #2 s0 buy 7@100 leaves 3 HIDDEN
        p1 FILL c0 o1 #1 s0 sell 3@100 leaves 1 MAKER m1
        p2 FILL c0 o10 #0 s0 buy 3@100 leaves 0 m1"""),
]  # fmt: skip

ALL_OR_NONE: list[Case] = [
    ("rests undisplayed", "p1 c1 NEW sell 4@100", "p2 c1 NEW buy 5@100 aon",
        "p2 ACCEPTED c1 o1 #2 s0 buy 5@100 leaves 5 RESTING HIDDEN"),
    ("trades at once if the whole quantity is available", "p1 c1 NEW sell 4@100; p3 c1 NEW sell 4@101", "p2 c1 NEW buy 7@101 aon", """
        p2 ACCEPTED c1 o1 #0 s0 buy 7@101 leaves 7
        p1 FILL c0 o1 #1 s0 sell 4@100 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 buy 4@100 leaves 3 m1
        p3 FILL c0 o1 #2 s0 sell 3@101 leaves 1 MAKER m2
        p2 FILL c1 o1 #0 s0 buy 3@101 leaves 0 m2"""),
    ("does not trade in part with an incoming order", "p2 c1 NEW buy 5@100 aon", "p1 c1 NEW sell 4@100; p3 c1 NEW sell 1@101", """
        p1 ACCEPTED c1 o1 #2 s0 sell 4@100 leaves 4 RESTING
        p3 ACCEPTED c1 o1 #3 s0 sell 1@101 leaves 1 RESTING"""),
    ("trades when the missing quantity arrives", "p2 c1 NEW buy 5@100 aon; p1 c1 NEW sell 4@100", "p3 c1 NEW sell 1@100", """
        p3 ACCEPTED c1 o1 #3 s0 sell 1@100 leaves 1 RESTING
        p1 FILL c0 o1 #2 s0 sell 4@100 leaves 0 MAKER m1
        p2 FILL c0 o1 #0 s0 buy 4@100 leaves 1 m1
        p3 FILL c0 o1 #3 s0 sell 1@100 leaves 0 MAKER m2
        p2 FILL c0 o1 #0 s0 buy 1@100 leaves 0 m2"""),
    ("is passed over for a later order that is small enough", "p2 c1 NEW buy 50@100 aon; p3 c1 NEW buy 5@100 aon", "p1 c1 NEW sell 6@100", """
        p1 ACCEPTED c1 o1 #0 s0 sell 6@100 leaves 6
        p3 FILL c0 o1 #2 s0 buy 5@100 leaves 0 MAKER HIDDEN m1
        p1 FILL c1 o1 #0 s0 sell 5@100 leaves 1 m1
        p1 RESTED c1 o1 #3 s0 sell 1@100 leaves 1"""),
    ("a worse price trades past it", "p2 c1 NEW buy 50@101 aon; p3 c1 NEW buy 5@100", "p1 c1 NEW sell 6@100", """
        p1 ACCEPTED c1 o1 #0 s0 sell 6@100 leaves 6
        p3 FILL c0 o1 #2 s0 buy 5@100 leaves 0 MAKER m1
        p1 FILL c1 o1 #0 s0 sell 5@100 leaves 1 m1
        p1 RESTED c1 o1 #3 s0 sell 1@100 leaves 1"""),
    ("two that fit each other", "p2 c1 NEW buy 5@100 aon", "p1 c1 NEW sell 5@99 aon", """
        p1 ACCEPTED c1 o1 #0 s0 sell 5@99 leaves 5
        p2 FILL c0 o1 #1 s0 buy 5@100 leaves 0 MAKER HIDDEN m1
        p1 FILL c1 o1 #0 s0 sell 5@100 leaves 0 m1"""),
    ("two that do not fit wait for a third", "p2 c1 NEW buy 5@100 aon; p1 c1 NEW sell 3@99 aon", "p3 c1 NEW sell 2@100", """
        p3 ACCEPTED c1 o1 #3 s0 sell 2@100 leaves 2 RESTING
        p1 FILL c0 o1 #2 s0 sell 3@99 leaves 0 MAKER HIDDEN m1
        p2 FILL c0 o1 #0 s0 buy 3@99 leaves 2 m1
        p3 FILL c0 o1 #3 s0 sell 2@100 leaves 0 MAKER m2
        p2 FILL c0 o1 #0 s0 buy 2@100 leaves 0 m2"""),
    ("the first of them by price goes first", "p2 c1 NEW buy 5@100 aon; p3 c1 NEW buy 5@101 aon", "p1 c1 NEW sell 5@100; p1 c2 NEW sell 2@99", """
        p1 ACCEPTED c1 o1 #0 s0 sell 5@100 leaves 5
        p3 FILL c0 o1 #2 s0 buy 5@101 leaves 0 MAKER HIDDEN m1
        p1 FILL c1 o1 #0 s0 sell 5@101 leaves 0 m1
        p1 ACCEPTED c2 o2 #3 s0 sell 2@99 leaves 2 RESTING"""),
    ("cancelled like any other", "p2 c1 NEW buy 5@100 aon", "p2 c2 CANCEL o1",
        "p2 CANCELLED c2 o1 #1 s0 buy 5@100 leaves 0 REQUESTED RESTING HIDDEN"),
    ("not replaceable", "p2 c1 NEW buy 5@100 aon", "p2 c2 REPLACE o1 6@100",
        "p2 REJECTED c2 o1 #0 s0 buy 6@100 leaves 0 NOT_REPLACEABLE"),
    ("after a REDUCE it fits", "p2 c1 NEW buy 5@100 aon; p1 c1 NEW sell 4@100", "p2 c2 REDUCE o1 1@0", """
        p2 REDUCED c2 o1 #1 s0 buy 1@100 leaves 4 HIDDEN
        p1 FILL c0 o1 #2 s0 sell 4@100 leaves 0 MAKER m1
        p2 FILL c0 o1 #0 s0 buy 4@100 leaves 0 m1"""),
]  # fmt: skip

HIDDEN: list[Case] = [
    ("rests undisplayed", "", "p1 c1 NEW buy 5@100 hidden",
        "p1 ACCEPTED c1 o1 #1 s0 buy 5@100 leaves 5 RESTING HIDDEN"),
    ("queues after displayed orders at its price, though older", "p1 c1 NEW buy 5@100 hidden; p2 c1 NEW buy 2@100", "p3 c1 NEW sell 4@100", """
        p3 ACCEPTED c1 o1 #0 s0 sell 4@100 leaves 4
        p2 FILL c0 o1 #2 s0 buy 2@100 leaves 0 MAKER m1
        p3 FILL c1 o1 #0 s0 sell 2@100 leaves 2 m1
        p1 FILL c0 o1 #1 s0 buy 2@100 leaves 3 MAKER HIDDEN m2
        p3 FILL c1 o1 #0 s0 sell 2@100 leaves 0 m2"""),
    ("before displayed orders at a worse price", "p1 c1 NEW buy 5@101 hidden; p2 c1 NEW buy 2@100", "p3 c1 NEW sell 6@100", """
        p3 ACCEPTED c1 o1 #0 s0 sell 6@100 leaves 6
        p1 FILL c0 o1 #1 s0 buy 5@101 leaves 0 MAKER HIDDEN m1
        p3 FILL c1 o1 #0 s0 sell 5@101 leaves 1 m1
        p2 FILL c0 o1 #2 s0 buy 1@100 leaves 1 MAKER m2
        p3 FILL c1 o1 #0 s0 sell 1@100 leaves 0 m2"""),
    ("trades on arrival, the remainder is hidden", "p2 c1 NEW sell 2@100", "p1 c1 NEW buy 5@100 hidden", """
        p1 ACCEPTED c1 o1 #0 s0 buy 5@100 leaves 5
        p2 FILL c0 o1 #1 s0 sell 2@100 leaves 0 MAKER m1
        p1 FILL c1 o1 #0 s0 buy 2@100 leaves 3 m1
        p1 RESTED c1 o1 #2 s0 buy 3@100 leaves 3 HIDDEN"""),
    ("post-only and hidden", "p2 c1 NEW sell 2@100 hidden", "p1 c1 NEW buy 5@100 hidden post; p1 c2 NEW buy 5@99 hidden post", """
        p1 REJECTED c1 o1 #0 s0 buy 5@100 leaves 0 WOULD_CROSS
        p1 ACCEPTED c2 o2 #2 s0 buy 5@99 leaves 5 RESTING HIDDEN"""),
    ("a post-only order meets a hidden one", "p2 c1 NEW sell 2@100 hidden", "p1 c1 NEW buy 5@100 post",
        "p1 REJECTED c1 o1 #0 s0 buy 5@100 leaves 0 WOULD_CROSS"),
    ("REPLACE, priority kept", "p1 c1 NEW buy 5@100 hidden", "p1 c2 REPLACE o1 4@100",
        "p1 REDUCED c2 o1 #1 s0 buy 1@100 leaves 4 HIDDEN"),
    ("REPLACE, priority lost", "p1 c1 NEW buy 5@100 hidden", "p1 c2 REPLACE o1 5@101; p1 c3 REDUCE o1 1@0; p1 c4 CANCEL o1", """
        p1 REPLACED c2 o1 #1 s0 buy 5@100 leaves 5 HIDDEN
        p1 RESTED c2 o1 #2 s0 buy 5@101 leaves 5 HIDDEN
        p1 REDUCED c3 o1 #2 s0 buy 1@101 leaves 4 HIDDEN
        p1 CANCELLED c4 o1 #2 s0 buy 4@101 leaves 0 REQUESTED RESTING HIDDEN"""),
    ("IOC trades with it, market data does not show it", "p1 c1 NEW sell 5@100 hidden", "p2 c1 NEW buy 2@100 ioc; p2 c2 NEW buy 9@0 market", """
        p2 ACCEPTED c1 o1 #0 s0 buy 2@100 leaves 2
        p1 FILL c0 o1 #1 s0 sell 2@100 leaves 3 MAKER HIDDEN m1
        p2 FILL c1 o1 #0 s0 buy 2@100 leaves 0 m1
        p2 ACCEPTED c2 o2 #0 s0 buy 9@0 leaves 9
        p1 FILL c0 o1 #1 s0 sell 3@100 leaves 0 MAKER HIDDEN m2
        p2 FILL c2 o2 #0 s0 buy 3@100 leaves 6 m2
        p2 CANCELLED c2 o2 #0 s0 buy 6@0 leaves 0 MARKET_REMAINDER"""),
]  # fmt: skip


@cases(ICEBERG, MINIMUM, ALL_OR_NONE, HIDDEN)
def test_events(market: AnyMarket, before: str, text: str, expected: str) -> None:
    assert_case(market, before, text, expected)
