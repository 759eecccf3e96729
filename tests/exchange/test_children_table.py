"""Children (one triggers other) of docs/orders.md: WAITS and CHILD, case by case, in both implementations."""

import pytest

from serl.exchange.market import Market
from serl.exchange.records import Reason
from serl.exchange.terms import Terms
from tests.exchange.reference import ReferenceMarket
from tests.exchange.tables import LIMITS, OPERATOR, AnyMarket, Case, assert_case, cases, last_reason

CHILD = "p1 c2 NEW sell 5@110 waits=1;"
ENTRY = CHILD + "p1 c4 NEW buy 5@100 child=2"
BRACKET = (
    "p1 c2 NEW sell 5@110 waits=1; p1 c6 NEW sell 5@0 market waits=1 stop=90 updates=2; p1 c8 NEW buy 5@100 child=2"
)
FILL = "p2 c1 NEW sell 5@100"

EVENTS: list[Case] = [
    ("an order that waits is inactive", "", CHILD, """
        p1 ACCEPTED c2 o2 #1 s0 sell 5@110 leaves 5 RESTING HIDDEN"""),
    ("it does not trade before", CHILD, "p2 c1 NEW buy 5@120 ioc", """
        p2 ACCEPTED c1 o1 #0 s0 buy 5@120 leaves 5
        p2 CANCELLED c1 o1 #0 s0 buy 5@120 leaves 0 IOC_REMAINDER"""),
    ("a partial fill of the parent changes nothing", ENTRY, "p2 c1 NEW sell 4@100", """
        p2 ACCEPTED c1 o1 #0 s0 sell 4@100 leaves 4
        p1 FILL c0 o4 #2 s0 buy 4@100 leaves 1 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 4@100 leaves 0 m1"""),
    ("its last lot activates the child", ENTRY + "; p2 c1 NEW sell 4@100", "p2 c2 NEW sell 1@100", """
        p2 ACCEPTED c2 o2 #0 s0 sell 1@100 leaves 1
        p1 FILL c0 o4 #2 s0 buy 1@100 leaves 0 MAKER m2
        p2 FILL c2 o2 #0 s0 sell 1@100 leaves 0 m2
        p1 TRIGGERED c0 o2 #1 s0 sell 5@110 leaves 5 HIDDEN
        p1 RESTED c0 o2 #3 s0 sell 5@110 leaves 5"""),
    ("a parent that trades at once", CHILD + FILL, "p1 c4 NEW buy 5@100 child=2", """
        p1 ACCEPTED c4 o4 #0 s0 buy 5@100 leaves 5
        p2 FILL c0 o1 #2 s0 sell 5@100 leaves 0 MAKER m1
        p1 FILL c4 o4 #0 s0 buy 5@100 leaves 0 m1
        p1 TRIGGERED c0 o2 #1 s0 sell 5@110 leaves 5 HIDDEN
        p1 RESTED c0 o2 #3 s0 sell 5@110 leaves 5"""),
    ("a child that trades at once", ENTRY + "; p3 c1 NEW sell 1@200 s1", "p3 c2 NEW buy 2@99 ; p2 c1 NEW sell 5@100; p3 c3 NEW buy 3@110", """
        p3 ACCEPTED c2 o2 #4 s0 buy 2@99 leaves 2 RESTING
        p2 ACCEPTED c1 o1 #0 s0 sell 5@100 leaves 5
        p1 FILL c0 o4 #2 s0 buy 5@100 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 5@100 leaves 0 m1
        p1 TRIGGERED c0 o2 #1 s0 sell 5@110 leaves 5 HIDDEN
        p1 RESTED c0 o2 #5 s0 sell 5@110 leaves 5
        p3 ACCEPTED c3 o3 #0 s0 buy 3@110 leaves 3
        p1 FILL c0 o2 #5 s0 sell 3@110 leaves 2 MAKER m2
        p3 FILL c3 o3 #0 s0 buy 3@110 leaves 0 m2"""),
    ("a market order without a counterparty", "p1 c2 NEW sell 5@0 market waits=1; p1 c4 NEW buy 5@100 child=2", FILL, """
        p2 ACCEPTED c1 o1 #0 s0 sell 5@100 leaves 5
        p1 FILL c0 o4 #2 s0 buy 5@100 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 5@100 leaves 0 m1
        p1 TRIGGERED c0 o2 #1 s0 sell 5@0 leaves 5 HIDDEN
        p1 CANCELLED c0 o2 #0 s0 sell 5@0 leaves 0 MARKET_REMAINDER"""),
    ("a child of another symbol", "p1 c2 NEW sell 5@110 waits=1 s1; p1 c4 NEW buy 5@100 child=2", FILL, """
        p2 ACCEPTED c1 o1 #0 s0 sell 5@100 leaves 5
        p1 FILL c0 o4 #2 s0 buy 5@100 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 5@100 leaves 0 m1
        p1 TRIGGERED c0 o2 #1 s1 sell 5@110 leaves 5 HIDDEN
        p1 RESTED c0 o2 #3 s1 sell 5@110 leaves 5"""),
    ("whose symbol is halted: after the RESUME", "p1 c2 NEW sell 5@110 waits=1 s1; p1 c4 NEW buy 5@100 child=2; p9 c1 HALT s1;" + FILL, "p9 c2 RESUME s1", """
        p9 RESUMED c2 o0 #0 s1 buy 0@0 leaves 0
        p1 TRIGGERED c0 o2 #1 s1 sell 5@110 leaves 5 HIDDEN
        p1 RESTED c0 o2 #3 s1 sell 5@110 leaves 5"""),
    ("a bracket: both exits are due", BRACKET, FILL, """
        p2 ACCEPTED c1 o1 #0 s0 sell 5@100 leaves 5
        p1 FILL c0 o8 #3 s0 buy 5@100 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 5@100 leaves 0 m1
        p1 TRIGGERED c0 o2 #1 s0 sell 5@110 leaves 5 HIDDEN
        p1 RESTED c0 o2 #4 s0 sell 5@110 leaves 5
        p1 TRIGGERED c0 o6 #2 s0 sell 5@0 leaves 5 HIDDEN
        p1 RESTED c0 o6 #5 s0 sell 5@0 leaves 5 HIDDEN"""),
    ("a bracket: what one exit trades is taken off the other", BRACKET + ";" + FILL, "p3 c1 NEW buy 2@110", """
        p3 ACCEPTED c1 o1 #0 s0 buy 2@110 leaves 2
        p1 FILL c0 o2 #4 s0 sell 2@110 leaves 3 MAKER m2
        p3 FILL c1 o1 #0 s0 buy 2@110 leaves 0 m2
        p1 REDUCED c0 o6 #5 s0 sell 2@0 leaves 3 LINKED HIDDEN"""),
    ("a bracket: the entry is cancelled", BRACKET + "; p2 c1 NEW sell 4@100", "p1 c9 CANCEL o8", """
        p1 CANCELLED c9 o8 #3 s0 buy 1@100 leaves 0 REQUESTED RESTING
        p1 CANCELLED c0 o2 #1 s0 sell 5@110 leaves 0 LINKED RESTING HIDDEN
        p1 CANCELLED c0 o6 #2 s0 sell 5@0 leaves 0 LINKED RESTING HIDDEN"""),
    ("a bracket: an exit is cancelled, the entry stays", BRACKET, "p1 c9 CANCEL o6; p2 c1 NEW sell 5@100", """
        p1 CANCELLED c9 o6 #2 s0 sell 5@0 leaves 0 REQUESTED RESTING HIDDEN
        p1 CANCELLED c0 o2 #1 s0 sell 5@110 leaves 0 LINKED RESTING HIDDEN
        p2 ACCEPTED c1 o1 #0 s0 sell 5@100 leaves 5
        p1 FILL c0 o8 #3 s0 buy 5@100 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 5@100 leaves 0 m1"""),
    ("an IOC entry that trades in part", CHILD + "p2 c1 NEW sell 4@100", "p1 c4 NEW buy 5@100 ioc child=2", """
        p1 ACCEPTED c4 o4 #0 s0 buy 5@100 leaves 5
        p2 FILL c0 o1 #2 s0 sell 4@100 leaves 0 MAKER m1
        p1 FILL c4 o4 #0 s0 buy 4@100 leaves 1 m1
        p1 CANCELLED c4 o4 #0 s0 buy 1@100 leaves 0 IOC_REMAINDER
        p1 CANCELLED c0 o2 #1 s0 sell 5@110 leaves 0 LINKED RESTING HIDDEN"""),
    ("the child first, then the linked order", CHILD + "p1 c3 NEW buy 1@90; p1 c6 NEW buy 5@100 child=2 link=3", "p1 c7 CANCEL o6", """
        p1 CANCELLED c7 o6 #3 s0 buy 5@100 leaves 0 REQUESTED RESTING
        p1 CANCELLED c0 o2 #1 s0 sell 5@110 leaves 0 LINKED RESTING HIDDEN
        p1 CANCELLED c0 o3 #2 s0 buy 1@90 leaves 0 LINKED RESTING"""),
    ("an entry that is a stop, an iceberg, and replaced", CHILD + "p1 c6 NEW buy 5@120 stop=105 child=2 display=2; p3 c1 NEW sell 1@105; p3 c2 NEW buy 1@105", "p1 c7 REPLACE o6 6@119; p2 c1 NEW sell 6@119", """
        p1 REDUCED c7 o6 #4 s0 buy 3@120 leaves 2 HIDDEN
        p1 REPLACED c7 o6 #4 s0 buy 2@120 leaves 6
        p1 RESTED c7 o6 #5 s0 buy 2@119 leaves 6
        p2 ACCEPTED c1 o1 #0 s0 sell 6@119 leaves 6
        p1 FILL c0 o6 #5 s0 buy 2@119 leaves 4 MAKER m2
        p2 FILL c1 o1 #0 s0 sell 2@119 leaves 4 m2
        p1 RESTED c0 o6 #6 s0 buy 2@119 leaves 4
        p1 FILL c0 o6 #6 s0 buy 2@119 leaves 2 MAKER m3
        p2 FILL c1 o1 #0 s0 sell 2@119 leaves 2 m3
        p1 RESTED c0 o6 #7 s0 buy 2@119 leaves 2
        p1 FILL c0 o6 #7 s0 buy 2@119 leaves 0 MAKER m4
        p2 FILL c1 o1 #0 s0 sell 2@119 leaves 0 m4
        p1 TRIGGERED c0 o2 #1 s0 sell 5@110 leaves 5 HIDDEN
        p1 RESTED c0 o2 #8 s0 sell 5@110 leaves 5"""),
    ("filled in an auction: due when trading is continuous", "p9 c1 PHASE OPENING;" + ENTRY + ";" + FILL, "p9 c2 PHASE", """
        p2 FILL c0 o1 #3 s0 sell 5@100 leaves 0 MAKER AUCTION m1
        p1 FILL c0 o4 #2 s0 buy 5@100 leaves 0 AUCTION m1
        p9 PHASED c2 o0 #0 s0 buy 5@100 leaves 0 CONTINUOUS
        p1 TRIGGERED c0 o2 #1 s0 sell 5@110 leaves 5 HIDDEN
        p1 RESTED c0 o2 #4 s0 sell 5@110 leaves 5"""),
    ("post-only: it would cross", "p1 c2 NEW sell 5@95 waits=1 post; p1 c4 NEW buy 5@100 child=2; p3 c1 NEW buy 1@96", FILL, """
        p2 ACCEPTED c1 o1 #0 s0 sell 5@100 leaves 5
        p1 FILL c0 o4 #2 s0 buy 5@100 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 5@100 leaves 0 m1
        p1 TRIGGERED c0 o2 #1 s0 sell 5@95 leaves 5 HIDDEN
        p1 CANCELLED c0 o2 #0 s0 sell 5@95 leaves 0 WOULD_CROSS"""),
    ("balances are checked when it comes", "p9 c1 ACCOUNT o1 BALANCE_CHECKS 1; p9 c2 DEPOSIT o1 qty_lots=3 500; p1 c2 NEW sell 6@110 waits=1; p1 c4 NEW buy 5@100 child=2", FILL, """
        p2 ACCEPTED c1 o1 #0 s0 sell 5@100 leaves 5
        p1 FILL c0 o4 #2 s0 buy 5@100 leaves 0 MAKER m1
        p2 FILL c1 o1 #0 s0 sell 5@100 leaves 0 m1
        p1 TRIGGERED c0 o2 #1 s0 sell 6@110 leaves 6 HIDDEN
        p1 CANCELLED c0 o2 #0 s0 sell 6@110 leaves 0 LIMIT_BALANCE"""),
    ("a mass cancel counts the entry only", BRACKET, "p1 c9 MASS_CANCEL", """
        p1 CANCELLED c9 o8 #3 s0 buy 5@100 leaves 0 MASS_CANCEL RESTING
        p1 CANCELLED c0 o2 #1 s0 sell 5@110 leaves 0 LINKED RESTING HIDDEN
        p1 CANCELLED c0 o6 #2 s0 sell 5@0 leaves 0 LINKED RESTING HIDDEN
        p1 MASS_CANCELLED c9 o0 #0 s0 buy 1@0 leaves 0"""),
]  # fmt: skip


@cases(EVENTS)
def test_events(market: AnyMarket, before: str, text: str, expected: str) -> None:
    assert_case(market, before, text, expected)


OK, BAD = Reason.NONE, Reason.BAD_TERMS
REASONS: list[tuple[str, str, Reason]] = [
    ("only 1", "p1 c2 NEW sell 5@110 waits=2", BAD),
    ("not 0", "p1 c2 NEW sell 5@110 waits=0", BAD),
    ("no peg", "p1 c3 NEW sell 5@110 waits=1 peg=mid", BAD),
    ("no trailing stop", "p1 c4 NEW sell 5@110 waits=1 stop=90 trail=3", BAD),
    ("no child of its own", CHILD + "p1 c5 NEW sell 5@110 waits=1 child=2", BAD),
    ("not for an auction", "p1 c2 NEW sell 5@110 at_close waits=1", BAD),
    ("IOC may wait", "p1 c2 NEW sell 5@110 ioc waits=1", OK),
    ("a child that does not wait", "p1 c1 NEW sell 5@110; p1 c4 NEW buy 5@100 child=1", BAD),
    ("a child that is not there", "p1 c4 NEW buy 5@100 child=1", BAD),
    ("a child of another participant", CHILD + "p2 c4 NEW buy 5@100 child=2", BAD),
    ("two parents", ENTRY + "; p1 c6 NEW buy 5@100 child=2", BAD),
    ("two parents of a linked pair", BRACKET + "; p1 c10 NEW buy 5@100 child=6", BAD),
    ("another parent after the first is gone: so is the child", ENTRY + "; p1 c5 CANCEL o4; p1 c7 NEW buy 5@100 child=2", BAD),
    ("linked with an order that does not wait", "p1 c1 NEW sell 5@120; p1 c4 NEW sell 5@110 waits=1 link=1", BAD),
    ("the other way round", CHILD + "p1 c4 NEW sell 5@120 link=2", BAD),
    ("it cannot be replaced", CHILD + "p1 c3 REPLACE o2 5@111", Reason.NOT_REPLACEABLE),
    ("it can be reduced", CHILD + "p1 c3 REDUCE o2 qty_lots=2", OK),
    ("terms of a REPLACE", "p1 c1 NEW buy 5@100; p1 c3 NEW sell 5@110 waits=1; p1 c5 REPLACE o1 5@100 child=3", BAD),
    ("reduce-only without a position", "p1 c2 NEW sell 5@110 reduce waits=1", OK),
    ("more than the account has", "p9 c1 ACCOUNT o1 BALANCE_CHECKS 1; p1 c2 NEW sell 5@110 waits=1", OK),
    ("it counts for the position limit", "p9 c1 ACCOUNT o1 POSITION_LOTS_MAX 4; p1 c2 NEW sell 5@110 waits=1", Reason.LIMIT_POSITION),
    ("it counts as an open order", "p9 c1 ACCOUNT o1 ORDERS_OPEN_MAX 1;" + CHILD + "p1 c3 NEW sell 5@110", Reason.LIMIT_ORDERS),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), [pytest.param(*case[1:], id=case[0]) for case in REASONS])
def test_reasons(market: AnyMarket, text: str, reason: Reason) -> None:
    assert Reason(last_reason(market, text)) == reason


def test_a_restart_keeps_families_and_what_is_due(market: AnyMarket) -> None:
    commands = "p1 c2 NEW sell 5@110 waits=1 s1; p9 c1 HALT s1; p1 c4 NEW buy 5@100 child=2;" + FILL
    assert last_reason(market, commands + "; p1 c6 NEW sell 5@120 waits=1; p1 c8 NEW buy 7@99 child=6") == OK
    snapshot = market.snapshot()
    for again in (Market.restore(snapshot, 2, limits=LIMITS), ReferenceMarket.restore(snapshot, 2, limits=LIMITS)):
        again.grant_operator(OPERATOR)
        assert again.state_hash() == market.state_hash()
        again.validate()
        assert last_reason(again, "p9 c2 RESUME s1; p2 c3 NEW sell 7@99") == OK
        assert {order.tolist()[1] for order in again.orders()} == {2, 6}


def test_the_terms_of_the_library() -> None:
    market = Market(1)
    profit = market.sell(5, 110, terms=Terms(waits=1))
    market.sell(5, terms=Terms(waits=1, stop_ticks=95, update_link=profit))
    market.buy(5, 100, terms=Terms(child=profit))
    market.sell(5, 100, participant=1)
    bids, asks = market.book()
    assert (len(bids), asks.tolist()) == (0, [(110, 5, 1)])
