"""Phases from the calendar, configured rules and accounts, batch auctions and expiries on a served exchange."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from serl.clients.blocking import Exchange, connect
from serl.clients.errors import Rejected
from serl.clients.replay import set_clock
from serl.exchange.account_config import AccountConfig
from serl.exchange.clock import CURRENT_TIME
from serl.exchange.config import ExchangeConfig, SymbolConfig, local_operator_token
from serl.exchange.records import CommandKind, Phase, SelfTrade, TimeInForce
from serl.exchange.request import request_socket
from serl.exchange.terms import Terms
from serl.exchange.wire import Kind
from tests.server_fixture import RawClient, Served, start_exchange

OPENING = [{"at": "09:25", "phase": "pre_open"}, {"at": "09:30", "phase": "continuous"}]
HOUR_NS = 3600 * 10**9


def scaled(start: str, speed: float = 10.0, **symbol: object) -> dict[str, object]:
    clock = {"kind": "scaled", "start": start, "speed": speed, "held": True}
    return {"clock": clock, "symbols": [{"name": "AMZN", **symbol}], "full_rule_book": True}


@contextmanager
def market(config: dict[str, object], folder: Path) -> Iterator[tuple[Exchange, Exchange]]:
    """Two clients of one exchange."""
    with (
        start_exchange(symbols="", clock="", config=config, folder=folder) as served,
        connect(served.endpoint, "ann") as ann,
        connect(served.endpoint, "bob") as bob,
    ):
        yield ann, bob


def until(what: Callable[[], bool], client: Exchange) -> None:
    deadline = time.monotonic() + 30
    while not what():
        assert time.monotonic() < deadline, "the condition did not become true"
        client.wait(0.05)


def run(client: Exchange) -> None:
    """Starts the held clock."""
    set_clock(client.core.endpoint, "", CURRENT_TIME, run=True)


def phase(client: Exchange) -> int:
    return int(client.ask(Kind.STATUS, 0)[5][1])


def test_the_day_opens_with_an_auction(tmp_path: Path) -> None:
    with market(scaled("09:29:30", day=OPENING), tmp_path) as (ann, bob):
        assert phase(ann) == Phase.PRE_OPEN
        ann.buy("AMZN", 10, 103)
        bob.sell("AMZN", 6, 100)
        with pytest.raises(Rejected, match="WRONG_PHASE"):
            bob.sell("AMZN", 6, 100, time_in_force=TimeInForce.IOC)
        assert not ann.fills()
        price, volume, imbalance = ann.ask(Kind.INDICATIVE, 0)[5]
        assert (volume, imbalance) == (6, 4)
        run(ann)
        until(lambda: bool(ann.fills()), ann)
        until(lambda: bool(bob.fills()), bob)
        assert {fill.price_ticks for fill in (*ann.fills(), *bob.fills())} == {price}
        assert phase(ann) == Phase.CONTINUOUS
        assert ann.book("AMZN") == ([(103, 4, 1)], [])


def auction_news(client: Exchange) -> list[list[Any]]:
    """Messages of the channel `auction` since the last call."""
    found = []
    while (item := client.wait(0.3)) is not None:
        if isinstance(item, tuple) and item[0] == "auction/AMZN/":
            assert item[1][0] == 119
            found.append(item[1])
    return found


def test_the_feed_publishes_the_indicative_auction(tmp_path: Path) -> None:
    with market(scaled("09:29:30", day=OPENING), tmp_path) as (ann, bob):
        ann.subscribe("auction", "AMZN")
        assert auction_news(ann) == [], "no event yet"
        bob.buy("AMZN", 10, 103)
        assert [news[5] for news in auction_news(ann)] == [[0, 0, 0]]
        bob.sell("AMZN", 6, 100)
        (news,) = auction_news(ann)
        reply = ann.ask(Kind.INDICATIVE, 0)
        assert news[5] == reply[5] and news[5][1:] == [6, 4]
        assert (news[1], news[3]) == (reply[2], reply[3]), "of the same epoch, and up to the same event"
        bob.buy("AMZN", 1, 50)
        with pytest.raises(Rejected):
            bob.buy("AMZN", 1, 104, time_in_force=TimeInForce.IOC)
        assert auction_news(ann) == [], "neither changes the auction"
        bob.sell("AMZN", 9, 100)
        (last,) = auction_news(ann)
        assert last[5][1:] == [10, -5] and last[2] == news[3], "the chain of sequences has no gap"
        run(ann)
        until(lambda: phase(bob) == Phase.CONTINUOUS, bob)
        assert [message[5] for message in auction_news(ann)] == [[]], "the end of the phase, once"
        bob.buy("AMZN", 1, 90)
        assert auction_news(ann) == []


def operate(served: Served, kind: CommandKind, flags: int = 0) -> None:
    with RawClient(served.endpoint, "admin") as admin:
        admin.send(Kind.OPERATE, 1, served.operator, int(kind), 0, int(flags))
        assert admin.receive()[0] != Kind.ERROR


@pytest.mark.parametrize(
    ("later", "waits_in", "ends_in"),
    [([], Phase.PRE_OPEN, Phase.CONTINUOUS), (["closing", "closed"], Phase.CLOSING, Phase.CLOSED)],
)
def test_an_auction_due_during_a_halt_is_held_after_it(
    tmp_path: Path, later: list[str], waits_in: Phase, ends_in: Phase
) -> None:
    """A phase that collects orders too begins on time."""
    day = [*OPENING, *({"at": f"09:{31 + number}", "phase": name} for number, name in enumerate(later))]
    config: dict[str, object] = {"clock": {"kind": "lockstep"}, "symbols": [{"name": "AMZN", "day": day}]}
    with (
        start_exchange(symbols="", clock="", config=config, folder=tmp_path) as served,
        connect(served.endpoint, "ann") as ann,
    ):
        ann.turn(9 * HOUR_NS + HOUR_NS // 2 - 2)
        for add in (ann.buy, ann.sell):  # GTC: the end of the day, that is due in the halt too, leaves them
            add("AMZN", 3, 100, time_in_force=TimeInForce.GTC)
        ann.turn(9 * HOUR_NS + HOUR_NS // 2 - 1)
        operate(served, CommandKind.HALT)
        ann.turn(10 * HOUR_NS)
        assert not ann.fills() and phase(ann) == waits_in
        operate(served, CommandKind.RESUME)
        ann.turn(11 * HOUR_NS)
        until(lambda: len(ann.fills()) == 2, ann)
        assert {fill.time_ns for fill in ann.fills()} == {10 * HOUR_NS} and phase(ann) == ends_in


def test_a_followed_book_is_correct_after_an_auction(tmp_path: Path) -> None:
    with market(scaled("09:29:30", day=OPENING), tmp_path) as (ann, bob):
        ann.follow("AMZN")
        for price in (101, 102, 103):
            bob.buy("AMZN", 5, price)
            bob.sell("AMZN", 4, price - 2)
        run(ann)
        until(lambda: phase(bob) == Phase.CONTINUOUS, ann)
        until(lambda: ann.book("AMZN") == bob.book("AMZN"), ann)
        bids, asks = ann.book("AMZN")
        assert bids and (not asks or bids[0][0] < asks[0][0])


def test_orders_expire_without_any_message(tmp_path: Path) -> None:
    with market(scaled("10:00"), tmp_path) as (ann, _):
        terms = Terms(expire_ns=10 * HOUR_NS + 20 * 10**9)
        order = ann.buy("AMZN", 10, 103, time_in_force=TimeInForce.GTT, terms=terms)
        run(ann)
        until(lambda: order.state == "done", ann)


def test_batch_auctions(tmp_path: Path) -> None:
    config = scaled("10:00", auction_every_s=5, day=[{"at": "09:00", "phase": "intraday"}])
    with market(config, tmp_path) as (ann, bob):
        run(ann)
        for _ in range(2):
            done = len(ann.fills())
            ann.buy("AMZN", 10, 103)
            bob.sell("AMZN", 10, 101)
            until(lambda done=done: len(ann.fills()) > done, ann)
        assert phase(ann) == Phase.INTRADAY


def test_batch_auctions_after_the_clock_was_set_back(tmp_path: Path) -> None:
    """There were none until it reached the time at which it had been."""
    with market(scaled("10:00", auction_every_s=5), tmp_path) as (ann, bob):
        for time_ns in (11 * HOUR_NS, 10 * HOUR_NS):
            set_clock(ann.core.endpoint, "", time_ns, run=False)
            bob.ask(Kind.STATUS, 0)
        with request_socket(ann.core.endpoint, "admin") as ask:
            ask(Kind.OPERATE, local_operator_token(ann.core.endpoint), int(CommandKind.PHASE), 0, int(Phase.INTRADAY))
        ann.buy("AMZN", 10, 103)
        bob.sell("AMZN", 10, 101)
        set_clock(ann.core.endpoint, "", 10 * HOUR_NS + 60 * 10**9, run=False)
        until(lambda: bool(ann.fills()), ann)
        assert ann.fills()[0].time_ns == 10 * HOUR_NS + 5 * 10**9


def test_a_band_interrupts_trading(tmp_path: Path) -> None:
    config = scaled("10:00", band_high_ticks=105, band_action="auction", volatility_s=10)
    with market(config, tmp_path) as (ann, bob):
        bob.sell("AMZN", 5, 105)
        bob.sell("AMZN", 5, 106)
        ann.buy("AMZN", 8, 110)
        assert phase(ann) == Phase.VOLATILITY and sum(fill.qty_lots for fill in ann.fills()) == 5
        run(ann)
        until(lambda: sum(fill.qty_lots for fill in ann.fills()) == 8, ann)
        assert phase(ann) == Phase.CONTINUOUS


def test_triggers_after_an_operators_auction_trade_within_its_band(tmp_path: Path) -> None:
    config = scaled("10:00", band_ppm=50_000, reference_ticks=1000, band_action="auction")
    with (
        start_exchange(symbols="", clock="", config=config, folder=tmp_path) as served,
        connect(served.endpoint, "ann") as ann,
        connect(served.endpoint, "bob") as bob,
    ):
        operate(served, CommandKind.PHASE, Phase.PRE_OPEN)
        stop = ann.buy("AMZN", 2, terms=Terms(stop_ticks=1060))
        bob.sell("AMZN", 1, 1070)
        bob.buy("AMZN", 1, 1070)
        bob.sell("AMZN", 9, 1071)
        operate(served, CommandKind.PHASE, Phase.CONTINUOUS)
        until(lambda: stop.state == "done", ann)
        assert [(fill.qty_lots, fill.price_ticks) for fill in ann.fills()] == [(2, 1071)]
        assert phase(ann) == Phase.CONTINUOUS


def test_configured_rules_and_accounts_are_applied(tmp_path: Path) -> None:
    config = scaled("10:00", tick_table={0: 1, 100: 5}, lot_multiple=10)
    config["accounts"] = {"ann": {"self_trade": "oldest", "order_lots_max": 50}}
    with (
        start_exchange(symbols="", clock="", config=config, folder=tmp_path) as served,
        connect(served.endpoint, "ann") as ann,
    ):
        for qty, price, reason in ((7, 90, "BAD_QTY"), (10, 103, "BAD_PRICE"), (60, 90, "LIMIT_QTY")):
            with pytest.raises(Rejected, match=reason):
                ann.buy("AMZN", qty, price)
        first = ann.sell("AMZN", 10, 105)
        second = ann.buy("AMZN", 10, 105)
        until(lambda: first.state == "done", ann)
        assert second.state == "open" and not ann.fills()


def test_terms_over_the_sockets(tmp_path: Path) -> None:
    with market(scaled("10:00"), tmp_path) as (ann, bob):
        bob.follow("AMZN")
        ann.sell("AMZN", 100, 110, terms=Terms(display_lots=10))
        ann.sell("AMZN", 5, 109, terms=Terms(hidden=True))
        until(lambda: bob.book("AMZN")[1] == [(110, 10, 1)], bob)
        stop = ann.sell("AMZN", 5, 90, terms=Terms(stop_ticks=109))
        target = ann.sell("AMZN", 5, 120, terms=Terms(link=stop.order_id))
        bob.buy("AMZN", 15, 110)
        # the hidden lots trade at 109, which triggers the stop and cancels its linked order
        until(lambda: target.state == "done", ann)
        assert sum(fill.qty_lots for fill in bob.fills()) == 15
        until(lambda: bob.book("AMZN")[1] == [(90, 5, 1), (110, 10, 1)], bob)


def test_lockstep_with_a_calendar_is_deterministic(tmp_path: Path) -> None:
    config: dict[str, object] = {"clock": {"kind": "lockstep"}, "symbols": [{"name": "AMZN", "day": OPENING}]}
    with (
        start_exchange(symbols="", clock="", config=config, folder=tmp_path) as served,
        connect(served.endpoint, "ann") as ann,
    ):
        ann.turn(9 * HOUR_NS + HOUR_NS // 2 - 1)
        ann.buy("AMZN", 3, 100)
        ann.sell("AMZN", 3, 100)
        ann.turn(10 * HOUR_NS)
        until(lambda: len(ann.fills()) == 2, ann)
        assert {fill.time_ns for fill in ann.fills()} == {9 * HOUR_NS + HOUR_NS // 2}


@pytest.mark.parametrize(
    ("symbol", "word"),
    [
        ({"day": [{"at": "25:00", "phase": "closed"}]}, "time of day"),
        ({"day": [{"at": "09:00", "phase": "lunch"}]}, "pre_open"),
        ({"tick_table": dict.fromkeys(range(9), 1)}, "8"),
        ({"matching": "lifo"}, "pro-rata"),
    ],
)
def test_invalid_rules_are_errors(symbol: dict[str, object], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        SymbolConfig.model_validate({"name": "AMZN", **symbol})


def test_an_unknown_time_zone_is_an_error() -> None:
    with pytest.raises(ValidationError, match="America/New_York"):
        ExchangeConfig(symbols=[SymbolConfig(name="AMZN")], time_zone="Mars/Olympus")


def test_settings_of_an_account() -> None:
    settings = dict(AccountConfig(self_trade="both", collar_ticks=7).settings())
    assert SelfTrade.BOTH in settings.values() and 7 in settings.values()
