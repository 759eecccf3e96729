"""Streams of commands for the differential test: seeded, and aimed at what is open, so that cancels and fills happen.

A generator is told the events of its commands and so knows the orders that live. About one command in ten is invalid.
"""

import dataclasses

import numpy as np

from serl.exchange.limits import MarketLimits
from serl.exchange.records import (
    ALL_SYMBOLS,
    COMMAND,
    CommandFlag,
    CommandKind,
    EventFlag,
    EventKind,
    Reason,
    Rows,
    Term,
    TimeInForce,
)
from tests.exchange.generate_orders import Wish, add_terms, replaced_terms, stand_across
from tests.exchange.generate_states import Operation, balance, band, opening_balances, operation

SYMBOLS = 3
OPERATOR = 0
PARTICIPANTS = 6  # 0 is the operator, and trades as well
TIMES_IN_FORCE = (TimeInForce.DAY, TimeInForce.GTC, TimeInForce.IOC, TimeInForce.FOK)
RANDOMS = 12  # uniform numbers a command
LIMITS = MarketLimits(participants_max=16)


@dataclasses.dataclass(frozen=True)
class Profile:
    """What kind of market a stream makes. Shares are of all commands, the rest are NEW."""

    depth_ticks: float  # typical distance of an order from the mid
    drift_ticks: float  # how far the mid moves at most with a command
    qty_lots: int  # typical size
    marketable: float  # share of NEW that reach across
    sweep: float  # share of NEW with fifty times the size
    wild: float  # share of prices anywhere from 1 to price_ticks_max
    cancel: float = 0.28
    reduce: float = 0.06
    replace: float = 0.14
    rare: float = 0.01  # mass cancel, print, halt, resume; a tenth of it ends the day
    special: float = 0.0  # share of NEW with terms and other flags
    across: float = 0.0  # share of `special` with a minimum and a price across the book
    bands: float = 0.0  # share of `states` that sets a band around the mid
    balances: float = 0.0  # share of `states` about balances; if there is one, most accounts have checks
    states: float = 0.0  # phases, auctions, accounts, rules, time; each is taken back after some hundred commands
    limits: MarketLimits = LIMITS
    mid_ticks: int = 10_000  # of the first symbol at the start; a fifth of it is the lowest


PROFILES = {
    "deep": Profile(400.0, 2.0, 40, 0.03, 0.0002, 0.001, cancel=0.16, replace=0.1, rare=0.0005),
    "thin": Profile(
        6.0, 0.3, 8, 0.15, 0.01, 0.01, cancel=0.1, rare=0.02,
        limits=MarketLimits(orders_open_max=64, window_ticks=128, price_ticks_max=30_000, participants_max=16),
    ),
    "few_levels": Profile(
        60.0, 0.5, 8, 0.05, 0.01, 0.002, cancel=0.15, rare=0.002,
        limits=MarketLimits(levels_max=90, window_ticks=128, participants_max=16),
    ),
    "sweep": Profile(30.0, 1.0, 20, 0.08, 0.02, 0.003, cancel=0.15, rare=0.003),
    "terms": Profile(
        20.0, 1.0, 15, 0.1, 0.01, 0.002, cancel=0.12, replace=0.08, rare=0.004, special=0.45,
        limits=MarketLimits(participants_max=16, display_divisor_max=30),
    ),
    "phases": Profile(
        15.0, 0.5, 12, 0.1, 0.01, 0.002, cancel=0.12, replace=0.1, rare=0.004, special=0.3, states=0.012,
        limits=MarketLimits(participants_max=16, display_divisor_max=30),
    ),
    "crowded": Profile(
        8.0, 0.3, 8, 0.15, 0.02, 0.004, cancel=0.18, replace=0.06, rare=0.01, special=0.5, states=0.02,
        limits=MarketLimits(
            orders_open_max=70, levels_max=9, window_ticks=128, price_ticks_max=30_000, participants_max=16, display_divisor_max=10
        ),
    ),
    "far": Profile(
        2_000.0, 20.0, 30, 0.04, 0.005, 0.05, cancel=0.15, rare=0.001, limits=MarketLimits(window_ticks=128, participants_max=16)
    ),
    "bands": Profile(
        12.0, 0.4, 12, 0.15, 0.01, 0.002, cancel=0.2, replace=0.08, rare=0.004, special=0.3, across=0.5, bands=0.85, states=0.03,
        limits=MarketLimits(window_ticks=128, participants_max=16),
    ),
    "balances": Profile(
        10.0, 0.4, 12, 0.15, 0.01, 0.002, cancel=0.2, replace=0.12, rare=0.004, special=0.4, bands=0.05, balances=0.5, states=0.02,
        limits=MarketLimits(window_ticks=128, participants_max=16),
    ),
    "tiny": Profile(
        3.0, 0.2, 2, 0.15, 0.0, 0.05, cancel=0.2, replace=0.1, rare=0.01, special=0.5, across=0.2, bands=0.3, states=0.03, mid_ticks=12,
        limits=MarketLimits(
            qty_lots_max=6, price_ticks_max=20, orders_open_max=12, levels_max=3, window_ticks=128, participants_max=7
        ),
    ),
    "edges": Profile(
        10.0, 0.4, 2**38, 0.2, 0.0, 0.01, cancel=0.2, replace=0.1, rare=0.004, special=0.35, across=0.2, bands=0.3, states=0.01,
        mid_ticks=7_000,
        limits=MarketLimits(
            qty_lots_max=2**40, price_ticks_max=2**13, orders_open_max=2**20, window_ticks=128, participants_max=16
        ),
    ),
}  # fmt: skip


class Generator:
    """An endless stream of commands of one seed and profile."""

    def __init__(self, seed: int, profile: Profile) -> None:
        self.profile = profile
        self.random = np.random.default_rng(seed)
        self.mid = [profile.mid_ticks * (1 + 0.05 * symbol) for symbol in range(SYMBOLS)]
        self.last_id = [0] * PARTICIPANTS
        self.time_ns = 0
        self.live: list[tuple[int, int]] = []  # (participant, order_id) of orders that rest
        self.place: dict[tuple[int, int], int] = {}  # where each is in `live`
        self.price: dict[tuple[int, int], tuple[int, int]] = {}  # (price_ticks, open_lots) of each
        self.terms: dict[tuple[int, int], tuple[int, dict[int, int]]] = {}  # (symbol, terms) of orders that have some
        self.halted: set[int] = set()
        self.follow_ups: list[Operation] = []  # takes back what operators did
        self.overflow: list[tuple[int, ...]] = []  # rows that belong together and were too many for the last call
        if profile.balances:
            opening = opening_balances(PARTICIPANTS, profile.mid_ticks, profile.qty_lots)
            self.overflow = [self._operator_row(made) for made in opening]

    def commands(self, count: int) -> Rows:
        """`count` COMMAND rows. The fewer at a time, the more of them find the order that they name."""
        rows = self.overflow
        while len(rows) < count:
            draw = self.random.random(RANDOMS).tolist()
            rows += self._operation(draw) or self._rows(draw)
        self.overflow = rows[count:]
        return np.array(rows[:count], COMMAND)

    def observe(self, events: Rows) -> None:
        """Learns which orders rest now."""
        names = ("kind", "flags", "participant", "order_id", "price_ticks", "leaves_lots", "symbol")
        for kind, flags, participant, order_id, price, leaves, symbol in zip(
            *(events[n].tolist() for n in names), strict=True
        ):
            key = (participant, order_id)
            if kind == EventKind.RESTED or (kind == EventKind.ACCEPTED and flags & EventFlag.RESTING):
                if key not in self.place:
                    self.place[key] = len(self.live)
                    self.live.append(key)
                self.price[key] = (price, leaves)
            elif leaves == 0 and kind in (EventKind.FILL, EventKind.CANCELLED):
                self.terms.pop(key, None)
                self._forget(key)
            elif kind == EventKind.TRIGGERED:
                self.terms.get(key, (0, {}))[1].pop(Term.WAITS, None)
            elif kind == EventKind.REPLACED or (leaves == 0 and key in self.place):
                self._forget(key)
            elif kind == EventKind.HALTED:
                self.halted.add(symbol)
            elif kind == EventKind.RESUMED:
                self.halted.discard(symbol)
            elif key in self.place and kind in (EventKind.FILL, EventKind.REDUCED):
                self.price[key] = (self.price[key][0], leaves)

    def _forget(self, key: tuple[int, int]) -> None:
        if key not in self.place:
            return
        place, last = self.place.pop(key), self.live.pop()
        if last != key:
            self.live[place], self.place[last] = last, place
        del self.price[key]

    def _operation(self, draw: list[float]) -> list[tuple[int, ...]]:
        """A row of an operator, if it is time for one."""
        symbol, profile = int(draw[2] * SYMBOLS), self.profile
        which = self.random.random()
        if which >= profile.states * 3 or (which >= profile.states and not self.follow_ups):
            return []
        if which >= profile.states:  # two of three take something back
            made = self.follow_ups.pop(0)
        else:
            mid, near = int(self.mid[symbol]), profile.depth_ticks
            if profile.bands and self.random.random() < profile.bands:
                made, *later = band(self.random, symbol, mid, near)
            elif profile.balances and self.random.random() < profile.balances:
                made, *later = balance(self.random, PARTICIPANTS, mid)
            else:
                made, *later = operation(self.random, symbol, PARTICIPANTS, mid, near)
            self.follow_ups += later
        return [self._operator_row(made)]

    def _operator_row(self, made: Operation) -> tuple[int, ...]:
        self.last_id[OPERATOR] += 1
        if made.kind == CommandKind.TIME:
            self.time_ns += 100_000
        fields = (
            made.order_id,
            made.price_ticks,
            made.qty_lots,
            made.symbol,
            OPERATOR,
            made.kind,
            0,
            0,
            made.flags,
            0,
            0,
        )
        return (self.time_ns, 0, self.last_id[OPERATOR], *fields)

    def _rows(self, draw: list[float]) -> list[tuple[int, ...]]:
        """A row, and in front of a NEW with terms those terms."""
        row = list(self._command(draw))
        if row[8] == CommandKind.REPLACE:
            return self._replacement(row)
        plain = row[8] != CommandKind.NEW or self.random.random() >= self.profile.special
        if plain or row[6] >= SYMBOLS or not 0 < row[5] <= self.profile.limits.qty_lots_max:
            return [tuple(row)]
        participant, symbol = row[7], row[6]
        own = [order_id for who, order_id in self.live if who == participant]
        waiting = [each for each in own if Term.WAITS in self.terms.get((participant, each), (0, {}))[1]]
        wish = Wish(
            row[9], row[5], row[4], row[10], row[11], row[0], self.profile.depth_ticks, int(self.mid[symbol]), own, waiting
        )  # fmt: skip
        across = self.profile.across and self.random.random() < self.profile.across
        (stand_across if across else add_terms)(wish, self.random)
        if wish.flags & CommandFlag.MARKET:
            wish.price_ticks = 0
        flags = wish.flags | (CommandFlag.TERMS if wish.terms else 0)
        rows = []
        for term, value in wish.terms.items():
            rows.append(self._term(row[0], participant, row[2], term, value))
            row[2] += 1
        self.last_id[participant] = max(self.last_id[participant], row[2])
        if wish.terms:
            self.terms[participant, row[2]] = symbol, wish.terms
        row[4], row[5], row[10], row[11] = wish.price_ticks, wish.qty_lots, wish.time_in_force, int(flags)
        return [*rows, tuple(row)]

    def _replacement(self, row: list[int]) -> list[tuple[int, ...]]:
        """A REPLACE, with terms where the order has some that can be changed."""
        participant, order_id, price = row[7], row[3], row[4]
        symbol, known = self.terms.get((participant, order_id), (0, {}))
        if not known and self.random.random() < 0.98:
            return [tuple(row)]
        qty = min(max(1, row[5]), self.profile.limits.qty_lots_max)
        wish = Wish(0, qty, price, 0, 0, row[0], self.profile.depth_ticks, int(self.mid[symbol]), [], [])
        terms = replaced_terms(known, wish, self.random)
        rows = []
        for term, value in terms.items():
            rows.append(self._term(row[0], participant, row[2], term, value))
            row[2] += 1
        self.last_id[participant] = max(self.last_id[participant], row[2])
        row[11] = int(CommandFlag.TERMS) if terms else 0
        if terms and self.price.get((participant, order_id), (1, 0))[0] == 0:
            row[4] = 0  # a market order has no price
        return [*rows, tuple(row)]

    def _term(self, time_ns: int, participant: int, command_id: int, term: int, value: int) -> tuple[int, ...]:
        return (time_ns, 0, command_id, 0, value, 0, 0, participant, int(CommandKind.TERM), 0, 0, term, 0, 0)

    def _command(self, draw: list[float]) -> tuple[int, ...]:
        """A row in the order of COMMAND's fields. Each draw decides one thing."""
        which, who, target, size, distance, direction, tif, flag, step, broken, how, spare = draw
        profile = self.profile
        self.time_ns += int(step * 1000)
        symbol = int(target * SYMBOLS)
        self.mid[symbol] = max(profile.mid_ticks / 5, self.mid[symbol] + (step - 0.5) * 2 * profile.drift_ticks)
        participant, side = int(who * PARTICIPANTS), int(direction < 0.5)
        kind, order_id, reason = int(CommandKind.NEW), 0, 0
        qty = 1 + int(-np.log1p(-size) * profile.qty_lots)
        price = self._price(symbol, side, distance, direction, how)
        time_in_force, flags = self._terms(tif, flag)
        if spare < profile.sweep:
            qty *= 50
        if self.halted and 0.5 < spare < 0.503:
            kind, symbol, participant = int(CommandKind.RESUME), min(self.halted), OPERATOR
        elif (which := which - profile.rare) < 0:
            kind, symbol, reason = self._rare(-which / profile.rare, symbol, how)
            if kind in (CommandKind.HALT, CommandKind.RESUME, CommandKind.PRINT, CommandKind.END_DAY):
                participant = OPERATOR
            if kind == CommandKind.HALT:
                flags = int(spare * 7)
        elif (which := which - profile.cancel - profile.reduce - profile.replace) < 0 and self.live:
            kind = int(CommandKind.CANCEL)
            participant, order_id = self.live[int(target * len(self.live))]
            old_price, open_lots = self.price[participant, order_id]
            if -which < profile.reduce + profile.replace:
                kind = int(CommandKind.REDUCE)
                qty = 1 + int(size * open_lots * 1.2)
            if -which < profile.replace:
                kind = int(CommandKind.REPLACE)
                price = old_price if how < 0.4 else price if spare < 0.3 else max(1, old_price + int(9 * how) - 6)
                qty = 1 + int(size * open_lots * 2)
        elif flags & CommandFlag.MARKET:
            price = 0
        self.last_id[participant] += 1 + int(spare * 3)
        command_id = self.last_id[participant]
        if reason:
            command_id = 0
        row = [
            self.time_ns, 0, command_id, order_id, price, qty, symbol, participant, kind, side, time_in_force, flags, 0, reason,
        ]  # fmt: skip
        if broken < 0.1:
            self._break(row, int(broken * 10 * 16), spare)
        return tuple(row)

    def _price(self, symbol: int, side: int, distance: float, direction: float, how: float) -> int:
        if how < self.profile.wild:
            top = self.profile.limits.price_ticks_max
            near, anywhere = 1 + int(distance * 29_999), max(1, int(top**distance))
            return (1, top, near, near, near, anywhere)[int(direction * 997) % 6]
        distance_ticks = -np.log1p(-distance) * self.profile.depth_ticks
        if how > 1 - self.profile.marketable:
            distance_ticks = -distance_ticks
        return max(1, round(self.mid[symbol] + (distance_ticks if side else -distance_ticks)))

    def _terms(self, tif: float, flag: float) -> tuple[int, int]:
        """(time in force, flags): mostly DAY and GTC, and combinations that are allowed."""
        time_in_force = int(TIMES_IN_FORCE[(0, 0, 0, 1, 1, 1, 1, 1, 2, 3)[int(tif * 10)]])
        if flag < 0.05:
            return time_in_force, int(CommandFlag.MARKET)
        post_only = 0.05 <= flag < 0.2 and time_in_force < TimeInForce.IOC
        return time_in_force, int(CommandFlag.POST_ONLY) if post_only else 0

    def _rare(self, which: float, symbol: int, how: float) -> tuple[int, int, int]:
        """(kind, symbol, reason)."""
        if which < 0.1:
            return int(CommandKind.END_DAY), symbol, 0
        if which < 0.3:
            return int(CommandKind.PRINT), symbol, 0
        if which < 0.5 and not self.halted:
            return int(CommandKind.HALT), symbol, 0
        if which < 0.7:
            return int(CommandKind.RESUME), min(self.halted, default=symbol), 0
        disconnect = int(Reason.DISCONNECT) if how < 0.2 else 0
        return int(CommandKind.MASS_CANCEL), ALL_SYMBOLS if how < 0.3 else symbol, disconnect

    def _break(self, row: list[int], fault: int, spare: float) -> None:
        """Makes one field wrong; now and then two, so that the order of the checks matters."""
        command_id, order_id, price, qty, symbol, participant, kind, side, tif, flags = 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
        limits = self.profile.limits
        wrong: list[tuple[int, int]] = [
            (command_id, self.last_id[row[participant]] - 1 - int(spare * 5)),
            (command_id, -1 - int(spare * 5)),
            (order_id, row[order_id] + 1 + int(spare * 9)),
            (order_id, (0, -1, 2**62, 2**63 - 1)[int(spare * 4)]),
            (participant, int(spare * PARTICIPANTS)),
            (qty, (0, -1, limits.qty_lots_max + 1, -(2**63))[int(spare * 4)]),
            (price, (0, -1, limits.price_ticks_max + 1, 2**63 - 1)[int(spare * 4)]),
            (symbol, (SYMBOLS, SYMBOLS + 1, ALL_SYMBOLS - 1, ALL_SYMBOLS)[int(spare * 4)]),
            (kind, (0, 7, 15, 27, 255)[int(spare * 5)]),
            (kind, (16, 17, 18, 19)[int(spare * 4)]),
            (side, (2, 3, 255)[int(spare * 3)]),
            (tif, (4, 7, 255)[int(spare * 3)]),
            (flags, (3, 36, 11, 128, 255)[int(spare * 5)]),
            (flags, int(CommandFlag.POST_ONLY)),
            (flags, int(CommandFlag.MARKET)),
            (price, row[price] + 1),
        ]
        field, value = wrong[fault]
        if field in (participant, kind) and row[command_id] > 0 and fault == 4:
            self.last_id[value] += 1
            row[command_id] = self.last_id[value]
        row[field] = value
        if spare < 0.2 and fault + 5 < len(wrong):
            row[wrong[fault + 5][0]] = wrong[fault + 5][1]
        if row[kind] >= CommandKind.END_DAY and row[participant] == OPERATOR:
            row[kind] = int(CommandKind.PRINT)  # halts and ends of day by mistake would leave little to test
