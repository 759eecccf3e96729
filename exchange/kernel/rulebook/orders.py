"""Orders in their queues, with all that is special about them: heaps by trigger and by expiry, counts by account."""

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel import order_index
from serl.exchange.kernel.book import append_to_level, remove_from_level, rest_order
from serl.exchange.kernel.rulebook import heaps
from serl.exchange.kernel.rulebook.reserves import count_open, release, total_open_lots
from serl.exchange.kernel.state import CLOSERS, DUE_CHILDREN, DUE_PEGS, DUE_TRAILS, NEVER, PEGS, RESERVES, State
from serl.exchange.records import ACCOUNT_SELF_TRADE


@inner
def schedule_triggers(state: State, symbol: int) -> None:
    """Marks a symbol: its triggers run after this command."""
    if not state.triggers_pending[symbol]:
        state.triggers_pending[symbol] = 1
        state.counters.symbols_pending += 1


@inner
def make_special(state: State, slot: int) -> None:
    """Gives an order an EXTRA of its own; the full rule book has to do with its symbol while it is open."""
    order, extra = state.orders[slot], state.extras[slot]
    if order.special:
        return
    order.special = 1
    state.needs_full_book[order.symbol] += 1
    extra.limit_ticks = order.price_ticks
    extra.reserve_lots = extra.display_lots = extra.min_lots = extra.stop_ticks = extra.trail_ticks = 0
    extra.touch_ticks = extra.offset_ticks = extra.expire_ns = extra.link = 0
    extra.heap_place = -1
    extra.heap = heaps.NO_HEAP
    extra.child = extra.parent = 0
    extra.peg = extra.updates = extra.waits = 0
    extra.self_trade = ACCOUNT_SELF_TRADE


@inner
def side_of(queue: int, side: int, touch: int) -> int:
    """The side of a queue's book where orders of `side` stand. STOP: those that rising prices trigger stand where asks do, the lowest first:
    stop orders to buy and if-touched orders to sell."""
    return 1 - side if queue == k.STOP_QUEUE and touch == 0 else side


@inner
def enqueue(
    state: State, symbol: int, queue: int, side: int, price: int, leaves_lots: int, total: int, participant: int, order_id: int,
    time_in_force: int, flags: int, special: bool, touch: int,
) -> int:  # fmt: skip
    """Puts an order into a queue; its slot."""
    place = side_of(queue, side, touch)
    slot = rest_order(state, symbol, queue, place, side, price, leaves_lots, total, participant, order_id)
    order = state.orders[slot]
    order.time_in_force = time_in_force
    order.flags = flags
    if special or queue != k.DISPLAYED_QUEUE:
        make_special(state, slot)
    count_open(state, slot, leaves_lots, 1)
    return slot


@inner
def _leave_queue(state: State, slot: int) -> None:
    """Removes an order from its level."""
    order, queue = state.orders[slot], int64(state.orders[slot].queue)
    touch = state.extras[slot].touch_ticks if queue == k.STOP_QUEUE else 0
    book = queue * state.halted.size + int64(order.symbol)
    remove_from_level(state, slot, book, side_of(queue, int64(order.side), touch))


@inner
def remove_from_everywhere(state: State, slot: int) -> None:
    """Removes an order from its queue, heaps, index and pool."""
    order = state.orders[slot]
    count_open(state, slot, -total_open_lots(state, slot), -1)
    release(state, slot)
    if order.special:
        extra, settled = state.extras[slot], state.settled[order.symbol]
        settled[PEGS] -= extra.peg != 0
        settled[RESERVES + int64(order.side)] -= extra.reserve_lots
        heaps.remove(state, slot)
        remove_expiry(state, slot)
        state.needs_full_book[order.symbol] -= 1
    _leave_queue(state, slot)
    order_index.remove(state, int64(order.participant), order.order_id, slot)
    order.open_lots = 0
    order.next = state.counters.free_order
    state.counters.free_order = slot
    state.counters.orders_open -= 1


@inner
def requeue(state: State, slot: int, queue: int, price: int) -> None:
    """Puts an order behind the others of a price of a queue, under a new number."""
    order = state.orders[slot]
    heaps.remove(state, slot)
    _leave_queue(state, slot)
    order.queue = queue
    touch = state.extras[slot].touch_ticks if queue == k.STOP_QUEUE else 0
    book = queue * state.halted.size + int64(order.symbol)
    append_to_level(state, slot, book, side_of(queue, int64(order.side), touch), price)
    watch(state, slot)
    if state.extras[slot].heap_place >= 0:
        _sift_down(state, int64(state.extras[slot].heap_place))


@inner
def minimum_lots(state: State, slot: int) -> int:
    """What an order of MIN_QTY trades at once if it trades."""
    return min(state.extras[slot].min_lots, state.orders[slot].open_lots)


@inner
def watch(state: State, slot: int) -> None:
    """Puts an order that has come to a queue into the heap in which its trigger is found, if it has one."""
    order, extra = state.orders[slot], state.extras[slot]
    if extra.waits == k.DUE:
        heaps.push(state, slot, DUE_CHILDREN, -order.order_number)
    elif extra.waits != 0:
        return
    elif extra.peg != 0:
        heaps.push(state, slot, DUE_PEGS, -order.order_number)
    elif order.queue == k.MIN_QTY_QUEUE:
        heaps.push(state, slot, heaps.OF_LEVEL, -minimum_lots(state, slot))
    elif order.queue == k.STOP_QUEUE and extra.trail_ticks != 0:
        heaps.push(state, slot, DUE_TRAILS, -order.order_number)
    elif order.queue == k.INACTIVE_QUEUE:
        heaps.push(state, slot, CLOSERS, -order.order_number)


@inner
def watch_minimum(state: State, slot: int) -> None:
    """The same after a change of the quantities of an order."""
    if state.orders[slot].queue == k.MIN_QTY_QUEUE:
        heaps.remove(state, slot)
        watch(state, slot)


# -- the heap of what expires -----------------------------------------------------------------------------------------


@inner
def _expires_before(state: State, one: int, other: int) -> bool:
    """Whether the slot `one` expires before `other`: by time, then number."""
    first, second = state.extras[one].expire_ns, state.extras[other].expire_ns
    return first < second or (first == second and state.orders[one].order_number < state.orders[other].order_number)


@inner
def _store_in_heap(state: State, place: int, slot: int) -> None:
    state.heap[place] = slot
    state.extras[slot].heap_place = place


@inner
def _sift_down(state: State, place: int) -> None:
    slot, size = int64(state.heap[place]), state.counters.expiring_orders
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _expires_before(state, int64(state.heap[child + 1]), int64(state.heap[child])):
            child += 1
        if not _expires_before(state, int64(state.heap[child]), slot):
            break
        _store_in_heap(state, place, int64(state.heap[child]))
        place = child
    _store_in_heap(state, place, slot)


@inner
def _sift_up(state: State, place: int) -> None:
    slot = int64(state.heap[place])
    while place > 0:
        parent = (place - 1) >> 1
        if not _expires_before(state, slot, int64(state.heap[parent])):
            break
        _store_in_heap(state, place, int64(state.heap[parent]))
        place = parent
    _store_in_heap(state, place, slot)


@inner
def _next_expiry(state: State) -> None:
    state.counters.next_expiry_ns = (
        state.extras[state.heap[0]].expire_ns if state.counters.expiring_orders > 0 else NEVER
    )


@inner
def add_expiry(state: State, slot: int) -> None:
    """Adds an order to the expiry heap. O(log expiring orders)."""
    place = state.counters.expiring_orders
    state.counters.expiring_orders += 1
    _store_in_heap(state, place, slot)
    _sift_up(state, place)
    _next_expiry(state)


@inner
def remove_expiry(state: State, slot: int) -> None:
    """Removes an order from the expiry heap, if it is there."""
    place = int64(state.extras[slot].heap_place)
    if place < 0:
        return
    state.extras[slot].heap_place = -1
    state.counters.expiring_orders -= 1
    last = int64(state.heap[state.counters.expiring_orders])
    if last != slot:
        _store_in_heap(state, place, last)
        _sift_down(state, place)
        _sift_up(state, int64(state.extras[last].heap_place))
    _next_expiry(state)
