"""Why a command is rejected: the section Checks of docs/orders.md, in its order."""

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel import order_index
from serl.exchange.kernel.rows import CommandRow
from serl.exchange.kernel.rulebook.active_order import phase_of
from serl.exchange.kernel.rulebook.auction import is_collecting
from serl.exchange.kernel.rulebook.balance_checks import new_exceeds_balance, replace_exceeds_balance
from serl.exchange.kernel.rulebook.capacity import is_full
from serl.exchange.kernel.rulebook.pricing import collar_limit, in_band
from serl.exchange.kernel.rulebook.reducing import reducing_lots
from serl.exchange.kernel.rulebook.reserves import total_open_lots
from serl.exchange.kernel.state import ASK, BID, State
from serl.exchange.records import NO_TERM, TICK_ENTRIES_MAX, CommandFlag

KNOWN_FLAGS = int(sum(CommandFlag))
SENT_TERMS = NO_TERM
"""Column of State.terms with a bit for each that was given."""
UNKNOWN_TERM = 1 << NO_TERM
REPLACED_TERMS = (
    1 << k.TERM_EXPIRE_NS
    | 1 << k.TERM_MIN_LOTS
    | 1 << k.TERM_STOP_TICKS
    | 1 << k.TERM_TRAIL_TICKS
    | 1 << k.TERM_TOUCH_TICKS
)
"""Terms that a REPLACE can change."""


@inner
def is_on_tick(state: State, symbol: int, price: int) -> bool:
    """Whether a price is a multiple of what the symbol's tick table says there."""
    instrument, step = state.symbols[symbol], 1
    for entry in range(TICK_ENTRIES_MAX):
        multiple = instrument.tick_table[entry, 1]
        if multiple != 0 and price >= instrument.tick_table[entry, 0]:
            step = multiple
    return price % step == 0


@inner
def is_valid_price(state: State, symbol: int, price: int) -> bool:
    """Whether a limit can be that price."""
    return 1 <= price <= state.counters.price_ticks_max and is_on_tick(state, symbol, price)


@inner
def is_valid_qty(state: State, symbol: int, qty: int) -> bool:
    """Whether an order can have that quantity."""
    return 1 <= qty <= state.counters.qty_lots_max and qty % state.symbols[symbol].lot_multiple == 0


@inner
def _has_bad_flags(command: CommandRow) -> bool:
    """Whether flags and time in force of a NEW do not go together."""
    flags, tif = int64(command.flags), int64(command.time_in_force)
    instant, auction = tif == k.IOC or tif == k.FOK, tif == k.AT_OPEN or tif == k.AT_CLOSE
    market = flags & k.MARKET != 0
    if flags & ~KNOWN_FLAGS:
        return True
    if flags & (k.POST_ONLY | k.HIDE) and (market or instant or auction or flags & k.ALL_OR_NONE):
        return True
    if flags & k.ALL_OR_NONE and (market or instant or auction):
        return True
    if flags & k.TO_LIMIT and (not market or instant or auction):
        return True
    return flags & k.REDUCE_ONLY != 0 and auction


@inner
def term_value(state: State, command: CommandRow, which: int) -> int:
    """The value of a term that a NEW or REPLACE takes, 0 if it was not given."""
    sent = state.terms[command.participant]
    return sent[which] if command.flags & k.HAS_TERMS and sent[SENT_TERMS] >> which & 1 else 0


@inner
def initial_stop_ticks(state: State, command: CommandRow) -> int:
    """Where the stop of a NEW begins, 0 if it is none."""
    stop, trail = term_value(state, command, k.TERM_STOP_TICKS), term_value(state, command, k.TERM_TRAIL_TICKS)
    if stop != 0 or trail == 0:
        return stop
    last = state.symbols[command.symbol].last_ticks
    return max(1, min(state.counters.price_ticks_max, last + trail if command.side == BID else last - trail))


@inner
def _has_bad_values(state: State, command: CommandRow, symbol: int, sent: int) -> bool:
    """Whether a term has a value that no order could have."""
    values, most = state.terms[command.participant], state.counters.price_ticks_max
    lot = state.symbols[symbol].lot_multiple
    if sent & 1 << k.TERM_DISPLAY_LOTS and (values[k.TERM_DISPLAY_LOTS] < 1 or values[k.TERM_DISPLAY_LOTS] % lot != 0):
        return True
    if sent & 1 << k.TERM_MIN_LOTS and (
        not 1 <= values[k.TERM_MIN_LOTS] <= command.qty_lots or values[k.TERM_MIN_LOTS] % lot != 0
    ):
        return True
    if sent & 1 << k.TERM_STOP_TICKS and not is_valid_price(state, symbol, values[k.TERM_STOP_TICKS]):
        return True
    if sent & 1 << k.TERM_TOUCH_TICKS and not is_valid_price(state, symbol, values[k.TERM_TOUCH_TICKS]):
        return True
    if sent & 1 << k.TERM_TRAIL_TICKS and not 1 <= values[k.TERM_TRAIL_TICKS] <= most:
        return True
    if sent & 1 << k.TERM_WAITS and values[k.TERM_WAITS] != 1:
        return True
    if sent & 1 << k.TERM_PEG and not 1 <= values[k.TERM_PEG] <= k.MID:
        return True
    if sent & 1 << k.TERM_OFFSET_TICKS and not 0 <= values[k.TERM_OFFSET_TICKS] <= most:
        return True
    if sent & 1 << k.TERM_EXPIRE_NS and values[k.TERM_EXPIRE_NS] <= max(command.time_ns, 0):
        return True
    return sent & 1 << k.TERM_SELF_TRADE != 0 and not 0 <= values[k.TERM_SELF_TRADE] <= k.DECREMENT


@inner
def _can_be_child(state: State, participant: int, order_id: int) -> bool:
    """Whether an order waits, and neither it nor the one that it is linked with has a parent."""
    slot = order_index.find(state, participant, order_id)
    if slot < 0 or not state.orders[slot].special:
        return False
    child = state.extras[slot]
    if child.waits != k.WAITING or child.parent != 0:
        return False
    return child.link == 0 or state.extras[order_index.find(state, participant, child.link)].parent == 0


@inner
def _has_bad_terms(state: State, command: CommandRow) -> bool:
    """Whether terms are missing, out of range, or do not go together with the order."""
    flags, tif, participant = int64(command.flags), int64(command.time_in_force), int64(command.participant)
    if flags & k.HAS_TERMS == 0:
        return tif == k.GTT
    sent = state.terms[participant, SENT_TERMS]
    if sent == 0 or sent & UNKNOWN_TERM:
        return True
    if _has_bad_values(state, command, int64(command.symbol), sent):
        return True
    instant, market = tif == k.IOC or tif == k.FOK, flags & k.MARKET != 0
    stops, peg = sent & (1 << k.TERM_STOP_TICKS | 1 << k.TERM_TRAIL_TICKS) != 0, sent & 1 << k.TERM_PEG != 0
    display, least = sent & 1 << k.TERM_DISPLAY_LOTS != 0, sent & 1 << k.TERM_MIN_LOTS != 0
    if (tif == k.GTT) != (sent & 1 << k.TERM_EXPIRE_NS != 0):
        return True
    if display and (flags & (k.HIDE | k.ALL_OR_NONE) or least or market or instant):
        return True
    if least and (flags & (k.ALL_OR_NONE | k.POST_ONLY | k.HIDE) or tif == k.FOK or market):
        return True
    touches = sent & 1 << k.TERM_TOUCH_TICKS != 0
    if (stops or touches) and (peg or (stops and touches)):
        return True
    if peg and (
        flags & (k.POST_ONLY | k.HIDE | k.ALL_OR_NONE | k.REDUCE_ONLY) or least or display or market or instant
    ):
        return True
    if sent & 1 << k.TERM_OFFSET_TICKS and not peg:
        return True
    if (tif == k.AT_OPEN or tif == k.AT_CLOSE) and sent & ~(
        1 << k.TERM_SELF_TRADE | 1 << k.TERM_LINK | 1 << k.TERM_UPDATE_LINK
    ):
        return True
    updates = sent & 1 << k.TERM_UPDATE_LINK != 0
    if sent & 1 << k.TERM_LINK or updates:
        which = k.TERM_UPDATE_LINK if updates else k.TERM_LINK
        slot = order_index.find(state, participant, state.terms[participant, which])
        if slot < 0 or (state.orders[slot].special and state.extras[slot].link != 0):
            return True
        waiting = k.WAITING if sent & 1 << k.TERM_WAITS else 0
        if (int64(state.extras[slot].waits) if state.orders[slot].special else 0) != waiting:
            return True
    if sent & 1 << k.TERM_LINK and updates:
        return True
    if sent & 1 << k.TERM_WAITS and (peg or sent & (1 << k.TERM_TRAIL_TICKS | 1 << k.TERM_CHILD)):
        return True
    if sent & 1 << k.TERM_CHILD and not _can_be_child(state, participant, state.terms[participant, k.TERM_CHILD]):
        return True
    trails = sent & 1 << k.TERM_TRAIL_TICKS and not sent & 1 << k.TERM_STOP_TICKS
    return trails != 0 and state.symbols[command.symbol].last_ticks == 0


@inner
def _has_bad_replacements(state: State, command: CommandRow, slot: int) -> bool:
    """Whether the terms of a REPLACE are missing, out of range, or of another kind of order."""
    order, sent = state.orders[slot], state.terms[command.participant, SENT_TERMS]
    if sent == 0 or sent & ~REPLACED_TERMS or not order.special:
        return True
    if _has_bad_values(state, command, int64(order.symbol), sent):
        return True
    extra = state.extras[slot]
    if sent & 1 << k.TERM_EXPIRE_NS and extra.expire_ns == 0:
        return True
    if sent & 1 << k.TERM_MIN_LOTS and (extra.min_lots == 0 or order.flags & k.ALL_OR_NONE):
        return True
    if sent & 1 << k.TERM_STOP_TICKS and extra.stop_ticks == 0:
        return True
    if sent & 1 << k.TERM_TRAIL_TICKS and extra.trail_ticks == 0:
        return True
    return sent & 1 << k.TERM_TOUCH_TICKS != 0 and extra.touch_ticks == 0


@inner
def replaced_value(state: State, command: CommandRow, which: int, current: int) -> int:
    """What a term of an order is after a REPLACE: none of those that it can change may be 0."""
    value = term_value(state, command, which)
    return value if value != 0 else current


@inner
def _is_wrong_phase(state: State, command: CommandRow) -> bool:
    """Whether the symbol's phase does not take such an order."""
    phase, tif = phase_of(state, int64(command.symbol)), int64(command.time_in_force)
    if phase == k.CLOSED:
        return True
    if tif == k.AT_OPEN:
        return not k.PRE_OPEN <= phase <= k.OPENING
    return is_collecting(phase) and (
        tif == k.IOC or tif == k.FOK or command.flags & (k.POST_ONLY | k.REDUCE_ONLY | k.TO_LIMIT) != 0
    )


@inner
def could_rest(state: State, command: CommandRow) -> bool:
    """Whether a NEW could rest."""
    if command.flags & k.HAS_TERMS and (
        term_value(state, command, k.TERM_STOP_TICKS)
        | term_value(state, command, k.TERM_TRAIL_TICKS)
        | term_value(state, command, k.TERM_TOUCH_TICKS)
        | term_value(state, command, k.TERM_WAITS)
    ):
        return True
    tif = int64(command.time_in_force)
    if tif == k.IOC or tif == k.FOK:
        return False
    if command.flags & k.TO_LIMIT:
        return True
    return command.flags & k.MARKET == 0 or tif == k.AT_CLOSE or phase_of(state, int64(command.symbol)) != k.CONTINUOUS


@inner
def limit_reason(state: State, participant: int, symbol: int, side: int, qty: int, price: int, display: int) -> int:
    """Why an order is beyond the band, the smallest display or its account's limits of an order, 0 if it is not."""
    instrument, limits = state.symbols[symbol], state.accounts[participant]
    if price != 0 and instrument.band_action == 0 and not in_band(state, symbol, price):
        return k.REASON_OUTSIDE_BAND
    divisor = state.counters.display_divisor_max
    if display != 0 and divisor != 0 and display < (qty + divisor - 1) // divisor:
        return k.REASON_LIMIT_DISPLAY
    if limits[k.SETTING_ORDER_LOTS_MAX] != 0 and qty > limits[k.SETTING_ORDER_LOTS_MAX]:
        return k.REASON_LIMIT_QTY
    if limits[k.SETTING_ORDER_NOTIONAL_MAX] != 0 and price != 0 and qty * price > limits[k.SETTING_ORDER_NOTIONAL_MAX]:
        return k.REASON_LIMIT_NOTIONAL
    if limits[k.SETTING_COLLAR_TICKS] != 0 and price != 0 and instrument.last_ticks != 0:
        beyond = price - instrument.last_ticks if side == BID else instrument.last_ticks - price
        if beyond > limits[k.SETTING_COLLAR_TICKS]:
            return k.REASON_LIMIT_PRICE
    return 0


@inner
def _exceeds_notional(state: State, participant: int, symbol: int, side: int, qty: int, trigger: int) -> bool:
    """Whether an order without a price is above its account's notional, at the highest of the prices that are known of it."""
    most = state.accounts[participant, k.SETTING_ORDER_NOTIONAL_MAX]
    if most == 0:
        return False
    price = max(state.symbols[symbol].last_ticks, state.best[symbol, 1 - side])
    price = max(price, collar_limit(state, participant, symbol, side), trigger)
    return qty * price > most


@inner
def exceeds_position(state: State, participant: int, symbol: int, side: int, held: int, leaves_lots: int) -> bool:
    """Whether the position could go beyond the account's limit. `held` of the order's lots are open already, `left` will be."""
    most = state.accounts[participant, k.SETTING_POSITION_LOTS_MAX]
    if most == 0:
        return False
    position = state.balances[participant, symbol].position_lots
    required = state.open_lots[participant, symbol, side] - held + leaves_lots
    return (position if side == BID else -position) + required > most


@inner
def check_new(state: State, command: CommandRow) -> int:
    """Why a NEW is rejected before WOULD_CROSS and BOOK_FULL, 0 if it is not."""
    symbol, participant, side = int64(command.symbol), int64(command.participant), int64(command.side)
    if state.halted[symbol]:
        return k.REASON_HALTED
    if state.accounts[participant, k.SETTING_KILLED]:
        return k.REASON_KILLED
    if side > ASK:
        return k.REASON_BAD_SIDE
    if command.time_in_force > k.AT_CLOSE:
        return k.REASON_BAD_TIME_IN_FORCE
    if _has_bad_flags(command):
        return k.REASON_BAD_FLAGS
    if _has_bad_terms(state, command):
        return k.REASON_BAD_TERMS
    if _is_wrong_phase(state, command):
        return k.REASON_WRONG_PHASE
    if not is_valid_qty(state, symbol, command.qty_lots):
        return k.REASON_BAD_QTY
    if command.flags & k.MARKET:
        if command.price_ticks != 0:
            return k.REASON_BAD_PRICE
    elif not is_valid_price(state, symbol, command.price_ticks) and not (
        command.price_ticks == 0 and term_value(state, command, k.TERM_PEG)
    ):
        return k.REASON_BAD_PRICE
    display = term_value(state, command, k.TERM_DISPLAY_LOTS)
    reason = limit_reason(state, participant, symbol, side, command.qty_lots, command.price_ticks, display)
    if reason != 0:
        return reason
    if command.price_ticks == 0:
        trigger = initial_stop_ticks(state, command) | term_value(state, command, k.TERM_TOUCH_TICKS)  # never both
        if _exceeds_notional(state, participant, symbol, side, command.qty_lots, trigger):
            return k.REASON_LIMIT_NOTIONAL
    most = state.accounts[participant, k.SETTING_ORDERS_OPEN_MAX]
    if most != 0 and could_rest(state, command) and state.open_orders[participant] >= most:
        return k.REASON_LIMIT_ORDERS
    if exceeds_position(state, participant, symbol, side, 0, command.qty_lots):
        return k.REASON_LIMIT_POSITION
    waits = term_value(state, command, k.TERM_WAITS) != 0
    if state.accounts[participant, k.SETTING_BALANCE_CHECKS] != 0 and not waits:
        trigger = initial_stop_ticks(state, command) | term_value(state, command, k.TERM_TOUCH_TICKS)  # never both
        link = term_value(state, command, k.TERM_LINK) | term_value(state, command, k.TERM_UPDATE_LINK)
        if new_exceeds_balance(state, command, trigger, link):
            return k.REASON_LIMIT_BALANCE
    if (
        command.flags & k.REDUCE_ONLY
        and not waits
        and command.qty_lots > reducing_lots(state, participant, symbol, side)
    ):
        return k.REASON_REDUCE_ONLY
    return 0


@inner
def is_book_full(state: State, command: CommandRow, queue: int) -> bool:
    """Whether a NEW that would rest in a queue meets BOOK_FULL."""
    if not could_rest(state, command):
        return False
    return state.counters.orders_open >= state.counters.orders_open_max or is_full(state, queue, int64(command.symbol))


@inner
def check_replace(state: State, command: CommandRow, slot: int) -> int:
    """Why a REPLACE is rejected before what depends on its total, 0 if it is not."""
    order = state.orders[slot]
    symbol, participant, side = int64(order.symbol), int64(order.participant), int64(order.side)
    if state.halted[symbol]:
        return k.REASON_HALTED
    if state.accounts[participant, k.SETTING_KILLED]:
        return k.REASON_KILLED
    plain = order.queue == k.DISPLAYED_QUEUE or (order.queue == k.HIDDEN_QUEUE and order.flags & k.HIDE != 0)
    has_terms = command.flags & k.HAS_TERMS != 0
    if not plain and not (has_terms and (order.queue == k.MIN_QTY_QUEUE or order.queue == k.STOP_QUEUE)):
        return k.REASON_NOT_REPLACEABLE
    if has_terms and _has_bad_replacements(state, command, slot):
        return k.REASON_BAD_TERMS
    if phase_of(state, symbol) == k.CLOSED:
        return k.REASON_WRONG_PHASE
    if not is_valid_qty(state, symbol, command.qty_lots):
        return k.REASON_BAD_QTY
    market = order.flags & k.MARKET != 0
    if command.price_ticks != 0 if market else not is_valid_price(state, symbol, command.price_ticks):
        return k.REASON_BAD_PRICE
    open_lots = total_open_lots(state, slot)
    leaves_lots = command.qty_lots - (order.total_lots - open_lots)
    if leaves_lots <= 0:
        return 0
    display = state.extras[slot].display_lots if order.special else 0
    reason = limit_reason(state, participant, symbol, side, command.qty_lots, command.price_ticks, display)
    if reason != 0:
        return reason
    trigger = 0
    if market:
        trigger = replaced_value(state, command, k.TERM_STOP_TICKS, state.extras[slot].stop_ticks) | replaced_value(
            state, command, k.TERM_TOUCH_TICKS, state.extras[slot].touch_ticks
        )
        if _exceeds_notional(state, participant, symbol, side, command.qty_lots, trigger):
            return k.REASON_LIMIT_NOTIONAL
    if exceeds_position(state, participant, symbol, side, open_lots, leaves_lots):
        return k.REASON_LIMIT_POSITION
    if state.accounts[participant, k.SETTING_BALANCE_CHECKS] == 0:
        return 0
    exceeds = replace_exceeds_balance(state, slot, leaves_lots, command.price_ticks, trigger)
    return k.REASON_LIMIT_BALANCE if exceeds else 0
