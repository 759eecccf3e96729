"""Changes of a `StreamBook`: orders enter, are cancelled, trade; symbols halt and resume. Each change writes its commands."""

from serl.exchange.compiling import inlined, inner, int64
from serl.history.stream_book import (
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
    SLOTS_USED,
    TIME_NS,
    WRITTEN,
    StreamBook,
    find_level,
    has_room,
    hash_position,
    insert_level,
    remove_id,
    remove_level,
)


@inlined
def write_command(
    book: StreamBook, kind: int, order_id: int, symbol: int, side: int, price_ticks: int, lots: int, time_in_force: int
) -> int:
    """Writes one command; returns its command_id."""
    counter = book.counter
    index = counter[WRITTEN]
    counter[WRITTEN] += 1
    counter[COMMANDS] += 1
    row = book.commands[index]
    row.time_ns, row.command_id, row.order_id = counter[TIME_NS], counter[COMMANDS], order_id
    row.price_ticks, row.qty_lots, row.symbol = price_ticks, lots, symbol
    row.kind, row.side, row.time_in_force = kind, side, time_in_force
    book.rows[index] = counter[ROW]
    return counter[COMMANDS]


@inlined
def _free_order(book: StreamBook, slot: int) -> None:
    book.orders[slot].next = book.counter[FREE_ORDER]
    book.counter[FREE_ORDER] = slot
    book.counter[FREE_ORDERS] += 1
    book.held_orders[book.orders[slot].symbol, SLOTS_USED] -= 1


@inlined
def _remove_lots(book: StreamBook, slot: int, lots: int) -> None:
    """Removes lots from an order; an order with nothing left leaves its level, and the book if it is anonymous."""
    order = book.orders[slot]
    level = book.levels[order.level]
    order.open_lots -= lots
    level.lots -= lots
    if order.open_lots > 0:
        return
    if order.previous:
        book.orders[order.previous].next = order.next
    else:
        level.head = order.next
    if order.next:
        book.orders[order.next].previous = order.previous
    else:
        level.tail = order.previous
    level.orders -= 1
    if level.orders == 0:
        remove_level(book, int64(order.level))
    if order.source_id == 0:
        _free_order(book, slot)


@inlined
def _match(book: StreamBook, symbol: int, side: int, price_ticks: int, lots: int) -> int:
    """Matches an incoming order against the other side in price-time priority; returns its remaining lots."""
    while lots > 0:
        best = int64(book.best[symbol, 1 - side])
        if best == 0:
            break
        level = book.levels[best]
        if level.price_ticks > price_ticks if side == BUY else level.price_ticks < price_ticks:
            break
        slot = int64(level.head)
        traded = min(lots, book.orders[slot].open_lots)
        _remove_lots(book, slot, traded)
        lots -= traded
    return lots


@inner
def _place_order(book: StreamBook, slot: int, lots: int) -> None:
    """Writes the NEW of an order and applies it: the order trades, and the rest joins the tail of its level."""
    order = book.orders[slot]
    symbol, side, price_ticks = int64(order.symbol), int64(order.side), order.price_ticks
    order.command_id = write_command(book, NEW, 0, symbol, side, price_ticks, lots, GTC)
    book.counts[NEW_ORDERS] += 1
    rest = _match(book, symbol, side, price_ticks, lots)
    book.counts[ORDERS_CROSSING] += rest < lots
    if rest == 0:
        if order.source_id == 0:
            _free_order(book, slot)
        return
    at = find_level(book, symbol, side, price_ticks)
    if at == 0:
        at = insert_level(book, symbol, side, price_ticks)
    level = book.levels[at]
    order.open_lots, order.level = rest, at
    order.previous, order.next = level.tail, 0
    if level.tail:
        book.orders[level.tail].next = slot
    else:
        level.head = slot
    level.tail = slot
    level.orders += 1
    level.lots += rest


@inlined
def _allocate_order(book: StreamBook, source_id: int, symbol: int, side: int, price_ticks: int, lots: int) -> int:
    """Slot of a new order with its id in the table; the order is not in the book yet."""
    slot = book.counter[FREE_ORDER]
    order = book.orders[slot]
    book.counter[FREE_ORDER] = order.next
    book.counter[FREE_ORDERS] -= 1
    book.held_orders[symbol, SLOTS_USED] += 1
    order.source_id, order.source_lots, order.open_lots, order.command_id = source_id, lots if source_id else 0, 0, 0
    order.price_ticks, order.symbol, order.side, order.level, order.is_held = price_ticks, symbol, side, 0, 0
    order.filled_lots = 0
    if source_id:
        size = book.id_table.size
        place = hash_position(source_id, size)
        while book.id_table[place] != 0:
            place = (place + 1) & (size - 1)
        book.id_table[place] = slot
    return slot


@inner
def enter_order(book: StreamBook, source_id: int, symbol: int, side: int, price_ticks: int, lots: int) -> None:
    """Enters a new order, which is held while its symbol is halted. source_id 0: the source has no id for it."""
    if book.halted[symbol]:
        hold_order(book, source_id, symbol, side, price_ticks, lots)
    else:
        _place_order(book, _allocate_order(book, source_id, symbol, side, price_ticks, lots), lots)


@inner
def hold_order(book: StreamBook, source_id: int, symbol: int, side: int, price_ticks: int, lots: int) -> None:
    """Holds a new order of the source: it does not enter the exchange yet."""
    slot = _allocate_order(book, source_id, symbol, side, price_ticks, lots)
    order = book.orders[slot]
    order.is_held, order.source_lots = 1, lots
    held_orders = book.held_orders[symbol]
    order.previous, order.next = held_orders[1], 0
    if held_orders[1]:
        book.orders[held_orders[1]].next = slot
    else:
        held_orders[0] = slot
    held_orders[1] = slot
    held_orders[2] += 1


@inlined
def crosses(book: StreamBook, symbol: int, side: int, price_ticks: int) -> bool:
    """Whether an order at this price would trade."""
    best = int64(book.best[symbol, 1 - side])
    if best == 0:
        return False
    other = book.levels[best].price_ticks
    return other <= price_ticks if side == BUY else other >= price_ticks


@inner
def _remove_held_order(book: StreamBook, slot: int) -> None:
    order = book.orders[slot]
    held_orders = book.held_orders[order.symbol]
    if order.previous:
        book.orders[order.previous].next = order.next
    else:
        held_orders[0] = order.next
    if order.next:
        book.orders[order.next].previous = order.previous
    else:
        held_orders[1] = order.previous
    held_orders[2] -= 1
    order.is_held = 0


@inlined
def _reduce(book: StreamBook, slot: int, lots: int) -> int:
    """Reduces an order by up to `lots` with a REDUCE, or a CANCEL if nothing is left; returns the lots removed."""
    order = book.orders[slot]
    lots = min(lots, order.open_lots)
    if lots <= 0:
        return 0
    is_cancel = lots == order.open_lots
    write_command(
        book, CANCEL if is_cancel else REDUCE, order.command_id, int64(order.symbol), int64(order.side), order.price_ticks,
        0 if is_cancel else lots, 0,
    )  # fmt: skip
    _remove_lots(book, slot, lots)
    return lots


@inner
def reduce_level(book: StreamBook, symbol: int, side: int, price_ticks: int, lots: int) -> int:
    """Removes lots from a level: first from orders unknown to the source, then from others, newest first; returns how many lots were missing."""
    for known in range(2):
        at = find_level(book, symbol, side, price_ticks)
        slot = int64(book.levels[at].tail) if at else 0
        while slot and lots > 0:
            order = book.orders[slot]
            older = int64(order.previous)
            lots -= _reduce(book, slot, min(lots, order.open_lots if known else order.open_lots - order.source_lots))
            slot = older
    return lots


@inlined
def orders_at_price(book: StreamBook, slot: int) -> int:
    """Number of orders at the price of an order. Cancelling its lots may need that many commands."""
    order = book.orders[slot]
    at = find_level(book, int64(order.symbol), int64(order.side), order.price_ticks)
    return int64(book.levels[at].orders) if at else 0


@inlined
def forget_order(book: StreamBook, slot: int) -> None:
    """Forgets an order that the source no longer has; lots that the exchange still has of it become anonymous."""
    order = book.orders[slot]
    order.source_lots = order.filled_lots = 0
    if order.is_held:
        _remove_held_order(book, slot)
    if order.source_id:
        remove_id(book, slot)
    if order.open_lots == 0:
        _free_order(book, slot)


@inlined
def cancel_lots(book: StreamBook, slot: int, lots: int) -> None:
    """The source cancels lots of an order. Lots that the exchange's order lacks are removed from the rest of its level."""
    order = book.orders[slot]
    order.source_lots -= lots
    book.counts[CANCELS] += 1
    if order.is_held:
        return
    missing = lots - _reduce(book, slot, lots)
    if missing > 0:
        book.counts[MISSING_LOTS] += reduce_level(
            book, int64(order.symbol), int64(order.side), order.price_ticks, missing
        )


@inlined
def execute(book: StreamBook, slot: int, lots: int) -> bool:
    """The source executes lots of an order: sends an IOC order of the other side at its price. False if better orders or a halt prevent it."""
    order = book.orders[slot]
    symbol, side, price_ticks = int64(order.symbol), int64(order.side), order.price_ticks
    at = find_level(book, symbol, side, price_ticks)
    book.counts[EXECUTIONS] += 1
    if book.halted[symbol] or at == 0 or book.best[symbol, side] != at:
        book.counts[EXECUTIONS_HALTED if book.halted[symbol] else EXECUTIONS_BEHIND_BEST] += 1
        return False
    order.source_lots -= lots
    book.counts[EXECUTIONS_OTHER_HEAD] += book.levels[at].head != slot
    book.counts[EXECUTIONS_UNFILLED] += send_ioc(book, symbol, 1 - side, price_ticks, lots) > 0
    return True


@inlined
def trade(book: StreamBook, slot: int, lots: int) -> None:
    """The source executes lots of an order. If an IOC order cannot, the order is reduced and the trade printed."""
    if not execute(book, slot, lots):
        order = book.orders[slot]
        cancel_lots(book, slot, lots)
        book.counts[CANCELS] -= 1
        print_trade(book, int64(order.symbol), int64(order.side), order.price_ticks, lots)


@inner
def send_ioc(book: StreamBook, symbol: int, side: int, price_ticks: int, lots: int) -> int:
    """Sends an IOC order of `side`; returns the lots that did not trade."""
    write_command(book, NEW, 0, symbol, side, price_ticks, lots, IOC)
    return _match(book, symbol, side, price_ticks, lots)


@inner
def print_trade(book: StreamBook, symbol: int, side: int, price_ticks: int, lots: int) -> None:
    """Prints a trade outside the displayed book; side: that of the resting order."""
    write_command(book, PRINT, 0, symbol, side, price_ticks, lots, 0)
    book.counts[PRINTS] += 1


@inner
def halt(book: StreamBook, symbol: int) -> None:
    """Halts a symbol, unless it is halted already."""
    if not book.halted[symbol]:
        book.halted[symbol] = 1
        write_command(book, HALT, 0, symbol, 0, 0, 0, 0)
        book.counts[HALTS] += 1


@inner
def resume(book: StreamBook, symbol: int) -> None:
    """Resumes a halted symbol; the held orders enter in their order of arrival."""
    if not book.halted[symbol]:
        return
    book.halted[symbol] = 0
    write_command(book, RESUME, 0, symbol, 0, 0, 0, 0)
    book.counts[RESUMES] += 1
    slot = int64(book.held_orders[symbol, 0])
    while slot:
        younger = int64(book.orders[slot].next)
        _remove_held_order(book, slot)
        _place_held_order(book, slot)
        slot = younger


@inlined
def _place_held_order(book: StreamBook, slot: int) -> None:
    order = book.orders[slot]
    lots = order.source_lots
    if order.source_id == 0:
        order.source_lots = 0
    _place_order(book, slot, lots)


@inner
def enter_held(book: StreamBook, symbol: int) -> None:
    """Enters the held orders that would not trade, in their order of arrival."""
    slot = int64(book.held_orders[symbol, 0])
    while slot:
        order = book.orders[slot]
        younger = int64(order.next)
        if not crosses(book, symbol, int64(order.side), order.price_ticks):
            _remove_held_order(book, slot)
            _place_held_order(book, slot)
        slot = younger


@inlined
def set_open_lots(book: StreamBook, slot: int, lots: int) -> None:
    """The source reports the open lots of an order, after any trades: removes what exceeds them."""
    order = book.orders[slot]
    order.source_lots = lots
    if not order.is_held:
        book.counts[CANCELS] += _reduce(book, slot, order.open_lots - lots) > 0


@inner
def set_level_lots(book: StreamBook, symbol: int, side: int, price_ticks: int, lots: int, adding: bool) -> None:
    """The source reports the lots at a price: removes the excess, or (adding) enters what is missing."""
    at = find_level(book, symbol, side, price_ticks)
    current = book.levels[at].lots if at else 0
    if adding and lots > current:
        enter_order(book, 0, symbol, side, price_ticks, lots - current)
    elif not adding and current > lots:
        book.counts[CANCELS] += 1
        reduce_level(book, symbol, side, price_ticks, current - lots)


@inner
def cancel_all(book: StreamBook, symbol: int, first: int) -> int:
    """Cancels all orders of a symbol from slot `first` on; returns the slot where it needs room, or the number of slots."""
    for slot in range(first, book.orders.size):
        if book.held_orders[symbol, SLOTS_USED] == 0:  # a snapshot of thousands of symbols first clears each
            break
        order = book.orders[slot]
        if order.symbol == symbol and (order.open_lots > 0 or order.source_id != 0):
            if not has_room(book, 1):
                return slot
            _reduce(book, slot, order.open_lots)
            if order.source_id != 0:
                forget_order(book, slot)
    return book.orders.size
