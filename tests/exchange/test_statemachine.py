"""A hypothesis state machine over both markets: few prices, few orders, every step compared. Failures shrink to a few commands."""

import os
from collections import Counter

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import (
    ALL_SYMBOLS,
    CASH,
    PHASE,
    POSITION,
    CommandFlag,
    CommandKind,
    EventFlag,
    EventKind,
    Phase,
    Rule,
    SelfTrade,
    Setting,
    Side,
    Term,
    TimeInForce,
    command,
)
from tests.exchange.reference import ReferenceMarket

SYMBOLS = 2
LIMITS = MarketLimits(qty_lots_max=50, price_ticks_max=2000, orders_open_max=32, window_ticks=128, participants_max=4)
OPERATOR = 3
traders = st.integers(0, 3)
symbols = st.integers(0, SYMBOLS - 1)
sides = st.sampled_from([int(side) for side in Side])
quantities = st.integers(1, 9) | st.integers(-1, 52)
# near prices meet; the far ones lie outside the kernel's window, 0 and 2001 outside what is allowed
prices = st.integers(998, 1003) | st.integers(0, 2001) | st.sampled_from([1, 900, 1127, 1128, 2000])
times_in_force = st.sampled_from([TimeInForce.DAY, TimeInForce.DAY, TimeInForce.GTC, TimeInForce.IOC, TimeInForce.FOK])
post_only = st.sampled_from([CommandFlag.NONE, CommandFlag.NONE, CommandFlag.POST_ONLY])
near = st.integers(996, 1004)
any_time_in_force = st.sampled_from([TimeInForce.DAY, TimeInForce.DAY, TimeInForce.GTT, *TimeInForce])
any_flags = st.sampled_from([0, 0, 0, *CommandFlag])
values = {
    Term.DISPLAY_LOTS: st.integers(1, 4), Term.MIN_LOTS: st.integers(1, 9), Term.STOP_TICKS: near, Term.TRAIL_TICKS: st.integers(1, 3),
    Term.PEG: st.integers(0, 2), Term.OFFSET_TICKS: st.integers(0, 3), Term.EXPIRE_NS: st.integers(0, 6), Term.LINK: st.integers(1, 60),
    Term.SELF_TRADE: st.integers(0, 4), Term.TOUCH_TICKS: near,
    Term.UPDATE_LINK: st.integers(1, 60), Term.WAITS: st.integers(1, 2), Term.CHILD: st.integers(1, 60),
}  # fmt: skip
one_term = st.sampled_from(Term).flatmap(lambda term: st.tuples(st.just(int(term)), values[term]))
terms = st.lists(one_term, max_size=2).map(dict)


class BothMarkets(RuleBasedStateMachine):
    """Sends the same command to both; `displayed` is built from the events alone."""

    def __init__(self) -> None:
        super().__init__()
        self.markets = Market(SYMBOLS, limits=LIMITS), ReferenceMarket(SYMBOLS, limits=LIMITS)
        for market in self.markets:
            market.grant_operator(OPERATOR)
        self.last_id = [0] * LIMITS.participants_max
        self.time_ns = 0
        self.displayed: dict[int, tuple[int, int, int]] = {}  # order_number -> (symbol, side, price)
        self.lots: Counter[int] = Counter()  # displayed lots by order_number

    def send(self, kind: int, participant: int, **fields: int) -> None:
        self.last_id[participant] += 1
        fields = {"command_id": self.last_id[participant], "time_ns": self.time_ns, **fields}
        sent = command(kind, participant=participant, **fields)
        compiled, reference = (market.submit(sent) for market in self.markets)
        assert np.array_equal(compiled, reference), f"{sent}\n compiled:  {compiled}\n reference: {reference}"
        for event in reference:
            self.follow(event)
        fills = reference[reference["kind"] == EventKind.FILL]
        makers = fills["flags"] & EventFlag.MAKER > 0
        for name in ("match_id", "price_ticks", "qty_lots", "symbol"):  # what one side buys the other side sells
            assert np.array_equal(fills[makers][name], fills[~makers][name])
        assert (fills[makers]["side"] != fills[~makers]["side"]).all()

    def follow(self, event: np.void) -> None:
        """Applies an event to the displayed book, as docs/orders.md describes."""
        kind, flags, number = int(event["kind"]), int(event["flags"]), int(event["order_number"])
        if kind in (EventKind.PHASED, EventKind.SET) or flags & EventFlag.HIDDEN:
            return
        rests = flags & EventFlag.RESTING
        if kind == EventKind.RESTED or (kind == EventKind.ACCEPTED and rests):
            self.displayed[number] = int(event["symbol"]), int(event["side"]), int(event["price_ticks"])
            self.lots[number] += int(event["qty_lots"])
        elif (
            kind in (EventKind.REDUCED, EventKind.REPLACED)
            or (kind == EventKind.CANCELLED and rests)
            or flags & (EventFlag.MAKER | EventFlag.AUCTION)
        ):
            self.lots[number] -= int(event["qty_lots"])
            if self.lots[number] == 0:
                del self.displayed[number], self.lots[number]

    @rule(who=traders, symbol=symbols, side=sides, qty=quantities, price=prices, tif=times_in_force, flags=post_only)
    def limit_order(self, who: int, symbol: int, side: int, qty: int, price: int, tif: int, flags: int) -> None:
        self.send(
            CommandKind.NEW, who, symbol=symbol, side=side, qty_lots=qty, price_ticks=price, time_in_force=tif, flags=flags
        )  # fmt: skip

    @rule(
        who=traders,
        symbol=symbols,
        side=sides,
        start=st.integers(990, 1010),
        step=st.integers(1, 60),
        count=st.integers(2, 8),
    )
    def ladder(self, who: int, symbol: int, side: int, start: int, step: int, count: int) -> None:
        """Orders at several levels, for sweeps and moves of the price window."""
        for level in range(count):
            price = start + level * step if side else start - level * step
            self.send(CommandKind.NEW, who, symbol=symbol, side=side, qty_lots=1 + level, price_ticks=price)

    @rule(who=traders, symbol=symbols, side=sides, qty=st.integers(1, 50), tif=times_in_force)
    def market_order(self, who: int, symbol: int, side: int, qty: int, tif: int) -> None:
        self.send(
            CommandKind.NEW, who, symbol=symbol, side=side, qty_lots=qty, time_in_force=tif, flags=CommandFlag.MARKET
        )

    @rule(
        data=st.data(),
        kind=st.sampled_from([CommandKind.CANCEL, CommandKind.REDUCE, CommandKind.REPLACE]),
        qty=quantities,
        price=prices,
    )
    @precondition(lambda self: self.markets[1].open)
    def change(self, data: st.DataObject, kind: int, qty: int, price: int) -> None:
        participant, order_id = data.draw(st.sampled_from(sorted(self.markets[1].open)))
        self.send(kind, participant, order_id=order_id, qty_lots=qty, price_ticks=price)

    @rule(who=traders, order_id=st.integers(-1, 40), kind=st.sampled_from([CommandKind.CANCEL, CommandKind.REPLACE]))
    def change_any(self, who: int, order_id: int, kind: int) -> None:
        self.send(kind, who, order_id=order_id, qty_lots=5, price_ticks=1000)

    @rule(who=traders, symbol=st.sampled_from([0, 1, 2, ALL_SYMBOLS]))
    def mass_cancel(self, who: int, symbol: int) -> None:
        self.send(CommandKind.MASS_CANCEL, who, symbol=symbol)

    @rule(who=st.sampled_from([0, OPERATOR]), kind=st.sampled_from([16, 17, 18, 18, 19, 25]), symbol=st.integers(0, 2))
    def operate(self, who: int, kind: int, symbol: int) -> None:
        self.send(kind, who, symbol=symbol, qty_lots=1, price_ticks=1)

    @rule(
        who=traders,
        symbol=symbols,
        side=sides,
        qty=st.integers(1, 12),
        price=near,
        tif=any_time_in_force,
        flags=any_flags,
        terms=terms,
    )
    def special_order(
        self, who: int, symbol: int, side: int, qty: int, price: int, tif: int, flags: int, terms: dict[int, int]
    ) -> None:
        """Valid and invalid combinations of flags and terms."""
        for term, value in terms.items():
            value += self.time_ns if term == Term.EXPIRE_NS else 0
            self.send(CommandKind.TERM, who, flags=term, price_ticks=value)
        flags |= CommandFlag.TERMS if terms else 0
        price = 0 if flags & CommandFlag.MARKET else price
        self.send(
            CommandKind.NEW, who, symbol=symbol, side=side, qty_lots=qty, price_ticks=price, time_in_force=tif, flags=flags
        )  # fmt: skip

    @rule(symbol=symbols, phase=st.sampled_from([Phase.CONTINUOUS, Phase.CONTINUOUS, *Phase]))
    def change_phase(self, symbol: int, phase: int) -> None:
        self.send(CommandKind.PHASE, OPERATOR, symbol=symbol, flags=phase)

    @rule(symbol=symbols)
    def uncross(self, symbol: int) -> None:
        self.send(CommandKind.UNCROSS, OPERATOR, symbol=symbol)

    @rule(who=traders, mode=st.sampled_from(SelfTrade))
    def prevent_self_trades(self, who: int, mode: int) -> None:
        self.send(CommandKind.ACCOUNT, who, order_id=who, flags=Setting.SELF_TRADE, price_ticks=mode)

    @rule(symbol=symbols, which=st.sampled_from(Rule), value=st.integers(0, 2) | near, start=st.integers(0, 1001))
    def set_rule(self, symbol: int, which: int, value: int, start: int) -> None:
        self.send(CommandKind.RULE, OPERATOR, symbol=symbol, flags=which, price_ticks=value, order_id=start)

    @rule(
        who=traders,
        symbol=symbols,
        side=sides,
        lots=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 30)),
        across=st.integers(0, 3),
        inside=st.integers(0, 3),
        stays=st.booleans(),
    )
    def trade_behind_a_band(
        self, who: int, symbol: int, side: int, lots: tuple[int, int, int], across: int, inside: int, stays: bool
    ) -> None:
        """A displayed order, an all-or-none order with a better price, a band between the two, and an order that crosses both."""
        (sign, edge), (displayed, conditional, incoming) = ((-1, Rule.BAND_LOW) if side else (1, Rule.BAND_HIGH)), lots
        price, flags = 1000 + sign * across, CommandFlag.ALL_OR_NONE
        self.send(CommandKind.NEW, who, symbol=symbol, side=side, qty_lots=displayed, price_ticks=1000)
        self.send(CommandKind.NEW, who, symbol=symbol, side=side, qty_lots=conditional, price_ticks=price, flags=flags)
        self.send(CommandKind.RULE, OPERATOR, symbol=symbol, flags=edge, price_ticks=price - sign * inside)
        self.send(CommandKind.NEW, who, symbol=symbol, side=1 - side, qty_lots=incoming, price_ticks=1000)
        if not stays:
            self.send(CommandKind.RULE, OPERATOR, symbol=symbol, flags=edge, price_ticks=0)

    @rule(who=traders, which=st.sampled_from(Setting), value=st.integers(0, 20))
    def set_account(self, who: int, which: int, value: int) -> None:
        self.send(CommandKind.ACCOUNT, OPERATOR, order_id=who, flags=which, price_ticks=value)

    @rule(passed_ns=st.integers(1, 5))
    def let_time_pass(self, passed_ns: int) -> None:
        self.time_ns += passed_ns
        self.send(CommandKind.TIME, OPERATOR)

    @rule(who=traders, back=st.integers(0, 3))
    def send_stale(self, who: int, back: int) -> None:
        stale = self.last_id[who] - back
        self.send(CommandKind.NEW, who, command_id=stale or -1, qty_lots=1, price_ticks=1000)
        self.last_id[who] -= 1

    @rule()
    def restart(self) -> None:
        """Restores each market from the snapshot of the other."""
        compiled, reference = (market.snapshot() for market in self.markets)
        self.markets = (
            Market.restore(reference, SYMBOLS, limits=LIMITS),
            ReferenceMarket.restore(compiled, SYMBOLS, limits=LIMITS),
        )
        for market in self.markets:
            market.grant_operator(OPERATOR)

    @invariant()
    def books_are_equal_and_follow_from_the_events(self) -> None:
        sizes: Counter[tuple[int, int, int]] = Counter()
        for number, place in self.displayed.items():
            sizes[place] += self.lots[number]
        phases = self.markets[1].snapshot().symbols[:, PHASE]
        for symbol in range(SYMBOLS):
            (bids, asks), expected = (market.book(symbol) for market in self.markets)
            assert np.array_equal(bids, expected[0])
            assert np.array_equal(asks, expected[1])
            crossed = len(bids) and len(asks) and bids[0]["price_ticks"] >= asks[0]["price_ticks"]
            assert not crossed or Phase.CONTINUOUS < phases[symbol] < Phase.CLOSED
            for side, rows in enumerate((bids, asks)):
                levels = {(symbol, side, int(row["price_ticks"])): int(row["qty_lots"]) for row in rows}
                assert levels == {place: qty for place, qty in sizes.items() if place[:2] == (symbol, side)}
        orders = self.markets[0].orders()
        assert np.array_equal(orders, self.markets[1].orders())
        assert {int(order["order_number"]) for order in orders} == set(self.displayed)

    @invariant()
    def states_are_valid_and_equal(self) -> None:
        compiled, reference = (market.snapshot() for market in self.markets)
        assert compiled.digest() == reference.digest()
        assert not compiled.balances[..., [POSITION, CASH]].sum(axis=0).any()
        for market in self.markets:
            market.validate()


EXAMPLES = int(os.environ.get("SERL_STATE_MACHINE_EXAMPLES", "15"))
BothMarkets.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=40)
TestBothMarkets = BothMarkets.TestCase
