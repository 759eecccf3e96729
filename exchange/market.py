"""A market as a plain library: commands in, events out, no server, no clock.

market = Market(["AMZN"])
order_id = market.buy(10, 22_345, symbol="AMZN")
market.cancel(order_id)
"""

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from serl.exchange.account import Account
from serl.exchange.entry import Entry
from serl.exchange.errors import ConfigError
from serl.exchange.growth import Room, capacity_for, grow_far, grow_orders
from serl.exchange.holdings import Holding, holdings
from serl.exchange.integers import Integer, Symbol, integer
from serl.exchange.kernel.dump import restore_orders
from serl.exchange.kernel.entry import TIME_NS
from serl.exchange.kernel.levels import levels
from serl.exchange.kernel.state import State, new_state
from serl.exchange.limits import MarketLimits, symbol_names
from serl.exchange.listing import copied_books, is_copy_cheaper, listed_orders, listed_specials
from serl.exchange.records import (
    BALANCES,
    COLLECTING,
    FEE_COLUMNS,
    HALT_REASON,
    HAS_FEES,
    HIGH_TICKS,
    LAST_TICKS,
    LEVEL,
    LIMIT_SETTINGS,
    LOT,
    LOW_TICKS,
    MAKER_FEE,
    ORDER,
    PHASE,
    WIDE_BALANCES,
    CommandFlag,
    Rows,
    Setting,
    TimeInForce,
)
from serl.exchange.snapshot import SPECIAL, Snapshot, participants_used
from serl.exchange.validate import validate

MATCHING_RULES = 1
"""Version of the rules that turn commands into events; it increases with every change after which the same commands cause other events. Journals
store it: commands acknowledged under one version are not executed again under another."""
SNAPSHOT_COUNTERS = ("event_sequence", "match_id", "order_number", "command_sequence")
"""The elements of Snapshot.counters, in order."""
FIRST_ORDERS = 4096
DEFAULT_LIMITS = MarketLimits()
REDUCE_ONLY = int(CommandFlag.REDUCE_ONLY)
TABLES = ("balances", "carries", "symbols", "accounts", "terms", "assets", "reserves", "roots", "settled")
"""Arrays of State whose last dimension is the same in all markets."""


class Copy(NamedTuple):
    """A market at one point in time. Not thread-safe."""

    rest: Snapshot  # without orders, if these are in `books`
    books: State | None

    def snapshot(self) -> Snapshot:
        """The snapshot of that time. Lets other threads run meanwhile. O(orders)."""
        if self.books is None:
            return self.rest
        return dataclasses.replace(self.rest, orders=listed_orders(self.books), specials=listed_specials(self.books))


class Market(Entry):
    """Order books of several symbols and the accounts of their participants; `Entry` has the commands.

    `symbols`: their names, or their number; raises ConfigError for an invalid list or number. `room_slots`: up to this many open orders the
    market grows in place, in about a millisecond however many orders it has; this reserves address space, not memory.
    """

    def __init__(
        self, symbols: Sequence[str] | int = 1, *, limits: MarketLimits = DEFAULT_LIMITS, room_slots: int = 0
    ) -> None:
        names, capacity = symbol_names(symbols), capacity_for(min(FIRST_ORDERS, limits.orders_open_max))
        state = new_state(len(names), limits.participants_max, limits.window_ticks, capacity, 2 * limits.window_ticks)
        super().__init__(names, limits, state, room_slots)
        self.set_limits(limits)

    def around(self, state: State) -> Self:
        """A market with other arrays, which no other market may use, and the same names, limits and time."""
        other = object.__new__(type(self))
        Entry.__setstate__(other, ((self.names, self.limits, state), self._entry[TIME_NS]))
        return other

    def __setstate__(self, state: Any) -> None:
        _check_layout(state[0][2])
        super().__setstate__(state)

    def __copy__(self) -> Self:
        """The same as `copy.deepcopy`: two markets in the same arrays would corrupt each other's memory once one of them grows."""
        return copy.deepcopy(self)

    def set_limits(self, limits: MarketLimits) -> None:
        """Applies new limits to the following commands; `participants_max` and `window_ticks` do not change."""
        price_changes = limits.price_ticks_max != self.limits.price_ticks_max
        self.limits = limits
        for name in ("qty_lots_max", "price_ticks_max", "orders_open_max", "levels_max", "display_divisor_max"):
            self.state.counters[name] = getattr(limits, name)
        if price_changes and len(self.state.extras):
            from serl.exchange.kernel.rulebook.restore import follow_price_limit

            follow_price_limit(self.state)

    def grant_operator(self, participant: Integer) -> None:
        """Lets a participant halt, resume, print and end the day. Raises ConfigError if there is no such participant."""
        self.state.operator[self._participant(participant)] = 1

    @staticmethod
    def grown(state: State) -> State:
        """The same state with room for twice as many orders."""
        return grow_orders(state, 2 * len(state.orders), Room())

    @staticmethod
    def warm() -> None:
        """Compiles or loads everything that a market calls, except the execution of commands."""
        market = Market(1, limits=MarketLimits(orders_open_max=32, window_ticks=128, participants_max=1))
        market.book()
        market.state_hash()
        Market.grown(market.state)

    def best(self, symbol: Symbol = 0) -> tuple[int | None, int | None]:
        """(bid, ask) in ticks; None where a side is empty."""
        bid, ask = self.state.best[self._symbol(symbol)].tolist()
        return bid or None, ask or None

    def book(self, symbol: Symbol = 0, depth: Integer = 0) -> tuple[Rows, Rows]:
        """(bids, asks) as LEVEL rows, best first; depth 0: all levels. Raises ConfigError if there is no such symbol or depth."""
        number = self._symbol(symbol)
        all_levels = int(self.state.level_count[number])
        out = np.zeros(min(integer("depth", depth, least=0), all_levels) or all_levels, LEVEL)
        sides = []
        for side in range(2):
            count = levels(self.state, number, side, out)
            sides.append(out[:count].copy())
        return sides[0], sides[1]

    def has_orders(self, participant: int) -> bool:
        """Whether a participant has open orders. O(orders)."""
        orders = self.state.orders
        return bool(np.any((orders["open_lots"] > 0) & (orders["participant"] == participant)))

    def orders(self, symbol: Symbol | None = None) -> Rows:
        """Resting orders of a symbol, or of all, as ORDER rows, sorted by symbol, side (bids first), price (best first) and time priority."""
        return listed_orders(self.state, -1 if symbol is None else self._symbol(symbol))

    def specials(self) -> Rows:
        """SPECIAL rows of the orders that are not displayed, or have a display, expiry, link or self-trade prevention of their own."""
        return listed_specials(self.state)

    def indicative(self, symbol: Symbol = 0) -> tuple[int, int, int]:
        """(price_ticks, volume_lots, imbalance_lots) of the auction if it were held now; zeros without volume, or outside a collecting phase."""
        return indicative_now(self.state, self._symbol(symbol)) or (0, 0, 0)

    def account(self, participant: Integer = 0, symbol: Symbol = 0) -> Account:
        """Position, cash, profit and fees of a participant in a symbol. Raises ConfigError if there is no such participant or symbol."""
        return Account.from_balances(self.balances()[self._participant(participant), self._symbol(symbol)])

    def balances(self) -> NDArray[np.int64]:
        """All balances, int64 (P, S, BALANCES), or (P, S, WIDE_BALANCES) if an account's cash, cost or fees ever exceeded 64 bits."""
        if not self.state.counters["wide_balances"][0]:
            return self.state.balances
        return np.concatenate([self.state.balances, self.state.carries], axis=2)

    def holdings(self, participant: Integer = 0) -> dict[int, Holding]:
        """A participant's holding of each asset, by asset number. Raises ConfigError if there is no such participant."""
        return holdings(self.state, self._participant(participant))

    def snapshot(self) -> Snapshot:
        """A copy of everything that the market's future behaviour depends on."""
        return self._snapshot_with(self.orders(), self.specials())

    def copied(self, room: Room) -> "Copy":
        """A copy from which another thread can make the snapshot; takes a fraction of the time. Valid until the next copy into the same room."""
        if not is_copy_cheaper(self.state):
            return Copy(self.snapshot(), None)
        return Copy(self._snapshot_with(np.zeros(0, ORDER), np.zeros(0, SPECIAL)), copied_books(self.state, room))

    def _snapshot_with(self, orders: Rows, specials: Rows) -> Snapshot:
        state = self.state
        used = participants_used(state.last_command_id, state.report, state.accounts, state.terms, state.deposits)
        return Snapshot(
            orders=orders,
            specials=specials,
            counters=np.concatenate([state.counters[name] for name in SNAPSHOT_COUNTERS]),
            last_command_id=state.last_command_id[:used].copy(),
            report=state.report[:used].copy(),
            balances=self.balances()[:used].copy(),
            halted=state.halted.copy(),
            symbols=state.symbols.copy(),
            accounts=state.accounts[:used].copy(),
            terms=state.terms[:used].copy(),
            assets=state.assets.copy(),
            deposits=state.deposits[:used].copy(),
        )

    @classmethod
    def restore(
        cls, snapshot: Snapshot, symbols: Sequence[str] | int = 1, *, limits: MarketLimits, room_slots: int = 0
    ) -> "Market":
        """Restores a market from a snapshot; its state hash is the same. Operators must be granted again, and the time is 0. Raises ConfigError if the snapshot is of
        another number of symbols, or of more than `participants_max` participants."""
        _check_size(snapshot, len(symbol_names(symbols)), limits.participants_max)
        market = cls(symbols, limits=limits, room_slots=room_slots)
        needed = len(snapshot.orders) + len(snapshot.specials)
        if needed > len(market.state.orders):  # in one step, because each growth walks the free orders
            market.state = grow_orders(market.state, capacity_for(needed), market.room)
        state = market.state
        used = len(snapshot.report)
        state.last_command_id[:used] = snapshot.last_command_id
        state.report[:used] = snapshot.report
        state.balances[:used] = snapshot.balances[..., :BALANCES]
        if snapshot.balances.shape[2] == WIDE_BALANCES:
            state.carries[:used], state.counters["wide_balances"] = snapshot.balances[..., BALANCES:], 1
        state.halted[:] = snapshot.halted
        state.symbols[:], state.accounts[:used], state.terms[:used] = (
            snapshot.symbols,
            snapshot.accounts,
            snapshot.terms,
        )
        state.assets[:], state.deposits[:used] = snapshot.assets, snapshot.deposits
        state.has_limits[:used] = snapshot.accounts[:, LIMIT_SETTINGS].any(axis=1)
        state.counters["own_fee_accounts"] = snapshot.accounts[:, Setting.OWN_FEES].sum()
        market._restore_orders(restore_orders, snapshot.orders)
        if not _is_plain(snapshot):
            state.counters["wants_full_book"] = 1
            market.grow()
            market._restore_specials(snapshot.specials)
        for name, value in zip(SNAPSHOT_COUNTERS, snapshot.counters.tolist(), strict=True):
            market.state.counters[name] = value
        return market

    def _restore_specials(self, rows: Rows) -> None:
        from serl.exchange.kernel.rulebook.restore import restore_rules, restore_specials

        self._restore_orders(restore_specials, rows)
        restore_rules(self.state, rows[np.argsort(rows["order_number"])])

    def _restore_orders(self, restore: Callable[[State, Rows, int], int], rows: Rows) -> None:
        done = 0
        while (done := restore(self.state, rows, done)) < len(rows):
            self.state = grow_far(self.state, 2 * self.state.far_price.shape[2])

    def state_hash(self) -> str:
        """SHA-256 of the snapshot: equal in every implementation after the same commands."""
        return self.snapshot().digest()

    def validate(self) -> None:
        """Raises an AssertionError that names the invariant if one does not hold. O(everything)."""
        validate(self.state)


def indicative_now(state: State, symbol: int) -> tuple[int, int, int] | None:
    """(price_ticks, volume_lots, imbalance_lots) of the auction if it were held now, zeros without volume; None outside a collecting phase.

    O(orders at the prices that cross).
    """
    if state.symbols[symbol, PHASE] not in COLLECTING:
        return None
    from serl.exchange.kernel.rulebook.auction import indicative

    price, volume, imbalance = indicative(state, symbol)
    return int(price), int(volume), int(imbalance)


def _check_layout(state: State) -> None:
    """Raises ConfigError if a market's arrays are those of another version: compiled code would write beyond them."""
    for name, own in new_state(1, 1, 128, 32, 256)._asdict().items():
        array = getattr(state, name)
        if array.dtype != own.dtype or (name in TABLES and array.shape[-1] != own.shape[-1]):
            raise ConfigError(
                f"expected a market that this version of serl has pickled, got one with other {name}; load it with the version that did"
            )


def _check_size(snapshot: Snapshot, symbols: int, participants_max: int) -> None:
    """Raises ConfigError if a market of that size cannot continue from a snapshot."""
    if len(snapshot.symbols) != symbols:
        raise ConfigError(
            f"symbols: expected the {len(snapshot.symbols)} of the snapshot, got {symbols}; name those that it was made with"
        )
    if len(snapshot.report) > participants_max:
        raise ConfigError(
            f"participants_max: expected at least the {len(snapshot.report)} participants of the snapshot, got {participants_max}; raise it"
        )


def _is_plain(snapshot: Snapshot) -> bool:
    """Whether the market can continue without the full rule book."""
    rules = snapshot.symbols.copy()
    rules[:, [LAST_TICKS, HIGH_TICKS, LOW_TICKS, HALT_REASON, HAS_FEES]] = 0
    rules[:, MAKER_FEE : MAKER_FEE + FEE_COLUMNS] = 0
    rules[:, LOT] -= 1
    special = (
        snapshot.orders["time_in_force"].max(initial=0) > TimeInForce.FOK
        or (snapshot.orders["flags"] & REDUCE_ONLY).any()
    )
    limited = snapshot.accounts[:, LIMIT_SETTINGS].any()
    return not (rules.any() or special or len(snapshot.specials) or limited or snapshot.terms.any())
