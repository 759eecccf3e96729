"""What happens on a `NamedBook`: orders enter, are taken off, trade; symbols halt and resume. Each writes its commands."""

from serl.exchange.compiling import compiled, inlined, int64
from serl.history.named_book import (
    BUY,
    CANCEL,
    CANCELS,
    COMMANDS,
    EXECUTIONS,
    EXECUTIONS_BEHIND_BEST,
    EXECUTIONS_HALTED,
    EXECUTIONS_OTHER_HEAD,
    EXECUTIONS_UNFILLED,
    FREE_ORDER,
    FREE_ORDERS,
    GTC,
    HALT,
    HALTS,
    IOC,
    MISSING_LOTS,
    NEW,
    NEW_ORDERS,
    ORDERS_CROSSING,
    PRINT,
    PRINTS,
    REDUCE,
    RESUME,
    RESUMES,
    ROW,
    TIME_NS,
    WRITTEN,
    NamedBook,
    drop_level,
    forget,
    hash_place,
    level_of,
    new_level,
    room,
)


@inlined
def write(
    book: NamedBook, kind: int, order_id: int, symbol: int, side: int, price_ticks: int, lots: int, in_force: int
) -> int:
    """Writes one command; returns its command_id."""
    counter = book.counter
    index = counter[WRITTEN]
    counter[WRITTEN] += 1
    counter[COMMANDS] += 1
    row = book.commands[index]
    row.time_ns, row.command_id, row.order_id = counter[TIME_NS], counter[COMMANDS], order_id
    row.price_ticks, row.qty_lots, row.symbol = price_ticks, lots, symbol
    row.kind, row.side, row.time_in_force = kind, side, in_force
    book.rows[index] = counter[ROW]
    return counter[COMMANDS]


@inlined
def _release(book: NamedBook, slot: int) -> None:
    book.orders[slot].after = book.counter[FREE_ORDER]
    book.counter[FREE_ORDER] = slot
    book.counter[FREE_ORDERS] += 1


@inlined
def _take(book: NamedBook, slot: int, lots: int) -> None:
    """Takes lots off an order, the order out of its level once nothing is left, and a nameless one out of the book."""
    order = book.orders[slot]
    level = book.levels[order.level]
    order.open_lots -= lots
    level.lots -= lots
    if order.open_lots > 0:
        return
    if order.before:
        book.orders[order.before].after = order.after
    else:
        level.head = order.after
    if order.after:
        book.orders[order.after].before = order.before
    else:
        level.tail = order.before
    level.orders -= 1
    if level.orders == 0:
        drop_level(book, int64(order.level))
    if order.name == 0:
        _release(book, slot)


@inlined
def _match(book: NamedBook, symbol: int, side: int, price_ticks: int, lots: int) -> int:
    """Trades an incoming order against the other side by price and time; returns what is left of it."""
    while lots > 0:
        best = int64(book.best[symbol, 1 - side])
        if best == 0:
            break
        level = book.levels[best]
        if level.price_ticks > price_ticks if side == BUY else level.price_ticks < price_ticks:
            break
        slot = int64(level.head)
        traded = min(lots, book.orders[slot].open_lots)
        _take(book, slot, traded)
        lots -= traded
    return lots


@compiled
def _send(book: NamedBook, slot: int, lots: int) -> None:
    """Writes the NEW of an order and plays it: it trades, and what is left stands at the tail of its level."""
    order = book.orders[slot]
    symbol, side, price_ticks = int64(order.symbol), int64(order.side), order.price_ticks
    order.command_id = write(book, NEW, 0, symbol, side, price_ticks, lots, GTC)
    book.counts[NEW_ORDERS] += 1
    left = _match(book, symbol, side, price_ticks, lots)
    book.counts[ORDERS_CROSSING] += left < lots
    if left == 0:
        if order.name == 0:
            _release(book, slot)
        return
    at = level_of(book, symbol, side, price_ticks)
    if at == 0:
        at = new_level(book, symbol, side, price_ticks)
    level = book.levels[at]
    order.open_lots, order.level = left, at
    order.before, order.after = level.tail, 0
    if level.tail:
        book.orders[level.tail].after = slot
    else:
        level.head = slot
    level.tail = slot
    level.orders += 1
    level.lots += left


@inlined
def _named(book: NamedBook, name: int, symbol: int, side: int, price_ticks: int, lots: int) -> int:
    """Slot of a new order that is nowhere yet, its name in the table."""
    slot = book.counter[FREE_ORDER]
    order = book.orders[slot]
    book.counter[FREE_ORDER] = order.after
    book.counter[FREE_ORDERS] -= 1
    order.name, order.known_lots, order.open_lots, order.command_id = name, lots if name else 0, 0, 0
    order.price_ticks, order.symbol, order.side, order.level, order.waits = price_ticks, symbol, side, 0, 0
    order.filled_lots = 0
    if name:
        size = book.names.size
        place = hash_place(name, size)
        while book.names[place] != 0:
            place = (place + 1) & (size - 1)
        book.names[place] = slot
    return slot


@compiled
def enter(book: NamedBook, name: int, symbol: int, side: int, price_ticks: int, lots: int) -> None:
    """A new order, which waits while its symbol is halted. name 0: the source does not name it."""
    if book.halted[symbol]:
        hold(book, name, symbol, side, price_ticks, lots)
    else:
        _send(book, _named(book, name, symbol, side, price_ticks, lots), lots)


@compiled
def hold(book: NamedBook, name: int, symbol: int, side: int, price_ticks: int, lots: int) -> None:
    """A new order of the source that does not enter the exchange yet."""
    slot = _named(book, name, symbol, side, price_ticks, lots)
    order = book.orders[slot]
    order.waits, order.known_lots = 1, lots
    waiting = book.waiting[symbol]
    order.before, order.after = waiting[1], 0
    if waiting[1]:
        book.orders[waiting[1]].after = slot
    else:
        waiting[0] = slot
    waiting[1] = slot
    waiting[2] += 1


@inlined
def crosses(book: NamedBook, symbol: int, side: int, price_ticks: int) -> bool:
    """Whether an order at this price would trade."""
    best = int64(book.best[symbol, 1 - side])
    if best == 0:
        return False
    other = book.levels[best].price_ticks
    return other <= price_ticks if side == BUY else other >= price_ticks


@compiled
def _stop_waiting(book: NamedBook, slot: int) -> None:
    order = book.orders[slot]
    waiting = book.waiting[order.symbol]
    if order.before:
        book.orders[order.before].after = order.after
    else:
        waiting[0] = order.after
    if order.after:
        book.orders[order.after].before = order.before
    else:
        waiting[1] = order.before
    waiting[2] -= 1
    order.waits = 0


@inlined
def _cut(book: NamedBook, slot: int, lots: int) -> int:
    """Takes up to `lots` off an order by REDUCE, or by CANCEL if that is all of it; returns what it took."""
    order = book.orders[slot]
    lots = min(lots, order.open_lots)
    if lots <= 0:
        return 0
    whole = lots == order.open_lots
    write(
        book, CANCEL if whole else REDUCE, order.command_id, int64(order.symbol), int64(order.side), order.price_ticks,
        0 if whole else lots, 0,
    )  # fmt: skip
    _take(book, slot, lots)
    return lots


@compiled
def cut_level(book: NamedBook, symbol: int, side: int, price_ticks: int, lots: int) -> int:
    """Takes lots off a level: first what its source does not know of, then the rest, each from the newest; what it lacks."""
    for known in range(2):
        at = level_of(book, symbol, side, price_ticks)
        slot = int64(book.levels[at].tail) if at else 0
        while slot and lots > 0:
            order = book.orders[slot]
            older = int64(order.before)
            lots -= _cut(book, slot, min(lots, order.open_lots if known else order.open_lots - order.known_lots))
            slot = older
    return lots


@inlined
def crowd(book: NamedBook, slot: int) -> int:
    """Orders at the price of an order: the commands that taking it off may need."""
    order = book.orders[slot]
    at = level_of(book, int64(order.symbol), int64(order.side), order.price_ticks)
    return int64(book.levels[at].orders) if at else 0


@inlined
def retire(book: NamedBook, slot: int) -> None:
    """The source knows the order no more; what the exchange still has of it stays without a name."""
    order = book.orders[slot]
    order.known_lots = order.filled_lots = 0
    if order.waits:
        _stop_waiting(book, slot)
    if order.name:
        forget(book, slot)
    if order.open_lots == 0:
        _release(book, slot)


@inlined
def take_off(book: NamedBook, slot: int, lots: int) -> None:
    """The source takes lots off an order. What the exchange does not have of them comes off the rest of its level."""
    order = book.orders[slot]
    order.known_lots -= lots
    book.counts[CANCELS] += 1
    if order.waits:
        return
    left = lots - _cut(book, slot, lots)
    if left > 0:
        book.counts[MISSING_LOTS] += cut_level(book, int64(order.symbol), int64(order.side), order.price_ticks, left)


@inlined
def execute(book: NamedBook, slot: int, lots: int) -> bool:
    """The source executes lots of an order: an IOC order of the other side comes at its price. False if it cannot: better orders stand, or a halt."""
    order = book.orders[slot]
    symbol, side, price_ticks = int64(order.symbol), int64(order.side), order.price_ticks
    at = level_of(book, symbol, side, price_ticks)
    book.counts[EXECUTIONS] += 1
    if book.halted[symbol] or at == 0 or book.best[symbol, side] != at:
        book.counts[EXECUTIONS_HALTED if book.halted[symbol] else EXECUTIONS_BEHIND_BEST] += 1
        return False
    order.known_lots -= lots
    book.counts[EXECUTIONS_OTHER_HEAD] += book.levels[at].head != slot
    book.counts[EXECUTIONS_UNFILLED] += aggress(book, symbol, 1 - side, price_ticks, lots) > 0
    return True


@inlined
def trade(book: NamedBook, slot: int, lots: int) -> None:
    """The source executes lots of an order, and takes them off it. Where no IOC order can, the order is cut and the trade printed."""
    if not execute(book, slot, lots):
        order = book.orders[slot]
        take_off(book, slot, lots)
        book.counts[CANCELS] -= 1
        publish(book, int64(order.symbol), int64(order.side), order.price_ticks, lots)


@compiled
def aggress(book: NamedBook, symbol: int, side: int, price_ticks: int, lots: int) -> int:
    """An IOC order of `side` comes; what found no counterpart."""
    write(book, NEW, 0, symbol, side, price_ticks, lots, IOC)
    return _match(book, symbol, side, price_ticks, lots)


@compiled
def publish(book: NamedBook, symbol: int, side: int, price_ticks: int, lots: int) -> None:
    """A trade outside the visible book; side is that of the resting party."""
    write(book, PRINT, 0, symbol, side, price_ticks, lots, 0)
    book.counts[PRINTS] += 1


@compiled
def halt(book: NamedBook, symbol: int) -> None:
    """Halts a symbol, if it is not halted."""
    if not book.halted[symbol]:
        book.halted[symbol] = 1
        write(book, HALT, 0, symbol, 0, 0, 0, 0)
        book.counts[HALTS] += 1


@compiled
def resume(book: NamedBook, symbol: int) -> None:
    """Resumes a symbol, if it is halted; the orders that came meanwhile enter in their order."""
    if not book.halted[symbol]:
        return
    book.halted[symbol] = 0
    write(book, RESUME, 0, symbol, 0, 0, 0, 0)
    book.counts[RESUMES] += 1
    slot = int64(book.waiting[symbol, 0])
    while slot:
        younger = int64(book.orders[slot].after)
        _stop_waiting(book, slot)
        _send_waited(book, slot)
        slot = younger


@inlined
def _send_waited(book: NamedBook, slot: int) -> None:
    order = book.orders[slot]
    lots = order.known_lots
    if order.name == 0:
        order.known_lots = 0
    _send(book, slot, lots)


@compiled
def enter_waiting(book: NamedBook, symbol: int) -> None:
    """Of the orders that are held, those that would not trade enter, in their order."""
    slot = int64(book.waiting[symbol, 0])
    while slot:
        order = book.orders[slot]
        younger = int64(order.after)
        if not crosses(book, symbol, int64(order.side), order.price_ticks):
            _stop_waiting(book, slot)
            _send_waited(book, slot)
        slot = younger


@inlined
def settle(book: NamedBook, slot: int, lots: int) -> None:
    """The source says what is open of an order, trades that the market made itself included: more than that is taken off."""
    order = book.orders[slot]
    order.known_lots = lots
    if not order.waits:
        book.counts[CANCELS] += _cut(book, slot, order.open_lots - lots) > 0


@compiled
def settle_level(book: NamedBook, symbol: int, side: int, price_ticks: int, lots: int, adding: bool) -> None:
    """The source says what stands at a price, and no more: takes off what is too much, or (adding) enters what is missing."""
    at = level_of(book, symbol, side, price_ticks)
    there = book.levels[at].lots if at else 0
    if adding and lots > there:
        enter(book, 0, symbol, side, price_ticks, lots - there)
    elif not adding and there > lots:
        book.counts[CANCELS] += 1
        cut_level(book, symbol, side, price_ticks, there - lots)


@compiled
def clear(book: NamedBook, symbol: int, first: int) -> int:
    """Takes every order of a symbol out, from this slot on; the slot where it stopped for room, the end if it did not."""
    for slot in range(first, book.orders.size):
        order = book.orders[slot]
        if order.symbol == symbol and (order.open_lots > 0 or order.name != 0):
            if not room(book, 1):
                return slot
            _cut(book, slot, order.open_lots)
            if order.name != 0:
                retire(book, slot)
    return book.orders.size
