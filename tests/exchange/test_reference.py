"""The interface of the reference market. Its rules are tested in test_orders_table.py."""

import dataclasses

import numpy as np
import pytest

from serl.exchange.errors import ConfigError
from serl.exchange.limits import MarketLimits
from serl.exchange.records import CASH, COMMAND, COST, LEVEL, POSITION, CommandKind, Queue, Side, Term, command
from tests.exchange.notation import parse_all
from tests.exchange.reference import ReferenceMarket

LIMITS = MarketLimits(participants_max=10)
TEXT = "p1 c1 NEW sell 10@101; p2 c1 NEW sell 5@101; p1 c2 NEW sell 3@103; p3 c1 NEW buy 4@99 gtc; p3 c2 NEW buy 12@102"


SPECIAL_TEXT = """p9 c1 RULE TICK 5 o1000; p9 c2 ACCOUNT o4 COLLAR_TICKS 50; p4 c11 NEW buy 9@90 gtc display=4 stp=oldest; p4 c22 NEW sell 5@110 gtt until=9000 link=11
    p4 c33 NEW sell 2@0 market stop=80 trail=20; p5 c10 NEW buy 4@0 peg=mid offset=1; p5 c21 NEW buy 7@95 min=3; p5 c30 NEW sell 1@130 at_close; p5 c40 NEW buy 1@60 hidden"""


def traded() -> ReferenceMarket:
    market = ReferenceMarket(["AAA", "BBB"], limits=LIMITS)
    market.submit(parse_all(TEXT))
    return market


def special() -> ReferenceMarket:
    """A market with an order in every queue and unused terms."""
    market = traded()
    market.grant_operator(9)
    market.submit(parse_all(SPECIAL_TEXT))
    market.submit(command(CommandKind.TERM, participant=5, command_id=41, flags=Term.LINK, price_ticks=7))
    market.submit(command(CommandKind.TERM, participant=5, command_id=42, flags=77, price_ticks=7))
    return market


def test_book_is_levels_best_first() -> None:
    bids, asks = traded().book(0)
    assert bids.dtype == asks.dtype == LEVEL
    assert bids.tolist() == [(99, 4, 1)]
    assert asks.tolist() == [(101, 3, 1), (103, 3, 1)]
    assert traded().book(0, depth=1)[1].tolist() == [(101, 3, 1)]
    assert [len(side) for side in traded().book(1)] == [0, 0]


def test_orders_are_canonical() -> None:
    market = traded()
    market.submit(parse_all("p1 c9 NEW buy 1@98 s1; p1 c10 NEW buy 1@100; p2 c9 NEW buy 1@99"))
    found = [
        (row["symbol"], row["side"], row["price_ticks"], row["participant"], row["open_lots"], row["total_lots"])
        for row in market.orders()
    ]
    assert found == [
        (0, 0, 100, 1, 1, 1),
        (0, 0, 99, 3, 4, 4),
        (0, 0, 99, 2, 1, 1),
        (0, 1, 101, 2, 3, 5),
        (0, 1, 103, 1, 3, 3),
        (1, 0, 98, 1, 1, 1),
    ]
    assert market.orders(1).tolist() == market.orders().tolist()[-1:]


def test_positions_and_cash() -> None:
    snapshot = traded().snapshot()
    assert snapshot.balances[..., POSITION].tolist() == [[0, 0], [-10, 0], [-2, 0], [12, 0]]
    assert snapshot.balances[..., CASH].tolist() == [[0, 0], [1010, 0], [202, 0], [-1212, 0]]
    assert snapshot.balances[..., COST].tolist() == [[0, 0], [-1010, 0], [-202, 0], [1212, 0]]
    assert snapshot.last_command_id.tolist() == [0, 2, 1, 2]
    assert snapshot.report.tolist() == [0, 3, 2, 4]
    assert snapshot.counters.tolist() == [9, 2, 4, 5]


def test_submit_does_not_depend_on_batches_and_does_not_change_the_commands() -> None:
    commands = parse_all(TEXT)
    given = commands.copy()
    one, many = ReferenceMarket(2, limits=LIMITS), ReferenceMarket(2, limits=LIMITS)
    events = one.submit(commands)
    assert np.array_equal(commands, given)
    assert np.array_equal(
        events, np.concatenate([many.submit(commands[row : row + 1]) for row in range(len(commands))])
    )
    assert one.state_hash() == many.state_hash()
    assert len(one.submit(np.zeros(0, COMMAND))) == 0


def test_restore_keeps_the_hash_and_later_events() -> None:
    market = traded()
    restored = ReferenceMarket.restore(market.snapshot(), ["AAA", "BBB"], limits=LIMITS)
    restored.validate()
    assert restored.state_hash() == market.state_hash()
    more = parse_all("p1 c3 CANCEL o2; p2 c2 REPLACE o1 2@99; p2 c3 REPLACE o1 6@99")
    assert np.array_equal(restored.submit(more), market.submit(more))


def test_restore_keeps_special_orders_accounts_rules_and_terms() -> None:
    market = special()
    assert sorted({Queue(row["queue"]).name for row in market.specials()}) == sorted(queue.name for queue in Queue)
    restored = ReferenceMarket.restore(market.snapshot(), ["AAA", "BBB"], limits=LIMITS)
    restored.validate()
    assert restored.state_hash() == market.state_hash()
    for each in (market, restored):
        each.grant_operator(9)
    more = parse_all(
        "p5 c50 NEW buy 1@50 terms; p1 c3 NEW sell 30@70; p9 c9 PHASE CLOSING; p1 c4 NEW sell 1@99 t9500; p9 c10 PHASE"
    )
    assert np.array_equal(restored.submit(more), market.submit(more))
    assert restored.state_hash() == market.state_hash()


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(special().snapshot())])
def test_hash_depends_on_every_field(field: str) -> None:
    snapshot = special().snapshot()
    value = getattr(snapshot, field).copy()
    if value.dtype.names:
        value["open_lots"][0] += 1
    else:
        value.flat[0] += 1
    assert dataclasses.replace(snapshot, **{field: value}).digest() != snapshot.digest()


def test_the_hash_of_a_market_is_that_of_earlier_versions() -> None:
    """Although terms and orders have more columns now."""
    assert special().state_hash() == "c95fdb97789511a23615b3ab1b6e9c9a6fffdd7a7661202ffe159359fd3a5672"


@pytest.mark.parametrize("term", [Term.TOUCH_TICKS, Term.SELF_TRADE])
def test_the_hash_depends_on_later_columns(term: Term) -> None:
    market = special()
    market.submit(command(CommandKind.TERM, participant=5, command_id=50, flags=term, price_ticks=7))
    assert market.state_hash() != special().state_hash()
    orders = [special() for _ in range(2)]
    for order_market, trigger in zip(orders, ("stop=190", "touch=190"), strict=True):
        order_market.submit(parse_all(f"p1 c50 NEW buy 1@50 {trigger}"))
    assert orders[0].state_hash() != orders[1].state_hash()


def test_a_participant_above_the_limit_is_rejected() -> None:
    with pytest.raises(ConfigError, match="up to 9, got 10"):
        traded().submit(command(CommandKind.NEW, participant=10, command_id=1, qty_lots=1, price_ticks=1))


def test_validate_finds_corruption() -> None:
    crossed, lost, unbalanced, worn, parted, small = (special() for _ in range(6))
    bid = next(crossed.books[0].displayed[Side.BUY].orders())
    crossed.enqueue(dataclasses.replace(bid, price_ticks=101, queue_ticks=101, order_number=9, order_id=99))
    with pytest.raises(AssertionError, match="crossed"):
        crossed.validate()
    lost.open.popitem()
    with pytest.raises(AssertionError, match="can be cancelled"):
        lost.validate()
    unbalanced.balances[1, 0].cash_ticks += 1
    with pytest.raises(AssertionError, match="sum to zero"):
        unbalanced.validate()
    next(worn.books[0].displayed[Side.SELL].orders()).open_lots = 0
    with pytest.raises(AssertionError, match="open must be"):
        worn.validate()
    parted.open[4, 11].link = 0
    with pytest.raises(AssertionError, match="not mutual"):
        parted.validate()
    small.open[5, 21].min_lots = 8
    with pytest.raises(AssertionError, match="minimum above"):
        small.validate()
