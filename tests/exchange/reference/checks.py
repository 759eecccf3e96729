"""The checks of a command, in the order of docs/orders.md; what all kinds have in common comes first."""

import dataclasses

from serl.exchange.records import (
    ALL_SYMBOLS,
    COLLECTING,
    FEE_LOTS_MAX,
    FEE_PPM_MAX,
    TICK_ENTRIES_MAX,
    CommandFlag,
    CommandKind,
    HaltReason,
    Phase,
    Queue,
    Reason,
    Rule,
    SelfTrade,
    Setting,
    Side,
    Term,
    TimeInForce,
)  # fmt: skip
from tests.exchange.reference.book import ASSETS, FEES, MARKET, TO_LIMIT, Book, Command, Order
from tests.exchange.reference.funds import check_deposit, is_asset_rule, new_exceeds_balance, replace_exceeds_balance
from tests.exchange.reference.match import would_trade
from tests.exchange.reference.state import State
from tests.exchange.reference.terms import (
    TERMS,
    flags_are_bad,
    initial_stop_ticks,
    replace_terms,
    replaced_terms_are_bad,
    terms_are_bad,
)

KINDS = frozenset(map(int, CommandKind))
OPERATOR_KINDS = frozenset(int(kind) for kind in CommandKind if kind >= CommandKind.END_DAY)
SYMBOL_KINDS = frozenset(
    {
        CommandKind.NEW, CommandKind.HALT, CommandKind.RESUME, CommandKind.PRINT,
        CommandKind.PHASE, CommandKind.UNCROSS, CommandKind.RULE,
    }
)  # fmt: skip
CANCELLING = frozenset({CommandKind.MASS_CANCEL, CommandKind.PURGE})
POST_ONLY, REDUCE_ONLY = int(CommandFlag.POST_ONLY), int(CommandFlag.REDUCE_ONLY)
SETTING_MAX = {
    Setting.SELF_TRADE: int(max(SelfTrade)), Setting.KILLED: 1, Setting.OWN_FEES: 1, Setting.BALANCE_CHECKS: 1, Setting.SHORT_SALES: 1,
}  # fmt: skip
"""Of the settings that are not just 0 or more, nor fees."""


def check_any(state: State, c: Command) -> Reason:
    """UNKNOWN_KIND, NOT_PERMITTED, UNKNOWN_SYMBOL."""
    if c.kind not in KINDS:
        return Reason.UNKNOWN_KIND
    own_setting = c.kind == CommandKind.ACCOUNT and c.order_id == c.participant and c.flags == Setting.SELF_TRADE
    if c.kind in OPERATOR_KINDS and c.participant not in state.operators and not own_setting:
        return Reason.NOT_PERMITTED
    named = c.kind in SYMBOL_KINDS or (c.kind in CANCELLING and c.symbol != ALL_SYMBOLS)
    return Reason.UNKNOWN_SYMBOL if named and c.symbol >= len(state.books) else Reason.NONE


def check_new(state: State, c: Command, terms: dict[int, int]) -> tuple[Reason, Order | None]:
    """(NONE, the order that a NEW asks for) or (why it is rejected, None)."""
    book = state.books[c.symbol]
    reason = Reason.NONE
    if book.halted:
        reason = Reason.HALTED
    elif state.accounts[c.participant][Setting.KILLED]:
        reason = Reason.KILLED
    elif c.side not in (Side.BUY, Side.SELL):
        reason = Reason.BAD_SIDE
    elif c.time_in_force > TimeInForce.AT_CLOSE:
        reason = Reason.BAD_TIME_IN_FORCE
    elif c.flags and flags_are_bad(c):
        reason = Reason.BAD_FLAGS
    elif (terms or c.flags or c.time_in_force == TimeInForce.GTT) and terms_are_bad(state, c, terms):
        reason = Reason.BAD_TERMS
    elif (book.phase != Phase.CONTINUOUS and not _is_allowed_in_phase(c, book.phase)) or (
        book.phase not in (Phase.PRE_OPEN, Phase.OPENING) and c.time_in_force == TimeInForce.AT_OPEN
    ):
        reason = Reason.WRONG_PHASE
    elif not _is_valid_qty(state, book, c.qty_lots):
        reason = Reason.BAD_QTY
    elif not _is_valid_price_of_new(state, book, c, terms):
        reason = Reason.BAD_PRICE
    if reason != Reason.NONE:
        return reason, None
    order = _order(state, book, c, terms)
    reason = _check_limits(state, book, c, order, c.qty_lots)
    if not reason and new_exceeds_balance(state, order):
        reason = Reason.LIMIT_BALANCE
    reason = reason or _check_room(state, book, c, order)
    return (reason, None) if reason else (Reason.NONE, order)


def _is_allowed_in_phase(c: Command, phase: int) -> bool:
    if phase == Phase.CLOSED or c.time_in_force in (TimeInForce.IOC, TimeInForce.FOK):
        return False
    return not c.flags & (POST_ONLY | REDUCE_ONLY | TO_LIMIT)


def _is_valid_qty(state: State, book: Book, qty_lots: int) -> bool:
    return 1 <= qty_lots <= state.limits.qty_lots_max and qty_lots % book.lot == 0


def _is_valid_price(state: State, book: Book, price_ticks: int) -> bool:
    return 1 <= price_ticks <= state.limits.price_ticks_max and (not book.ticks or book.is_on_tick(price_ticks))


def _is_valid_price_of_new(state: State, book: Book, c: Command, terms: dict[int, int]) -> bool:
    if c.flags & MARKET:
        return c.price_ticks == 0
    return (Term.PEG in terms and c.price_ticks == 0) or _is_valid_price(state, book, c.price_ticks)


def _order(state: State, book: Book, c: Command, terms: dict[int, int]) -> Order:
    order = Order(
        0, c.command_id, c.price_ticks, c.qty_lots, c.qty_lots, c.symbol, c.participant, c.side, c.time_in_force, c.flags,
    )  # fmt: skip
    if terms:
        order.display_lots = terms.get(Term.DISPLAY_LOTS, 0)
        order.min_lots = terms.get(Term.MIN_LOTS, 0)
        order.touch_ticks = terms.get(Term.TOUCH_TICKS, 0)
        order.stop_ticks = initial_stop_ticks(book, c, terms, state.limits.price_ticks_max)
        order.trail_ticks = terms.get(Term.TRAIL_TICKS, 0)
        order.peg = terms.get(Term.PEG, 0)
        order.offset_ticks = terms.get(Term.OFFSET_TICKS, 0)
        order.expire_ns = terms.get(Term.EXPIRE_NS, 0)
        order.link = terms.get(Term.UPDATE_LINK, terms.get(Term.LINK, 0))
        order.updates = int(Term.UPDATE_LINK in terms)
        order.self_trade = terms.get(Term.SELF_TRADE, order.self_trade)
        order.waits = terms.get(Term.WAITS, 0)
        order.child = terms.get(Term.CHILD, 0)
    return order


def _check_limits(state: State, book: Book, c: Command, order: Order, open_lots: int) -> Reason:
    """Of a NEW or a REPLACE: band, display and account; `open_lots`: what it would have open, at most."""
    price, account = c.price_ticks, state.accounts[order.participant]
    if price and not book.band_action and book.is_outside(price):
        return Reason.OUTSIDE_BAND
    if 0 < order.display_lots * state.limits.display_divisor_max < c.qty_lots:
        return Reason.LIMIT_DISPLAY
    if not any(account):
        return Reason.NONE
    if 0 < account[Setting.ORDER_LOTS_MAX] < c.qty_lots:
        return Reason.LIMIT_QTY
    if 0 < account[Setting.ORDER_NOTIONAL_MAX] < c.qty_lots * (price or _notional_ticks(state, order)):
        return Reason.LIMIT_NOTIONAL
    collar, last = account[Setting.COLLAR_TICKS], book.last_ticks
    if price and collar and last and (price - last if order.side == Side.BUY else last - price) > collar:
        return Reason.LIMIT_PRICE
    if not account[Setting.ORDERS_OPEN_MAX] and not account[Setting.POSITION_LOTS_MAX]:
        return Reason.NONE  # and no look at all orders
    own = [other for other in state.open.values() if other.participant == order.participant]
    new = c.kind == CommandKind.NEW
    if new and _could_rest(book, order) and 0 < account[Setting.ORDERS_OPEN_MAX] <= len(own):
        return Reason.LIMIT_ORDERS
    alike = [
        other for other in own if other.key != order.key and (other.symbol, other.side) == (order.symbol, order.side)
    ]
    held = state.balances[order.participant, order.symbol].position_lots
    position = held if order.side == Side.BUY else -held
    reached = position + sum(other.leaves_lots for other in alike) + open_lots
    return Reason.LIMIT_POSITION if 0 < account[Setting.POSITION_LOTS_MAX] < reached else Reason.NONE


def _notional_ticks(state: State, order: Order) -> int:
    """The price at which an order without one counts; 0 where no price is known."""
    opposite = state.books[order.symbol].displayed[1 - order.side].ranks
    best = abs(opposite[0]) if opposite else 0
    return max(state.books[order.symbol].last_ticks, best, state.collar_limit(order), order.trigger_ticks)


def _could_rest(book: Book, order: Order) -> bool:
    if order.trigger_ticks or order.waits:
        return True
    if order.time_in_force in (TimeInForce.IOC, TimeInForce.FOK):
        return False
    if order.flags & TO_LIMIT:
        return True
    return not order.flags & MARKET or book.phase != Phase.CONTINUOUS or order.time_in_force == TimeInForce.AT_CLOSE


def _check_room(state: State, book: Book, c: Command, order: Order) -> Reason:
    """Of a NEW: REDUCE_ONLY, WOULD_CROSS, BOOK_FULL."""
    if order.flags & REDUCE_ONLY and not order.waits and not state.reduces(order):
        return Reason.REDUCE_ONLY
    if (
        order.flags & POST_ONLY
        and not order.trigger_ticks
        and not order.waits
        and would_trade(state, order, order.price_ticks)
    ):
        return Reason.WOULD_CROSS
    if _could_rest(book, order):
        queue = state.target_queue(order)[0]
        if len(state.open) >= state.limits.orders_open_max or state.is_full(c.symbol, queue):
            return Reason.BOOK_FULL
    return Reason.NONE


def check_replace(state: State, c: Command, order: Order, terms: dict[int, int]) -> Reason:
    """From HALTED on."""
    book = state.books[order.symbol]
    if book.halted:
        return Reason.HALTED
    if state.accounts[c.participant][Setting.KILLED]:
        return Reason.KILLED
    if not _is_replaceable(c, order):
        return Reason.NOT_REPLACEABLE
    if c.flags & TERMS and replaced_terms_are_bad(state, c, order, terms):
        return Reason.BAD_TERMS
    if book.phase == Phase.CLOSED:
        return Reason.WRONG_PHASE
    if not _is_valid_qty(state, book, c.qty_lots):
        return Reason.BAD_QTY
    if c.price_ticks if order.flags & MARKET else not _is_valid_price(state, book, c.price_ticks):
        return Reason.BAD_PRICE
    open_lots = c.qty_lots - order.filled_lots
    if open_lots <= 0:
        return Reason.NONE
    changed = dataclasses.replace(order)
    replace_terms(changed, terms)
    if reason := _check_limits(state, book, c, changed, open_lots):
        return reason
    changed.price_ticks = c.price_ticks
    if replace_exceeds_balance(state, order, changed, open_lots):
        return Reason.LIMIT_BALANCE
    if not loses_priority(c, order, terms):
        return Reason.NONE
    if order.flags & POST_ONLY and order.queue != Queue.STOP and book.phase == Phase.CONTINUOUS:
        moved = Order(0, 0, c.price_ticks, open_lots, 0, order.symbol, order.participant, order.side, 0, 0)
        moved.self_trade, moved.link = order.self_trade, order.link
        if would_trade(state, moved, c.price_ticks):
            return Reason.WOULD_CROSS
    return Reason.BOOK_FULL if state.is_full(order.symbol, order.queue) else Reason.NONE


def _is_replaceable(c: Command, order: Order) -> bool:
    if order.queue in (Queue.STOP, Queue.MIN_QTY):
        return bool(c.flags & TERMS)
    return order.queue in (Queue.DISPLAYED, Queue.HIDDEN) and not order.peg and not order.flags & MARKET


def loses_priority(replace: Command, order: Order, terms: dict[int, int]) -> bool:
    """Whether a REPLACE to more than what is filled takes the order out and brings it to the market again."""
    if replace.price_ticks != order.price_ticks or replace.qty_lots > order.total_lots:
        return True
    current = {
        Term.STOP_TICKS: order.stop_ticks, Term.TRAIL_TICKS: order.trail_ticks, Term.TOUCH_TICKS: order.touch_ticks,
        Term.MIN_LOTS: order.min_lots,
    }  # fmt: skip
    return any(terms.get(term, value) != value for term, value in current.items())


def check_change(state: State, c: Command, terms: dict[int, int]) -> Reason:
    """Of CANCEL, REDUCE and REPLACE."""
    order = state.open.get((c.participant, c.order_id))
    if order is None:
        return Reason.UNKNOWN_ORDER
    if c.kind == CommandKind.REPLACE:
        return check_replace(state, c, order, terms)
    if c.kind == CommandKind.REDUCE and not _is_valid_qty(state, state.books[order.symbol], c.qty_lots):
        return Reason.BAD_QTY
    return Reason.NONE


def check_operation(state: State, c: Command) -> Reason:
    """Of all other kinds."""
    match c.kind:
        case CommandKind.MASS_CANCEL | CommandKind.PURGE if c.flags > 2:
            return Reason.BAD_FLAGS
        case CommandKind.HALT if c.flags > max(HaltReason):
            return Reason.BAD_FLAGS
        case CommandKind.PHASE if c.flags > Phase.CLOSED:
            return Reason.BAD_FLAGS
        case CommandKind.PHASE if state.books[c.symbol].halted and state.books[c.symbol].ends_collecting(c.flags):
            return Reason.HALTED
        case CommandKind.UNCROSS if state.books[c.symbol].halted:
            return Reason.HALTED
        case CommandKind.UNCROSS if state.books[c.symbol].phase not in COLLECTING:
            return Reason.WRONG_PHASE
        case CommandKind.PRINT:
            return _check_print(state, c)
        case CommandKind.PURGE if not 0 <= c.order_id < state.limits.participants_max:
            return Reason.BAD_SETTING
        case CommandKind.DEPOSIT:
            return check_deposit(state, c)
        case CommandKind.ACCOUNT if not _is_setting(state, c):
            return Reason.BAD_SETTING
        case CommandKind.RULE if not _is_rule(state, c):
            return Reason.BAD_SETTING
    return Reason.NONE


def _check_print(state: State, c: Command) -> Reason:
    if c.side not in (Side.BUY, Side.SELL):
        return Reason.BAD_SIDE
    if not 1 <= c.qty_lots <= state.limits.qty_lots_max:
        return Reason.BAD_QTY
    return Reason.NONE if 1 <= c.price_ticks <= state.limits.price_ticks_max else Reason.BAD_PRICE


def _is_setting(state: State, c: Command) -> bool:
    if not 0 <= c.order_id < state.limits.participants_max or c.flags >= len(Setting):
        return False
    setting = Setting(c.flags)
    if Setting.OWN_FEES < setting < Setting.BALANCE_CHECKS:
        return _is_fee(state, Rule[setting.name], c.price_ticks)
    return 0 <= c.price_ticks <= SETTING_MAX.get(setting, c.price_ticks)


def _is_fee(state: State, fee: Rule, value: int) -> bool:
    of_notional = fee in (Rule.MAKER_PPM, Rule.TAKER_PPM, Rule.AUCTION_PPM)
    return abs(value) <= (FEE_PPM_MAX if of_notional else FEE_LOTS_MAX // state.limits.qty_lots_max)


def _is_rule(state: State, c: Command) -> bool:
    prices, ticks = range(state.limits.price_ticks_max + 1), state.books[c.symbol].ticks
    match c.flags:
        case Rule.LOT:
            return 1 <= c.price_ticks <= state.limits.qty_lots_max
        case Rule.TICK:
            room = c.order_id in ticks or len(ticks) < TICK_ENTRIES_MAX or not c.price_ticks
            return c.price_ticks in prices and c.order_id in prices and room
        case Rule.BAND_LOW | Rule.BAND_HIGH:
            return c.price_ticks in prices
        case Rule.MATCHING | Rule.BAND_ACTION:
            return c.price_ticks in (0, 1)
        case fee if fee in FEES:
            return _is_fee(state, Rule(fee), c.price_ticks)
        case asset if asset in ASSETS:
            return is_asset_rule(state, c)
    return False
