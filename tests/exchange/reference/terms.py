"""Which flags and terms of a NEW may be combined: the section Invalid combinations of docs/orders.md."""

from serl.exchange.records import NO_TERM, CommandFlag, Peg, SelfTrade, Side, Term, TimeInForce
from tests.exchange.reference.book import WAITING, Book, Command, Order
from tests.exchange.reference.state import State

POST_ONLY, MARKET, HIDDEN = CommandFlag.POST_ONLY, CommandFlag.MARKET, CommandFlag.HIDDEN
ALL_OR_NONE, REDUCE_ONLY, TERMS = CommandFlag.ALL_OR_NONE, CommandFlag.REDUCE_ONLY, int(CommandFlag.TERMS)
TO_LIMIT = CommandFlag.TO_LIMIT
IOC, FOK, AT_OPEN, AT_CLOSE = TimeInForce.IOC, TimeInForce.FOK, TimeInForce.AT_OPEN, TimeInForce.AT_CLOSE
KNOWN = frozenset(map(int, Term))
"""NO_TERM stands for any term that there is not."""
KNOWN_FLAGS = sum(CommandFlag)

BAD_WITH_FLAG: dict[CommandFlag, tuple[CommandFlag | TimeInForce, ...]] = {
    POST_ONLY: (MARKET, IOC, FOK, AT_OPEN, AT_CLOSE, ALL_OR_NONE),
    HIDDEN: (MARKET, IOC, FOK, AT_OPEN, AT_CLOSE, ALL_OR_NONE),
    ALL_OR_NONE: (MARKET, IOC, FOK, AT_OPEN, AT_CLOSE),
    REDUCE_ONLY: (AT_OPEN, AT_CLOSE),
    TO_LIMIT: (IOC, FOK, AT_OPEN, AT_CLOSE),
}
BAD_WITH_TERM: dict[Term, tuple[CommandFlag | TimeInForce | Term, ...]] = {
    Term.DISPLAY_LOTS: (HIDDEN, ALL_OR_NONE, Term.MIN_LOTS, MARKET, IOC, FOK),
    Term.MIN_LOTS: (ALL_OR_NONE, FOK, MARKET, POST_ONLY, HIDDEN),
    Term.STOP_TICKS: (Term.PEG,),
    Term.TRAIL_TICKS: (Term.PEG,),
    Term.TOUCH_TICKS: (Term.PEG, Term.STOP_TICKS, Term.TRAIL_TICKS),
    Term.UPDATE_LINK: (Term.LINK,),
    Term.WAITS: (Term.PEG, Term.TRAIL_TICKS, Term.CHILD),
    Term.PEG: (MARKET, POST_ONLY, HIDDEN, ALL_OR_NONE, Term.MIN_LOTS, Term.DISPLAY_LOTS, REDUCE_ONLY, IOC, FOK),
}
NOT_AT_AUCTIONS = frozenset(Term) - {Term.SELF_TRADE, Term.LINK, Term.UPDATE_LINK}


def _has(c: Command, terms: dict[int, int], what: CommandFlag | TimeInForce | Term) -> bool:
    if isinstance(what, CommandFlag):
        return bool(c.flags & int(what))
    return what in terms if isinstance(what, Term) else c.time_in_force == what


def flags_are_bad(c: Command) -> bool:
    """Whether a NEW is BAD_FLAGS."""
    if c.flags & ~KNOWN_FLAGS or (c.flags & int(TO_LIMIT) and not c.flags & int(MARKET)):
        return True
    return any(
        c.flags & int(flag) and any(_has(c, {}, what) for what in others) for flag, others in BAD_WITH_FLAG.items()
    )


def terms_are_bad(state: State, c: Command, terms: dict[int, int]) -> bool:
    """Whether a NEW with these terms is BAD_TERMS."""
    if (Term.EXPIRE_NS in terms) != (c.time_in_force == TimeInForce.GTT):
        return True
    if not c.flags & TERMS:
        return False
    if (
        not terms
        or NO_TERM in terms
        or not all(_is_in_range(state, c, Term(term), value) for term, value in terms.items())
    ):
        return True
    if any(term in terms and any(_has(c, terms, what) for what in others) for term, others in BAD_WITH_TERM.items()):
        return True
    if c.time_in_force in (AT_OPEN, AT_CLOSE) and NOT_AT_AUCTIONS & terms.keys():
        return True
    if Term.OFFSET_TICKS in terms and Term.PEG not in terms:
        return True
    if any(term in terms and _waits_otherwise(state, c, terms, terms[term]) for term in (Term.LINK, Term.UPDATE_LINK)):
        return True
    trails_nothing = Term.STOP_TICKS not in terms and not state.books[c.symbol].last_ticks
    return Term.TRAIL_TICKS in terms and trails_nothing


def _waits_otherwise(state: State, c: Command, terms: dict[int, int], order_id: int) -> bool:
    """Whether one of two orders to be linked waits for a parent, and the other does not."""
    return state.open[c.participant, order_id].waits != (WAITING if Term.WAITS in terms else 0)


def _can_be_child(state: State, c: Command, order_id: int) -> bool:
    """Whether an order waits, and neither it nor the one that it is linked with has a parent."""
    child = state.open.get((c.participant, order_id))
    if child is None or child.waits != WAITING or child.parent:
        return False
    return not child.link or not state.open[child.linked_key].parent


def replaced_terms_are_bad(state: State, c: Command, order: Order, terms: dict[int, int]) -> bool:
    """Whether a REPLACE of an order with these terms is BAD_TERMS: it can only change what the order has."""
    has = {
        Term.EXPIRE_NS: order.expire_ns, Term.MIN_LOTS: order.min_lots, Term.STOP_TICKS: order.stop_ticks,
        Term.TRAIL_TICKS: order.trail_ticks, Term.TOUCH_TICKS: order.touch_ticks,
    }  # fmt: skip
    known = {Term(term) for term in terms if term in KNOWN}
    if not terms or len(known) < len(terms) or not all(has.get(term) for term in known):
        return True
    return not all(_is_in_range(state, c._replace(symbol=order.symbol), term, terms[term]) for term in known)


def replace_terms(order: Order, terms: dict[int, int]) -> None:
    """Gives an order the terms of a REPLACE, once its quantity is the new one."""
    order.expire_ns = terms.get(Term.EXPIRE_NS, order.expire_ns)
    order.stop_ticks = terms.get(Term.STOP_TICKS, order.stop_ticks)
    order.trail_ticks = terms.get(Term.TRAIL_TICKS, order.trail_ticks)
    order.touch_ticks = terms.get(Term.TOUCH_TICKS, order.touch_ticks)
    order.min_lots = min(terms.get(Term.MIN_LOTS, order.min_lots), order.leaves_lots)


def _is_in_range(state: State, c: Command, term: Term, value: int) -> bool:
    book, price_max = state.books[c.symbol], state.limits.price_ticks_max
    match term:
        case Term.DISPLAY_LOTS:
            return value >= 1 and value % book.lot == 0
        case Term.MIN_LOTS:
            return 1 <= value <= c.qty_lots and value % book.lot == 0
        case Term.STOP_TICKS | Term.TOUCH_TICKS:
            return 1 <= value <= price_max and book.is_on_tick(value)
        case Term.TRAIL_TICKS:
            return 1 <= value <= price_max
        case Term.PEG:
            return Peg.PRIMARY <= value <= Peg.MID
        case Term.OFFSET_TICKS:
            return 0 <= value <= price_max
        case Term.EXPIRE_NS:
            return value > max(c.time_ns, 0)
        case Term.LINK | Term.UPDATE_LINK:
            other = state.open.get((c.participant, value))
            return other is not None and not other.link
        case Term.WAITS:
            return value == 1
        case Term.CHILD:
            return _can_be_child(state, c, value)
        case Term.SELF_TRADE:
            return SelfTrade.NONE <= value <= SelfTrade.DECREMENT


def initial_stop_ticks(book: Book, c: Command, terms: dict[int, int], price_ticks_max: int) -> int:
    """Where a stop begins; 0: the order is none."""
    if Term.STOP_TICKS in terms:
        return terms[Term.STOP_TICKS]
    if Term.TRAIL_TICKS not in terms:
        return 0
    offset = terms[Term.TRAIL_TICKS] if c.side == Side.BUY else -terms[Term.TRAIL_TICKS]
    return min(max(book.last_ticks + offset, 1), price_ticks_max)
