"""The reference market as rows of integers, and back."""

import numpy as np

from serl.exchange.account import Account
from serl.exchange.records import (
    ACCOUNT_COLUMNS,
    ACCOUNT_SELF_TRADE,
    BALANCES,
    BAND_ACTION,
    BAND_HIGH,
    BAND_LOW,
    CASH,
    CASH_HIGH,
    COST,
    COST_HIGH,
    FEE,
    FEE_COLUMNS,
    FEE_HIGH,
    FEE_MICRO,
    HALT_REASON,
    HAS_FEES,
    HIGH_TICKS,
    LAST_TICKS,
    LOT,
    LOW_TICKS,
    MAKER_FEE,
    MATCHING,
    MICRO,
    NO_TERM,
    ORDER,
    PHASE,
    POSITION,
    SYMBOL_COLUMNS,
    TERM_COLUMNS,
    TICKS,
    WIDE_BALANCES,
    Queue,
    Rows,
)  # fmt: skip
from serl.exchange.snapshot import SPECIAL, Snapshot, participants_used
from tests.exchange.reference.account import Balances
from tests.exchange.reference.book import ASSETS, FEES, Book, Order
from tests.exchange.reference.state import State

COLUMNS = {
    "phase": PHASE, "last_ticks": LAST_TICKS, "high_ticks": HIGH_TICKS, "low_ticks": LOW_TICKS, "lot": LOT,
    "matching": MATCHING, "band_low": BAND_LOW, "band_high": BAND_HIGH, "band_action": BAND_ACTION,
    "halt_reason": HALT_REASON,
}  # fmt: skip
ORDER_NAMES, SPECIAL_NAMES = ORDER.names or (), SPECIAL.names or ()


def order_rows(state: State, symbol: int | None = None) -> Rows:
    """ORDER rows of the displayed orders."""
    books = state.books if symbol is None else [state.books[symbol]]
    found = [order for book in books for side in book.displayed for order in side.orders()]
    return np.array([tuple(getattr(order, name) for name in ORDER_NAMES) for order in found], ORDER)


def special_rows(state: State) -> Rows:
    """SPECIAL rows of all orders of which an ORDER row does not tell everything."""
    found = [order for order in state.resting() if _is_special(order)]
    return np.array([tuple(getattr(order, name) for name in SPECIAL_NAMES) for order in found], SPECIAL)


def _is_special(order: Order) -> bool:
    own_terms = (
        order.display_lots or order.expire_ns or order.link or order.child or order.self_trade != ACCOUNT_SELF_TRADE
    )
    return order.queue != Queue.DISPLAYED or bool(own_terms)


def snapshot(state: State) -> Snapshot:
    """A copy of everything that the market's future depends on."""
    last_command_id, report = np.array(state.last_command_id, np.int64), np.array(state.report, np.int64)
    accounts = np.array(state.accounts, np.int64).reshape(-1, ACCOUNT_COLUMNS)
    deposits = np.zeros((state.limits.participants_max, 2 * len(state.names)), np.int64)
    for (participant, asset), units in state.deposits.items():
        deposits[participant, asset - 1] = units
    terms = np.array([_term_row(state.terms.get(participant, {})) for participant in range(len(report))], np.int64)
    used = participants_used(last_command_id, report, accounts, terms, deposits)
    columns = WIDE_BALANCES if state.has_wide_balances else BALANCES
    balances = np.zeros((state.limits.participants_max, len(state.names), columns), np.int64)
    for account, kept in state.balances.items():
        balances[account] = _balances_row(kept)[:columns]
    return Snapshot(
        orders=order_rows(state),
        specials=special_rows(state),
        counters=np.array([state.event_sequence, state.match_id, state.order_number, state.command_sequence], np.int64),
        last_command_id=last_command_id[:used],
        report=report[:used],
        balances=balances[:used],
        halted=np.array([book.halted for book in state.books], np.uint8),
        symbols=np.array([_symbol_row(book) for book in state.books], np.int64),
        accounts=accounts[:used],
        terms=terms[:used],
        assets=np.array([list(book.assets.values()) for book in state.books], np.int64),
        deposits=deposits[:used],
    )


def _balances_row(kept: Balances) -> list[int]:
    row = [0] * WIDE_BALANCES
    row[POSITION] = kept.position_lots
    fee, row[FEE_MICRO] = divmod(kept.fees_microticks, MICRO)
    amounts = (CASH, CASH_HIGH, kept.cash_ticks), (COST, COST_HIGH, kept.cost_ticks), (FEE, FEE_HIGH, fee)
    for place, high, amount in amounts:
        row[high] = (amount + 2**63) >> 64
        row[place] = amount - (row[high] << 64)
    return row


def _symbol_row(book: Book) -> list[int]:
    row = [0] * SYMBOL_COLUMNS
    for name, column in COLUMNS.items():
        row[column] = getattr(book, name)
    row[HAS_FEES], row[MAKER_FEE : MAKER_FEE + FEE_COLUMNS] = any(book.fees.values()), book.fees.values()
    for place, entry in enumerate(sorted(book.ticks.items())):
        row[TICKS + 2 * place : TICKS + 2 * place + 2] = entry
    return row


def _term_row(terms: dict[int, int]) -> list[int]:
    row = [0] * TERM_COLUMNS
    for term, value in terms.items():
        if term != NO_TERM:
            row[term] = value
        row[NO_TERM] |= 1 << term
    return row


def restore_state(state: State, taken: Snapshot) -> None:
    """Makes a fresh state what it was when the snapshot was taken."""
    orders = {row[0]: Order(*row) for row in taken.orders.tolist()}
    for order in orders.values():
        order.queue, order.queue_ticks = int(Queue.DISPLAYED), order.price_ticks
    for row in taken.specials.tolist():
        values = dict(zip(SPECIAL_NAMES, row, strict=True))
        orders[values["order_number"]] = Order(**values)
    for _, order in sorted(orders.items()):
        state.enqueue(order)
    counters = taken.counters.tolist()
    state.event_sequence, state.match_id, state.order_number, state.command_sequence = counters
    state.has_wide_balances = taken.balances.shape[2] == WIDE_BALANCES
    for name in ("last_command_id", "report", "accounts"):
        rows = getattr(taken, name).tolist()
        getattr(state, name)[: len(rows)] = rows
    for participant, symbol in np.ndindex(taken.balances.shape[:2]):
        state.balances[participant, symbol] = Balances(*Account.from_balances(taken.balances[participant, symbol]))
    for participant, row in enumerate(taken.terms.tolist()):
        state.terms[participant] = {
            term: row[term] if term != NO_TERM else 0 for term in range(TERM_COLUMNS) if row[NO_TERM] >> term & 1
        }
    for participant, place in zip(*(each.tolist() for each in np.nonzero(taken.deposits)), strict=True):
        state.deposits[participant, place + 1] = int(taken.deposits[participant, place])
    for book, row in zip(state.books, taken.assets.tolist(), strict=True):
        book.assets = dict(zip(ASSETS, row, strict=True))
    for book, halted, row in zip(state.books, taken.halted, taken.symbols.tolist(), strict=True):
        book.halted, book.triggers_pending = bool(halted), False
        for name, column in COLUMNS.items():
            setattr(book, name, row[column])
        book.fees = dict(zip(FEES, row[MAKER_FEE:], strict=False))
        entries = zip(row[TICKS::2], row[TICKS + 1 :: 2], strict=True)
        book.ticks = {start: multiple for start, multiple in entries if multiple}
