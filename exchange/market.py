"""A market as a plain library: commands in, events out, no server, no clock.

market = Market(["AMZN"])
events = market.submit(command(CommandKind.NEW, side=Side.BUY, qty_lots=10, price_ticks=100, command_id=1))
"""

import dataclasses
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from serl.exchange.account import Account
from serl.exchange.compiling import alone, entry
from serl.exchange.errors import ConfigError
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, execute_batch, execute_plainly
from serl.exchange.kernel.ids import index_all
from serl.exchange.kernel.levels import levels
from serl.exchange.kernel.state import (
    COMMAND_SEQUENCE,
    EVENT_SEQUENCE,
    FREE_LEVEL,
    FREE_ORDER,
    LEVELS_MAX,
    MATCH_ID,
    ORDER_NUMBER,
    ORDERS_MAX,
    ORDERS_OPEN,
    OWN_FEES,
    PRICE_MAX,
    QTY_MAX,
    WANTS_FAR,
    WANTS_FULL,
    State,
    link_free,
    new_state,
    with_queues,
)  # fmt: skip
from serl.exchange.kernel.walk import list_orders, list_specials, restore_orders
from serl.exchange.pointed import OWN_WORDS, bound
from serl.exchange.records import (
    ALL_SYMBOLS,
    CASH_MAX,
    COLLECTING,
    COMMAND,
    EVENT,
    FEE_COLUMNS,
    HALT_REASON,
    HAS_FEES,
    HIGH_TICKS,
    LAST_TICKS,
    LEVEL,
    LIMIT_COLUMNS,
    LOT,
    LOW_TICKS,
    MAKER_FEE,
    ORDER,
    PHASE,
    SPECIAL,
    CommandFlag,
    Rows,
    Setting,
    TimeInForce,
)  # fmt: skip
from serl.exchange.snapshot import Snapshot, participants_used
from serl.exchange.validate import validate

COUNTED_PLACES = (EVENT_SEQUENCE, MATCH_ID, ORDER_NUMBER, COMMAND_SEQUENCE)
FIRST_ORDERS = 4096
EVENT_ROWS = 4096
SYMBOLS_MAX = ALL_SYMBOLS
"""Numbers below ALL_SYMBOLS, which none of them is."""
PARTICIPANTS_MAX = 1 << 16
"""As many as COMMAND.participant tells apart."""
REDUCE_ONLY = int(CommandFlag.REDUCE_ONLY)


@dataclasses.dataclass(frozen=True)
class MarketLimits:
    """What a market takes at most; beyond, commands are rejected."""

    qty_lots_max: int = 1_000_000
    price_ticks_max: int = 1_000_000_000
    orders_open_max: int = 2**23
    levels_max: int = 65_536  # of a symbol, both sides together
    window_ticks: int = 4096  # a power of two
    participants_max: int = 256

    def __post_init__(self) -> None:
        """ConfigError where a limit is below 1 or the limits do not go together."""
        for name, value in dataclasses.asdict(self).items():
            if value < 1:
                raise ConfigError(f"{name}: a number from 1 is due, got {value}")
        if self.participants_max > PARTICIPANTS_MAX:
            raise ConfigError(f"participants_max: at most {PARTICIPANTS_MAX} is due, got {self.participants_max}")
        if self.window_ticks < 128 or self.window_ticks & (self.window_ticks - 1):
            raise ConfigError(f"window_ticks: a power of two from 128 is due, got {self.window_ticks}")
        largest = self.qty_lots_max * self.price_ticks_max
        if largest > CASH_MAX:
            raise ConfigError(
                f"qty_lots_max x price_ticks_max must be at most 2^53, so that cash in ticks x lots cannot overflow; got {largest}"
            )


class Market:
    """Order books of several symbols and the accounts of their participants.

    `symbols`: their names, or how many there are; ConfigError where that cannot be.
    """

    def __init__(self, symbols: Sequence[str] | int = 1, *, limits: MarketLimits = MarketLimits()) -> None:
        self.names = _names(symbols)
        self.limits = limits
        capacity = _capacity(min(FIRST_ORDERS, limits.orders_open_max))
        far = 2 * limits.window_ticks
        state = new_state(len(self.names), limits.participants_max, limits.window_ticks, capacity, far)
        self.state: State = bound(state, (0, plain_rule_book()))
        self._set_limits()
        self._events = np.zeros(EVENT_ROWS, EVENT)

    def _set_limits(self) -> None:
        counter = self.state.counter
        counter[QTY_MAX], counter[PRICE_MAX] = self.limits.qty_lots_max, self.limits.price_ticks_max
        counter[ORDERS_MAX], counter[LEVELS_MAX] = self.limits.orders_open_max, self.limits.levels_max

    def grant_operator(self, participant: int) -> None:
        """Lets a participant halt, resume, print and end the day. ConfigError where there is no such participant."""
        self._check_participant(participant)
        self.state.operator[participant] = 1

    def _check(self, symbol: int) -> None:
        if not 0 <= symbol < len(self.names):
            raise ConfigError(f"a symbol number from 0 to {len(self.names) - 1} is due, got {symbol}")

    def _check_participant(self, participant: int) -> None:
        if not 0 <= participant < self.limits.participants_max:
            raise ConfigError(f"a participant from 0 to {self.limits.participants_max - 1} is due, got {participant}")

    def submit(self, commands: Rows) -> Rows:
        """Executes COMMAND rows (participant and time set) in order; the EVENT rows that came of them.

        Sequences are assigned here, going on from the last one. The rows given are not changed. ConfigError where they are no COMMAND rows.
        """
        if not isinstance(commands, np.ndarray) or (commands.dtype is not COMMAND and commands.dtype != COMMAND):
            raise ConfigError(f"an array of COMMAND rows is due, as `command` makes them; got {_described(commands)}")
        rows = commands.copy()
        if len(rows) and int(rows["participant"].max()) >= self.limits.participants_max:
            raise ConfigError(
                f"participants up to {self.limits.participants_max - 1} are due, got {rows['participant'].max()}"
            )
        first = int(self.state.counter[COMMAND_SEQUENCE]) + 1
        rows["sequence"] = first + np.arange(len(rows))
        parts: list[Rows] = []
        index, count = 0, 0
        while index < len(rows):
            index, count, status = execute_batch(self.state, rows, index, len(rows), self._events, count)
            if status == EVENTS_FULL:
                parts.append(self._events[:count].copy())
                count = 0
            elif status != DONE:
                self.grow()
        parts.append(self._events[:count].copy())
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def grow(self) -> None:
        """Makes room for what the compiled code asked for: the full rule book, more orders, more far levels."""
        state, limits = self.state, self.limits
        if state.counter[WANTS_FULL]:  # each for itself: what else is due, the compiled code asks for again
            state.counter[WANTS_FULL] = 0
            self.state = bound(with_queues(state), (full_rule_book(), plain_rule_book()))
        elif (
            state.counter[WANTS_FAR]
            or int(state.far_count.max()) + state.window.shape[2] + 1 > state.far_price.shape[2]
        ):
            state.counter[WANTS_FAR] = 0
            self.state = _grow_far(state, 2 * state.far_price.shape[2])
        else:
            self.state = _grow_orders(state, min(2 * len(state.orders), _capacity(limits.orders_open_max)))

    @staticmethod
    def grown(state: State) -> State:
        """The same state with room for twice as many orders."""
        return _grow_orders(state, 2 * len(state.orders))

    @staticmethod
    def warm() -> None:
        """Compiles or loads what any market calls besides executing commands."""
        market = Market(1, limits=MarketLimits(orders_open_max=32, window_ticks=128, participants_max=1))
        market.book()
        market.state_hash()
        Market.grown(market.state)

    def book(self, symbol: int = 0, depth: int = 0) -> tuple[Rows, Rows]:
        """(bids, asks) as LEVEL rows, best first; all of them with depth 0. ConfigError where there is no such symbol."""
        self._check(symbol)
        if depth < 0:
            raise ConfigError(f"a depth from 0 (all levels) is due, got {depth}")
        out = np.zeros(depth or int(self.state.level_count[symbol]), LEVEL)
        sides = []
        for side in range(2):
            count = levels(self.state, symbol, side, out)
            sides.append(out[:count].copy())
        return sides[0], sides[1]

    def orders(self, symbol: int | None = None) -> Rows:
        """Resting orders as ORDER rows by symbol, side (bids first), price from best, time priority; of all symbols without one."""
        if symbol is not None:
            self._check(symbol)
        out = np.zeros(int(self.state.counter[ORDERS_OPEN]), ORDER)
        count = list_orders(self.state, -1 if symbol is None else symbol, out)
        return out[:count]

    def specials(self) -> Rows:
        """SPECIAL rows of the orders that are not displayed, or have a display, expiry, link or self-trade prevention of their own."""
        out = np.zeros(int(self.state.counter[ORDERS_OPEN]) if len(self.state.extras) else 0, SPECIAL)
        return out[: list_specials(self.state, out)] if len(out) else out

    def indicative(self, symbol: int = 0) -> tuple[int, int, int]:
        """(price_ticks, volume_lots, imbalance_lots) of an auction that were held now, in a collecting phase; zeros without volume."""
        self._check(symbol)
        return indicative_now(self.state, symbol) or (0, 0, 0)

    def account(self, participant: int, symbol: int = 0) -> Account:
        """What a participant has made of its trades in a symbol: position, cash, profit, fees. ConfigError where there is no such one."""
        self._check(symbol)
        self._check_participant(participant)
        return Account.of(self.state.balances[participant, symbol])

    def snapshot(self) -> Snapshot:
        """A copy of everything that the market's future depends on."""
        state = self.state
        used = participants_used(state.last_command_id, state.report, state.accounts)
        return Snapshot(
            orders=self.orders(),
            specials=self.specials(),
            counters=state.counter[list(COUNTED_PLACES)],
            last_command_id=state.last_command_id[:used].copy(),
            report=state.report[:used].copy(),
            balances=state.balances[:used].copy(),
            halted=state.halted.copy(),
            symbols=state.symbols.copy(),
            accounts=state.accounts[:used].copy(),
            terms=state.terms[:used].copy(),
        )

    @classmethod
    def restore(cls, snapshot: Snapshot, symbols: Sequence[str] | int = 1, *, limits: MarketLimits) -> "Market":
        """The market that a snapshot was made of; its state hash is the same. Operators must be granted again."""
        market = cls(symbols, limits=limits)
        while len(snapshot.orders) + len(snapshot.specials) > len(market.state.orders):
            market.state = _grow_orders(market.state, 2 * len(market.state.orders))
        state = market.state
        used = len(snapshot.report)
        state.last_command_id[:used] = snapshot.last_command_id
        state.report[:used] = snapshot.report
        state.balances[:used] = snapshot.balances
        state.halted[:] = snapshot.halted
        state.symbols[:], state.accounts[:used], state.terms[:used] = (
            snapshot.symbols,
            snapshot.accounts,
            snapshot.terms,
        )
        state.limited[:used] = snapshot.accounts[:, :LIMIT_COLUMNS].any(axis=1)
        state.counter[OWN_FEES] = snapshot.accounts[:, Setting.OWN_FEES].sum()
        market._restore_orders(restore_orders, snapshot.orders)
        if not _is_plain(snapshot):
            state.counter[WANTS_FULL] = 1
            market.grow()
            market._restore_specials(snapshot.specials)
        market.state.counter[list(COUNTED_PLACES)] = snapshot.counters
        return market

    def _restore_specials(self, rows: Rows) -> None:
        from serl.exchange.kernel.rulebook.restoring import restore_rules, restore_specials

        self._restore_orders(restore_specials, rows)
        restore_rules(self.state, rows[np.argsort(rows["order_number"])])

    def _restore_orders(self, restore: Callable[[State, Rows, int], int], rows: Rows) -> None:
        done = 0
        while (done := restore(self.state, rows, done)) < len(rows):
            self.state = _grow_far(self.state, 2 * self.state.far_price.shape[2])

    def state_hash(self) -> str:
        """sha256 of the snapshot: the same for every implementation that was given the same commands."""
        return self.snapshot().digest()

    def validate(self) -> None:
        """AssertionError, saying what, if any invariant does not hold. O(everything)."""
        validate(self.state)


def indicative_now(state: State, symbol: int) -> tuple[int, int, int] | None:
    """(price_ticks, volume_lots, imbalance_lots) of an auction that were held now, zeros without volume; None where no orders are collected.

    O(orders at the prices that cross).
    """
    if state.symbols[symbol, PHASE] not in COLLECTING:
        return None
    from serl.exchange.kernel.rulebook.auction import indicative

    price, volume, imbalance = indicative(state, symbol)
    return int(price), int(volume), int(imbalance)


def _names(symbols: Sequence[str] | int) -> list[str]:
    if isinstance(symbols, str):
        raise ConfigError(f"a list of symbols or their number is due, like [{symbols!r}]; got {symbols!r}")
    names = [str(number) for number in range(symbols)] if isinstance(symbols, int) else list(symbols)
    if not 1 <= len(names) <= SYMBOLS_MAX:
        raise ConfigError(f"1 to {SYMBOLS_MAX} symbols are due, got {len(names)}")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ConfigError(f"each symbol once is due, got {', '.join(twice)} more than once")
    return names


def _described(commands: object) -> str:
    dtype = getattr(commands, "dtype", None)
    return type(commands).__name__ if dtype is None else f"{type(commands).__name__} of {dtype}"[:120]


def _is_plain(snapshot: Snapshot) -> bool:
    """Whether the plain rules are all that is needed to go on."""
    rules = snapshot.symbols.copy()
    rules[:, [LAST_TICKS, HIGH_TICKS, LOW_TICKS, HALT_REASON, HAS_FEES]] = 0
    rules[:, MAKER_FEE : MAKER_FEE + FEE_COLUMNS] = 0
    rules[:, LOT] -= 1
    special = (
        snapshot.orders["time_in_force"].max(initial=0) > TimeInForce.FOK
        or (snapshot.orders["flags"] & REDUCE_ONLY).any()
    )
    limited = snapshot.accounts[:, :LIMIT_COLUMNS].any()
    return not (rules.any() or special or len(snapshot.specials) or limited or snapshot.terms.any())


def _capacity(orders: int) -> int:
    return 1 << max(5, (orders - 1).bit_length())


def _grow_orders(state: State, capacity: int) -> State:
    before = len(state.orders)
    assert capacity > before, "the pool is at its limit: the kernel rejects with BOOK_FULL instead"
    orders, slots = np.zeros(capacity, state.orders.dtype), np.zeros(capacity, state.levels.dtype)
    orders[:before], slots[:before] = state.orders, state.levels
    grown = state._replace(orders=orders, levels=slots, table=np.zeros(2 * capacity, np.int64))
    if len(state.extras):
        extras, heap = np.zeros(capacity, state.extras.dtype), np.zeros(capacity, np.int32)
        extras[:before], heap[:before] = state.extras, state.heap
        grown = grown._replace(extras=extras, heap=heap)
    link_free(grown, before)
    for free, field, rows in ((FREE_ORDER, "next", grown.orders), (FREE_LEVEL, "first", grown.levels)):
        head = int(state.counter[free])
        if head < 0:
            state.counter[free] = before
        else:  # the old list goes in front of the new one
            while rows[head][field] >= 0:
                head = int(rows[head][field])
            rows[head][field] = before
    grown = bound(grown, state.handle[:OWN_WORDS])
    index_all(grown)
    return grown


def _grow_far(state: State, far: int) -> State:
    shape = (*state.far_price.shape[:2], far)
    price, level = np.zeros(shape, np.int64), np.zeros(shape, np.int32)
    price[..., : state.far_price.shape[2]] = state.far_price
    level[..., : state.far_level.shape[2]] = state.far_level
    return bound(state._replace(far_price=price, far_level=level), state.handle[:OWN_WORDS])


@cache
def plain_rule_book() -> int:
    """The address of `execute_plainly`, compiled once for all loops that have a book in them. Kept for as long as the process lives."""
    with alone("book"):
        return int(entry(execute_plainly).address)


@cache
def full_rule_book() -> int:
    """The address of `execute_fully`; compiled or loaded when it is first needed. Kept for as long as the process lives."""
    from serl.exchange.kernel.rulebook.execute import execute_fully

    with alone("rulebook", _say_wait):
        return int(entry(execute_fully).address)


def _say_wait() -> None:
    print("waiting for the full rule book, which another process compiles", file=sys.stderr, flush=True)
