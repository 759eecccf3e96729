"""A market's commands by name: the same results as rows of them, and nothing taken that is not an integer that fits."""

import copy
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from serl.exchange import ConfigError, EventKind, Market, MarketLimits, Rejected, Side, Terms, TimeInForce
from serl.exchange.limits import MarketLimits as Limits
from serl.exchange.records import COMMAND, EVENT, CommandFlag, CommandKind, Peg, SelfTrade, Term, command
from serl.exchange.terms import order, replacement
from tests.exchange.generate import OPERATOR, PROFILES, SYMBOLS, Generator

COMMANDS = 1500
PLAIN = int(CommandFlag.POST_ONLY | CommandFlag.MARKET)
NEEDS = {
    CommandKind.NEW: {"qty_lots", "price_ticks", "symbol", "side", "flags", "time_in_force"},
    CommandKind.CANCEL: {"order_id"},
    CommandKind.REDUCE: {"order_id", "qty_lots"},
    CommandKind.REPLACE: {"order_id", "qty_lots", "price_ticks"},
}
"""What the methods say of an order; a row of the generator may say more, which the book passes over."""


def bare(row: Any) -> None:
    """Clears the fields of a row that its method has no argument for."""
    for field in NEEDS[CommandKind.NEW] | {"order_id"}:
        if row["kind"] in NEEDS and field not in NEEDS[row["kind"]]:
            row[field] = 0


def named(market: Market, row: Any) -> Callable[[], object] | None:
    """The method call equivalent to a row; None if there is none."""
    fields: dict[str, Any] = {field: int(row[field]) for field in COMMAND.names or ()}
    sender = {field: fields[field] for field in ("participant", "command_id", "time_ns")}
    order_id, qty, price, flags = (fields[field] for field in ("order_id", "qty_lots", "price_ticks", "flags"))
    if fields["command_id"] < 1 or fields["kind"] not in NEEDS:
        return None
    if fields["kind"] == CommandKind.CANCEL:
        return lambda: market.cancel(order_id, **sender)
    if fields["kind"] == CommandKind.REDUCE:
        return lambda: market.reduce(order_id, qty, **sender)
    if fields["kind"] == CommandKind.REPLACE:
        return lambda: market.replace(order_id, qty, price, **sender)
    if fields["side"] > 1 or fields["symbol"] >= SYMBOLS or fields["time_in_force"] not in list(TimeInForce):
        return None
    if flags & ~PLAIN or (flags & CommandFlag.MARKET and price):
        return None
    send, limit = market.sell if fields["side"] else market.buy, None if flags & CommandFlag.MARKET else price
    terms: dict[str, Any] = {"symbol": market.names[fields["symbol"]], "post_only": bool(flags & CommandFlag.POST_ONLY)}
    return lambda: send(qty, limit, time_in_force=TimeInForce(fields["time_in_force"]), **terms, **sender)


@pytest.mark.parametrize("profile", list(PROFILES))
def test_methods_do_what_rows_do(profile: str) -> None:
    """A stream with everything in it; what no method says goes to both markets as rows."""
    generator = Generator(7, PROFILES[profile])
    by_rows, by_name = (Market(SYMBOLS, limits=PROFILES[profile].limits) for _ in range(2))
    called = rejected = 0
    for market in (by_rows, by_name):
        market.grant_operator(OPERATOR)
    for _ in range(COMMANDS):
        row = generator.commands(1)
        bare(row[0])
        events = by_rows.submit(row)
        generator.observe(events)
        call = named(by_name, row[0])
        if call is None:
            by_name.submit(row)
        else:
            called += 1
            try:
                call()
            except Rejected as error:
                rejected += 1
                assert by_name.decode()[-1].reason.name == error.reason
        assert by_name.events().tolist() == events.tolist()
    assert by_name.state_hash() == by_rows.state_hash()
    assert by_name.trades().tolist() == by_rows.trades().tolist()
    assert called > COMMANDS / 3 and rejected
    by_name.validate()


def test_names_numbers_and_times_go_on_by_themselves() -> None:
    market = Market(["A", "B"])
    assert market.buy(10, 100, symbol="B", time_ns=5) == 1
    assert market.sell(4, 101, symbol=1, participant=3) == 1, "ids are the participant's own"
    assert market.buy(1, 99, symbol="B", command_id=70) == 70
    assert market.buy(1, 98, symbol="B") == 71
    assert market.cancel(71)
    assert not (market.cancel(71) or market.reduce(71, 1) or market.replace(71, 1, 1)), "it is no longer there"
    assert market.decode()[-1].reason.name == "UNKNOWN_ORDER"
    assert market.sell(1, symbol="B", participant=1) == 1
    assert [event.kind for event in market.decode()] == [EventKind.ACCEPTED, EventKind.FILL, EventKind.FILL]
    assert {event.time_ns for event in market.decode()} == {5} and {event.symbol for event in market.decode()} == {"B"}
    assert market.trades("B")[["time_ns", "price_ticks", "qty_lots", "side"]].tolist() == [(5, 100, 1, Side.SELL)]
    assert len(market.trades("A")) == len(market.trades(count=0)) == 0
    assert market.best("B") == (100, 101) and market.best() == (None, None)
    assert market.account(0, "B").position_lots == 1
    assert market.mass_cancel(symbol="B") == 2 and market.mass_cancel() == 0
    assert len(market.orders("B")) == 1
    market.validate()


def test_the_book_refuses_by_name() -> None:
    market = Market()
    market.sell(5, 100, participant=1)
    own = market.buy(5, 90)
    refused: list[tuple[Callable[[], object], str]] = [
        (
            lambda: market.buy(0, 100),
            "BAD_QTY: expected 1 to qty_lots_max lots.*; got qty_lots 0, and qty_lots_max is 1000000",
        ),
        (lambda: market.buy(-1, 100), "BAD_QTY"),
        (lambda: market.buy(10**12), "BAD_QTY"),
        (lambda: market.buy(1, 0), "BAD_PRICE: expected 1 to price_ticks_max ticks"),
        (
            lambda: market.buy(1, 100, post_only=True),
            "WOULD_CROSS: the order is post-only and would trade at once; got NEW 6 of participant 0",
        ),
        (lambda: market.replace(own, 0, 90), "BAD_QTY"),
        (lambda: market.reduce(own, -1), "BAD_QTY"),
        (
            lambda: market.buy(1, 1, command_id=1),
            "STALE_COMMAND_ID: expected a command_id greater than the participant's last; got 1",
        ),
        (lambda: market.buy(1, 1, terms=Terms(display_lots=0)), "BAD_TERMS"),
    ]
    for send, reason in refused:
        with pytest.raises(Rejected, match=reason):
            send()
        assert market.decode()[-1].kind == EventKind.REJECTED


def test_special_orders_are_their_rows() -> None:
    by_rows, by_name = Market(["A", "B"]), Market(["A", "B"])
    iceberg, pegged = Terms(display_lots=2, expire_ns=900), Terms(peg=Peg.PRIMARY)
    rows = [
        order(1, iceberg, qty_lots=9, price_ticks=50, symbol=1, time_in_force=TimeInForce.GTT, time_ns=3),
        order(4, pegged, qty_lots=3, price_ticks=60, symbol=1, time_in_force=TimeInForce.GTC, side=Side.BUY, time_ns=3),
        command(CommandKind.NEW, side=Side.SELL, qty_lots=4, flags=CommandFlag.MARKET, time_in_force=TimeInForce.GTC, symbol=1, participant=1, command_id=1, time_ns=3),
        command(CommandKind.NEW, side=Side.SELL, qty_lots=1, price_ticks=70, time_in_force=TimeInForce.GTC, symbol=1, participant=1, command_id=2, time_ns=901),
    ]  # fmt: skip
    assert by_name.buy(9, 50, symbol="B", time_in_force=TimeInForce.GTT, terms=iceberg, time_ns=3) == 3
    assert by_name.buy(3, 60, symbol="B", terms=pegged) == rows[1][-1]["command_id"]
    by_name.sell(4, symbol="B", participant=1)
    by_name.sell(1, 70, symbol="B", participant=1, time_ns=901)
    for row in rows:
        events = by_rows.submit(row)
    assert by_name.events().tolist() == events.tolist() and len(events) > 1, "the iceberg has expired"
    assert by_name.state_hash() == by_rows.state_hash()


def test_a_replace_with_terms_is_its_rows() -> None:
    by_rows, by_name = Market(), Market()
    stop, later = Terms(stop_ticks=90), Terms(stop_ticks=95, expire_ns=900)
    gtt = Terms(stop_ticks=90, expire_ns=500)
    by_name.sell(4, 85, terms=stop)
    by_name.sell(5, 80, terms=gtt, time_in_force=TimeInForce.GTT)
    assert by_name.replace(2, 4, 84, terms=Terms(stop_ticks=91))
    assert by_name.replace(5, 6, 80, terms=later)
    assert not by_name.replace(99, 6, 80, terms=later)
    with pytest.raises(Rejected, match="BAD_TERMS"):
        by_name.replace(2, 4, 84, terms=later)
    gtc = {"side": Side.SELL, "time_in_force": TimeInForce.GTC}
    for rows in (
        order(1, stop, qty_lots=4, price_ticks=85, **gtc),
        order(3, gtt, qty_lots=5, price_ticks=80, side=Side.SELL, time_in_force=TimeInForce.GTT),
        replacement(6, Terms(stop_ticks=91), order_id=2, qty_lots=4, price_ticks=84),
        replacement(8, later, order_id=5, qty_lots=6, price_ticks=80),
        replacement(11, later, order_id=99, qty_lots=6, price_ticks=80),
        replacement(14, later, order_id=2, qty_lots=4, price_ticks=84),
    ):
        by_rows.submit(rows)
    assert by_name.state_hash() == by_rows.state_hash()
    assert by_name.specials()[["stop_ticks", "expire_ns", "total_lots"]].tolist() == [(95, 900, 6), (91, 0, 4)]


def test_an_order_that_fills_thousands() -> None:
    """More events than there is room for at once, and more orders than in the beginning."""
    by_rows, by_name = Market(), Market()
    for number in range(6000):
        by_name.sell(1, 100 + number % 7, participant=1)
    rows = np.concatenate([command(CommandKind.NEW, side=1, qty_lots=1, price_ticks=100 + number % 7, time_in_force=1, participant=1, command_id=number + 1) for number in range(6000)])  # fmt: skip
    by_rows.submit(rows)
    by_name.buy(5500)
    events = by_rows.submit(
        command(CommandKind.NEW, qty_lots=5500, flags=CommandFlag.MARKET, time_in_force=1, command_id=1)
    )
    assert len(events) == 11_001 and by_name.events().tolist() == events.tolist()
    assert by_name.state_hash() == by_rows.state_hash()
    assert by_name.trades(count=5000)["match_id"].tolist() == list(range(1405, 5501)), "the last 4,096"
    by_name.sell(1, 300, participant=1)
    assert len(by_name.events()) == 1


@pytest.mark.parametrize(
    "value", [100.5, 100.0, float("nan"), float("inf"), True, False, "100", 2**63, 2**64, -(2**63) - 1, 2**200, [1], b"1", 1j, Decimal(1),
              np.float64(3), np.float32("nan"), np.bool_(True), np.uint64(2**63), np.array([1, 2]), np.array(1.0)], ids=repr,
)  # fmt: skip
def test_integers_only(value: Any) -> None:
    market = Market()
    market.buy(1, 1)
    before = market.state_hash()
    calls: dict[str, Callable[[], object]] = {
        "qty_lots": lambda: market.buy(value, 100),
        "price_ticks": lambda: market.sell(1, value),
        "symbol": lambda: market.buy(1, 1, symbol=value),
        "participant": lambda: market.buy(1, 1, participant=value),
        "time_in_force": lambda: market.buy(1, 1, time_in_force=value),
        "command_id": lambda: market.buy(1, 1, command_id=value),
        "time_ns": lambda: market.buy(1, 1, time_ns=value),
        "display_lots": lambda: market.buy(1, 1, terms=Terms(display_lots=value)),
        "order_id": lambda: market.cancel(value),
        "qty_lots ": lambda: market.reduce(1, value),
        "price_ticks ": lambda: market.replace(1, 1, value),
        "participant ": lambda: market.mass_cancel(participant=value),
        "count": lambda: market.trades(count=value),
    }
    for name, send in calls.items():
        with pytest.raises(ConfigError, match=f"^{name.strip()}: expected"):
            send()
    assert market.state_hash() == before


def test_none_stands_for_nothing_but_what_may_be_left_out() -> None:
    market: Any = Market()
    calls: dict[str, Callable[[], object]] = {
        "qty_lots": lambda: market.buy(None, 1),
        "price_ticks": lambda: market.replace(1, 1, None),
        "symbol": lambda: market.buy(1, 1, symbol=None),
        "participant": lambda: market.buy(1, 1, participant=None),
        "time_in_force": lambda: market.buy(1, 1, time_in_force=None),
        "order_id": lambda: market.cancel(None),
        "terms": lambda: market.buy(1, 1, terms=None),
    }
    for name, send in calls.items():
        with pytest.raises(ConfigError, match=f"{name}: expected .*None"):
            send()


@pytest.mark.parametrize(
    ("send", "message"),
    [
        (lambda market: market.buy(1, 1, symbol="C"), "symbol: expected A, B or a number from 0 to 1, got 'C'"),
        (lambda market: market.buy(1, 1, symbol=2), "symbol: expected"),
        (lambda market: market.buy(1, 1, symbol=-1), "symbol: expected"),
        (lambda market: market.buy(1, 1, symbol=65_535), "symbol: expected"),
        (lambda market: market.buy(1, 1, symbol=65_536), "symbol: expected"),
        (lambda market: market.mass_cancel(symbol="C"), "symbol: expected"),
        (lambda market: market.buy(1, 1, participant=4), "participant: expected a number from 0 to 3, got 4"),
        (lambda market: market.buy(1, 1, participant=-1), "participant: expected"),
        (lambda market: market.cancel(1, participant=65_536), "participant: expected"),
        (lambda market: market.cancel(1, participant=4), "participant: expected"),
        (lambda market: market.buy(1, 1, command_id=0), "command_id: expected an integer from 1, got 0"),
        (lambda market: market.buy(1, 1, command_id=-5), "command_id: expected an integer from 1"),
        (lambda market: market.cancel(1, time_ns=-1), "time_ns: expected an integer from 0, got -1"),
        (lambda market: market.replace(1, 1, 1, terms={"stop_ticks": 1}), "terms: expected Terms, got"),
        (lambda market: market.buy(1, 1, time_in_force=9), "time_in_force: expected a TimeInForce, got 9"),
        (lambda market: market.buy(1, 1, time_in_force="IOC"), "time_in_force: expected a TimeInForce, got 'IOC'"),
        (lambda market: market.buy(1, 1, time_in_force=True), "time_in_force: expected a TimeInForce, got True"),
        (lambda market: market.trades(count=-1), "count: expected an integer from 0"),
        (lambda market: market.submit(np.zeros((2, 2), COMMAND)), r"COMMAND rows.*shape \(2, 2\)"),
        (lambda market: market.submit(np.zeros((), COMMAND)), r"COMMAND rows.*shape \(\)"),
        (lambda market: market.submit(np.zeros(2, EVENT)), "COMMAND rows"),
        (lambda market: market.submit(command(CommandKind.NEW, participant=4)), "participant: expected .* got 4"),
    ],
)
def test_arguments_out_of_range_change_nothing(send: Callable[[Market], object], message: str) -> None:
    market = Market(["A", "B"], limits=MarketLimits(participants_max=4))
    market.buy(3, 5)
    before = market.state_hash()
    with pytest.raises(ConfigError, match=message):
        send(market)
    assert market.state_hash() == before
    assert market.buy(1, 1) == 2, "and it goes on"


def test_a_peg_without_a_price_is_no_market_order() -> None:
    """As for the clients."""
    market = Market(["A"])
    market.buy(1, 90)
    market.sell(1, 110)
    peg = market.buy(5, terms=Terms(peg=Peg.MID))
    market.sell(1, 100, participant=1)
    (fill,) = [event for event in market.decode() if event.kind == EventKind.FILL and event.order_id == peg]
    assert (fill.price_ticks, fill.qty_lots) == (100, 1)


def test_integers_of_numpy_are_integers() -> None:
    market = Market(["A"])
    order_id = market.buy(np.int64(5), np.uint16(100), symbol=np.int8(0), participant=np.int32(2), time_ns=np.int64(4))
    assert order_id == 1 and market.book("A")[0].tolist() == [(100, 5, 1)]
    assert market.cancel(np.array(order_id), participant=np.uint8(2))


def test_rows_in_steps_are_rows() -> None:
    rows = np.concatenate(
        [command(CommandKind.NEW, qty_lots=1, price_ticks=number, command_id=number) for number in range(1, 9)]
    )
    rows.flags.writeable = False
    market = Market()
    assert market.submit(rows[::2])["price_ticks"].tolist() == [1, 3, 5, 7]
    assert len(market.submit(rows[:0])) == 0


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda market: pickle.loads(pickle.dumps(market))])
def test_a_copy_knows_the_time(copied: Callable[[Market], Market]) -> None:
    market = Market()
    market.buy(1, 10, time_ns=1000)
    other = copied(market)
    with pytest.raises(Rejected, match="BAD_TERMS"):
        other.buy(1, 10, time_in_force=TimeInForce.GTT, terms=Terms(expire_ns=500))


@pytest.mark.parametrize("special", [False, True], ids=["plain", "special"])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda market: pickle.loads(pickle.dumps(market))])
def test_a_copy_goes_its_own_way(special: bool, copied: Callable[[Market], Market]) -> None:
    market = Market(["A"], limits=Limits(participants_max=2))
    market.buy(5, 100, terms=Terms(display_lots=2) if special else Terms())
    other = copied(market)
    assert other.state_hash() == market.state_hash()
    market.sell(3, participant=1)
    before = market.state_hash()
    other.buy(7, 99, terms=Terms(hidden=special))
    other.sell(5, participant=1)
    assert market.state_hash() == before != other.state_hash()
    assert (market.account(1).position_lots, other.account(1).position_lots) == (-3, -5)
    market.validate()
    other.validate()


@pytest.mark.parametrize("name", ["active_order", "orders", "extras"])
def test_a_market_that_another_version_has_pickled(name: str) -> None:
    """Its arrays are laid out otherwise: compiled code would write beyond them."""
    market = Market()
    rows = getattr(market.state, name)
    shorter = np.zeros(len(rows), [(field, rows.dtype[field]) for field in rows.dtype.names[:-1]])
    (names, limits, state), time_ns = market.__getstate__()
    with pytest.raises(ConfigError, match=f"expected a market that this version .* other {name}"):
        object.__new__(Market).__setstate__(((names, limits, state._replace(**{name: shorter})), time_ns))


def test_a_mass_cancel_counts_what_it_cancels() -> None:
    """Not what trades because of it, behind its answer."""
    market = Market()
    market.buy(10, 100, participant=1)
    market.sell(10, 130, participant=1)
    market.sell(10, 110, participant=2)
    market.sell(7, 112, participant=3, terms=Terms(hidden=True))
    market.buy(50, participant=4, terms=Terms(peg=Peg.MID))
    assert market.mass_cancel(participant=2) == 1
    assert EventKind.FILL in {event.kind for event in market.decode()}, "the peg has followed the mid"


def test_a_stale_command_id_never_costs_a_term_only() -> None:
    market = Market()
    market.buy(10, 100, participant=1)
    market.sell(1, 100)
    stop = market.sell(5, 90, terms=Terms(stop_ticks=95, trail_ticks=20))
    before = market.specials().tolist()
    stale: list[Callable[[], object]] = [
        lambda: market.sell(5, terms=Terms(stop_ticks=95, self_trade=SelfTrade.NEWEST), command_id=stop),
        lambda: market.replace(stop, 5, 90, terms=Terms(stop_ticks=94, trail_ticks=10), command_id=stop),
        lambda: market.sell(5, 90, terms=Terms(hidden=True), command_id=stop),
    ]
    for send in stale:
        with pytest.raises(Rejected, match=f"STALE_COMMAND_ID: .*; got {stop}; leave it out"):
            send()
        assert len(market.events()) == 1
    assert market.specials().tolist() == before and len(market.trades()) == 1
    assert market.sell(5, 200, terms=Terms(display_lots=2)) == stop + 2


def test_the_last_command_ids() -> None:
    market, last = Market(), 2**63 - 1
    with pytest.raises(ConfigError, match="command_id: expected an integer that fits in 64 bits"):
        market.buy(5, 90, terms=Terms(display_lots=1), command_id=last)
    assert market.buy(5, 90, command_id=last) == last
    with pytest.raises(ConfigError, match="command_id: expected an integer that fits in 64 bits"):
        market.mass_cancel()


def test_terms_that_wait_for_their_order_outlive_a_restart() -> None:
    """Even if nothing else is known of the participant."""
    market = Market()
    market.submit(command(CommandKind.TERM, participant=7, flags=Term.DISPLAY_LOTS, price_ticks=2))
    restored = Market.restore(market.snapshot(), 1, limits=market.limits)
    events = restored.submit(order(1, qty_lots=5, price_ticks=5, participant=7, flags=CommandFlag.TERMS))
    assert events[["kind", "qty_lots"]].tolist() == [(EventKind.ACCEPTED, 2)]
