"""Operator commands that affect other participants, case by case: purges, halts with a reason."""

import pytest

from serl.exchange.records import HALT_REASON, HaltReason, Reason
from tests.exchange.notation import parse_all
from tests.exchange.tables import AnyMarket, Case, assert_case, cases, last_reason

PURGES: list[Case] = [
    ("of one side, of every symbol and queue, without open orders", "p1 c1 NEW buy 1@99; p1 c2 NEW sell 1@105 hidden; p1 c3 NEW buy 1@98 s1; p2 c1 NEW buy 1@97",
        "p9 c1 PURGE o1 flags=1; p9 c2 PURGE o1 s65535; p9 c3 PURGE o1; p1 c4 NEW buy 1@99", """
        p1 CANCELLED c0 o1 #1 s0 buy 1@99 leaves 0 PURGED RESTING
        p9 MASS_CANCELLED c1 o1 #0 s0 buy 1@0 leaves 0
        p1 CANCELLED c0 o2 #2 s0 sell 1@105 leaves 0 PURGED RESTING HIDDEN
        p1 CANCELLED c0 o3 #3 s1 buy 1@98 leaves 0 PURGED RESTING
        p9 MASS_CANCELLED c2 o1 #0 s65535 buy 2@0 leaves 0
        p9 MASS_CANCELLED c3 o1 #0 s0 buy 0@0 leaves 0
        p1 ACCEPTED c4 o4 #5 s0 buy 1@99 leaves 1 RESTING"""),
    ("of sells of the other symbol", "p1 c1 NEW sell 1@99 s1; p1 c2 NEW buy 1@90 s1; p1 c3 NEW sell 1@99", "p9 c1 PURGE o1 s1 flags=2", """
        p1 CANCELLED c0 o1 #1 s1 sell 1@99 leaves 0 PURGED RESTING
        p9 MASS_CANCELLED c1 o1 #0 s1 buy 1@0 leaves 0"""),
    ("linked orders count once; an iceberg's reserve is reported", "p1 c2 NEW buy 5@99 display=2; p1 c10 NEW buy 1@98 link=2", "p9 c1 PURGE o1 s65535", """
        p1 REDUCED c0 o2 #1 s0 buy 3@99 leaves 2 PURGED HIDDEN
        p1 CANCELLED c0 o2 #1 s0 buy 2@99 leaves 0 PURGED RESTING
        p1 CANCELLED c0 o10 #2 s0 buy 1@98 leaves 0 LINKED RESTING
        p9 MASS_CANCELLED c1 o1 #0 s65535 buy 1@0 leaves 0"""),
    ("an operator's of its own orders answers none of them", "p9 c1 NEW buy 1@99", "p9 c2 PURGE o9", """
        p9 CANCELLED c0 o1 #1 s0 buy 1@99 leaves 0 PURGED RESTING
        p9 MASS_CANCELLED c2 o9 #0 s0 buy 1@0 leaves 0"""),
    ("while halted", "p1 c1 NEW buy 1@99; p9 c1 HALT", "p9 c2 PURGE o1", """
        p1 CANCELLED c0 o1 #1 s0 buy 1@99 leaves 0 PURGED RESTING
        p9 MASS_CANCELLED c2 o1 #0 s0 buy 1@0 leaves 0"""),
]  # fmt: skip
HALT_EVENTS = "p9 HALTED c2 o0 #0 s0 buy 0@0 leaves 0 NEWS\n p9 HALTED c3 o0 #0 s0 buy 0@0 leaves 0 REGULATORY\n p9 RESUMED c4 o0 #0 s0 buy 0@0 leaves 0\n p9 HALTED c5 o0 #0 s0 buy 0@0 leaves 0"
HALTS: list[Case] = [
    ("a reason, another one, none", "", "p9 c2 HALT NEWS; p9 c3 HALT REGULATORY; p9 c4 RESUME; p9 c5 HALT", HALT_EVENTS),
    ("the same by the full rule book", "p9 c1 RULE LOT 1", "p9 c2 HALT NEWS; p9 c3 HALT REGULATORY; p9 c4 RESUME; p9 c5 HALT", HALT_EVENTS),
]  # fmt: skip


@cases(PURGES, HALTS)
def test_events(market: AnyMarket, before: str, text: str, expected: str) -> None:
    assert_case(market, before, text, expected)


@pytest.mark.parametrize("before", ["", "p9 c1 RULE LOT 1;"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("p1 c2 PURGE o2 s5 flags=9", "NOT_PERMITTED"),
        ("p9 c2 PURGE o99 s5 flags=9", "UNKNOWN_SYMBOL"),
        ("p9 c2 PURGE o99 flags=3", "BAD_FLAGS"),
        ("p9 c2 PURGE o16", "BAD_SETTING"),
        ("p9 c2 PURGE o-1 s65535", "BAD_SETTING"),
        ("p9 c2 HALT s2 flags=6", "UNKNOWN_SYMBOL"),
        ("p9 c2 HALT flags=6", "BAD_FLAGS"),
        ("p9 c2 HALT flags=255", "BAD_FLAGS"),
    ],
)
def test_checks(market: AnyMarket, before: str, text: str, reason: str) -> None:
    assert Reason(last_reason(market, before + text)).name == reason
    assert not market.snapshot().halted.any()


def test_the_halt_reason_is_kept_until_the_resume(market: AnyMarket) -> None:
    market.submit(parse_all("p9 c1 HALT TECHNICAL s1"))
    assert market.snapshot().symbols[:, HALT_REASON].tolist() == [0, HaltReason.TECHNICAL]
    market.submit(parse_all("p9 c2 RESUME s1"))
    assert not market.snapshot().symbols[:, HALT_REASON].any()
