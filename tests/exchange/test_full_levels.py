"""Orders that come to rest where a queue has levels_max price levels."""

from typing import Any

import pytest

from serl.exchange.limits import MarketLimits
from serl.exchange.records import EventKind
from tests.exchange.notation import parse_all
from tests.exchange.tables import IMPLEMENTATIONS


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_peg_that_interrupts_trading_rests_like_the_pegs_before_it(implementation: Any) -> None:
    """They move to INACTIVE regardless of levels_max; the reference cancelled the last one."""
    market = implementation(1, limits=MarketLimits(levels_max=2, window_ticks=128, participants_max=7))
    market.grant_operator(0)
    events = market.submit(parse_all(
        "p0 c1 RULE BAND_HIGH 101; p0 c2 RULE BAND_ACTION 1; p1 c2 NEW buy 5@90 waits=1; p1 c4 NEW buy 5@91 waits=1; p1 c5 NEW buy 5@100; "
        "p1 c6 NEW sell 5@103; p1 c7 NEW buy 5@102 hidden; p2 c2 NEW sell 4@0 peg=mid"
    ))  # fmt: skip
    assert events["kind"][-3:].tolist() == [EventKind.ACCEPTED, EventKind.PHASED, EventKind.RESTED]
