"""The public view of events: the items of feed messages (docs/protocol.md), encoded in compiled code."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.gateway.codec import write_array, write_int
from serl.exchange.kernel import level_at
from serl.exchange.records import EventFlag, EventKind, HaltReason, Phase

ADD, TRADED, REMOVED = 1, 2, 3
_ACCEPTED, _FILL, _CANCELLED = int(EventKind.ACCEPTED), int(EventKind.FILL), int(EventKind.CANCELLED)
_REDUCED, _REPLACED, _RESTED = int(EventKind.REDUCED), int(EventKind.REPLACED), int(EventKind.RESTED)
_PRINT, _HALTED, _RESUMED = int(EventKind.PRINT), int(EventKind.HALTED), int(EventKind.RESUMED)
_RESTING, _MAKER = int(EventFlag.RESTING), int(EventFlag.MAKER)
_HIDDEN, _AUCTION, _PHASED = int(EventFlag.HIDDEN), int(EventFlag.AUCTION), int(EventKind.PHASED)
_INTERRUPTED, _BAND = int(Phase.VOLATILITY), int(HaltReason.VOLATILITY)


@inner
def book_action(event: Any) -> int:
    """The effect of an event on the book at its price and side: ADD, TRADED, REMOVED, or 0 for none."""
    kind = event.kind
    if event.flags & _HIDDEN:
        return 0
    if (kind == _ACCEPTED and event.flags & _RESTING) or kind == _RESTED:
        return ADD
    if kind == _FILL:
        return TRADED if event.flags & (_MAKER | _AUCTION) else 0
    if (kind == _CANCELLED and event.flags & _RESTING) or kind == _REDUCED or kind == _REPLACED:
        return REMOVED
    return 0


@inner
def is_auction_fill(event: Any) -> bool:
    """Whether an event is an auction fill, after which subscribers of l2 request the book again."""
    return bool(event.kind == _FILL and event.flags & _AUCTION)


@inner
def is_status(event: Any) -> bool:
    """Whether an event is a halt, its end or a phase."""
    return bool(event.kind == _HALTED or event.kind == _RESUMED or event.kind == _PHASED)


@inner
def status_of(state: Any, symbol: int) -> tuple[int, int, int]:
    """(halted, phase, HaltReason) of a symbol; the reason is VOLATILITY while a price band interrupts trading."""
    rules = state.symbols[symbol]
    halted, reason = int64(state.halted[symbol]), rules.halt_reason
    if halted == 0 and rules.phase == _INTERRUPTED:
        reason = int64(_BAND)
    return halted, rules.phase, reason


@inner
def write_l3(events: Any, order: Any, body: Any, at: int) -> tuple[int, int]:
    """Writes the items of an l3 message from `at` on: (end, items)."""
    items = 0
    for index in order:
        event = events[index]
        action = book_action(event)
        if action != 0:
            at = write_array(body, at, 5)
            at = write_int(body, at, action)
            at = write_int(body, at, event.order_number)
            at = write_int(body, at, int64(event.side))
            at = write_int(body, at, event.price_ticks)
            at = write_int(body, at, event.qty_lots)
            items += 1
    return at, items


@inner
def write_trades(events: Any, order: Any, body: Any, at: int) -> tuple[int, int]:
    """Writes the items of a trade message from `at` on: (end, items). A trade is the fill of a resting order, or a PRINT."""
    items = 0
    for index in order:
        event = events[index]
        if (event.kind == _FILL and event.flags & _MAKER) or event.kind == _PRINT:
            at = write_array(body, at, 6)
            at = write_int(body, at, event.match_id)
            at = write_int(body, at, event.time_ns)
            at = write_int(body, at, event.price_ticks)
            at = write_int(body, at, event.qty_lots)
            at = write_int(body, at, 1 - int64(event.side))
            at = write_int(body, at, 1 if event.kind == _PRINT else 2 if event.flags & _AUCTION else 0)
            items += 1
    return at, items


@inner
def write_l2(state: Any, symbol: int, events: Any, order: Any, keys: Any, body: Any, at: int) -> tuple[int, int]:
    """Writes the current state of the levels that changed from `at` on: (end, items). keys: int64 hash table, its size a power of two >= 2 events."""
    mask = keys.size - 1
    keys[:] = -1
    items = 0
    for index in order:
        event = events[index]
        if book_action(event) == 0:
            continue
        key = event.price_ticks * 2 + int64(event.side)
        slot = (key * 0x9E3779B1) & mask
        while keys[slot] != -1 and keys[slot] != key:
            slot = (slot + 1) & mask
        if keys[slot] == key:
            continue
        keys[slot] = key
        qty, orders = level_at(state, symbol, int64(event.side), event.price_ticks)
        at = write_array(body, at, 4)
        at = write_int(body, at, int64(event.side))
        at = write_int(body, at, event.price_ticks)
        at = write_int(body, at, qty)
        at = write_int(body, at, orders)
        items += 1
    return at, items


@inner
def copy_public_rows(events: Any, order: Any, out: Any) -> int:
    """Copies the public fields of events that change a book, and of prints, halts and phases, to `out`. Returns the number of rows.

    Omits leaves_lots, which includes the reserve of an iceberg, and the number of an order that is not displayed.
    """
    count = 0
    for index in order:
        event = events[index]
        is_public = event.kind == _PRINT or is_status(event) or (event.kind == _FILL and event.flags & _MAKER)
        if book_action(event) == 0 and not is_public:
            continue
        row = out[count]
        row.time_ns, row.sequence = event.time_ns, event.sequence
        row.order_number, row.match_id = 0 if event.flags & _HIDDEN else event.order_number, event.match_id
        row.price_ticks, row.qty_lots = event.price_ticks, event.qty_lots
        row.symbol, row.kind, row.side, row.flags = event.symbol, event.kind, event.side, event.flags
        count += 1
    return count
