"""What must hold of every history: written from docs/orders.md and docs/journal.md, without the code that it checks."""

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from serl.exchange.journal.inspect import verify
from serl.exchange.journal.stored import stored_paths, stored_rows
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import EVENT, CommandKind, EventFlag, EventKind, Rows
from tests.exchange.reference.market import ReferenceMarket
from tests.sim.history import SENT_FIELDS, History, require
from tests.sim.trader import Trader

ADDED = (EventKind.RESTED,)
REMOVED = (EventKind.REDUCED, EventKind.REPLACED)


def check_journal(history: History) -> None:
    """Every command was sent, is there once, and time does not go back."""
    rows = history.rows
    require(bool(np.all(np.diff(rows["time_ns"]) >= 0)), "the time of a command is before the one before it")
    named = rows[rows["command_id"] > 0]
    keys = list(zip(named["participant"].tolist(), named["command_id"].tolist(), strict=True))
    require(
        len(set(keys)) == len(keys), f"commands applied twice: {[key for key, n in Counter(keys).items() if n > 1]}"
    )
    fields = list(zip(*(named[field].tolist() for field in SENT_FIELDS), strict=True))
    for (participant, command_id), values in zip(keys, fields, strict=True):
        name = history.names[participant]
        candidates = history.sent.get((name, command_id), [])
        require(values in candidates, f"{name} never sent command {command_id} as {values}, but {candidates}")
    own = rows[(rows["command_id"] == 0)]
    kinds = set(own["kind"].tolist()) - {CommandKind.MASS_CANCEL, CommandKind.RULE}
    require(not kinds, f"the exchange sent commands of kinds {kinds}")


def check_priority(events: Rows) -> None:
    """Every fill is of the order with the best price that came first: a book of its own, of plain orders, from the events."""
    books: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(dict)
    takers: dict[int, tuple[int, ...]] = {}
    columns = ("kind", "flags", "symbol", "side", "order_number", "price_ticks", "qty_lots", "match_id")
    for kind, flags, symbol, side, number, price, qty, match in zip(
        *(events[column].tolist() for column in columns), strict=True
    ):
        book = books[symbol, side]
        if kind in ADDED or (kind == EventKind.ACCEPTED and flags & EventFlag.RESTING):
            book.pop(number, None)
            book[number] = [price, qty]
        elif kind == EventKind.FILL and flags & EventFlag.MAKER:
            sign = -1 if side == 0 else 1
            best = min(sign * level for level, _ in book.values()) * sign
            first = next(key for key, (level, _) in book.items() if level == best)
            require(number == first and price == best, f"match {match} is of order {number}, before {first} at {best}")
            _take(book, number, qty)
            takers[match] = symbol, 1 - side, price, qty
        elif kind == EventKind.FILL:
            require(takers.pop(match, None) == (symbol, side, price, qty), f"the sides of match {match} differ")
        elif kind in REMOVED or (kind == EventKind.CANCELLED and flags & EventFlag.RESTING):
            _take(book, number, qty)
    require(not takers, f"matches {list(takers)} have one side")


def _take(book: dict[int, list[int]], number: int, qty: int) -> None:
    order = book[number]
    order[1] -= qty
    require(order[1] >= 0, f"order {number} lost more than it had")
    if not order[1]:
        del book[number]


def check_balances(market: Market, events: Rows, participants: int, fees: list[tuple[int, int, int, int]]) -> None:
    """Positions, cash and fees follow from the fills, and sum to nothing. fees: of each symbol, of a maker by lot and ppm, then of a taker."""
    fills = events[events["kind"] == EventKind.FILL]
    ledger: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    columns = ("participant", "symbol", "side", "qty_lots", "price_ticks", "flags")
    for participant, symbol, side, qty, price, flags in zip(*(fills[name].tolist() for name in columns), strict=True):
        signed = qty if side == 0 else -qty
        per_lot, ppm = fees[symbol][:2] if flags & EventFlag.MAKER else fees[symbol][2:]
        account = ledger[participant, symbol]
        for at, amount in enumerate((signed, -signed * price, qty * per_lot + qty * price * ppm)):
            account[at] += amount
    for symbol in range(len(fees)):
        total = [0, 0]
        for participant in range(participants):
            balances = market.account(participant, symbol)
            found = [balances.position_lots, balances.cash_ticks, balances.fees_microticks]
            expected = ledger[participant, symbol]
            require(
                found == expected,
                f"participant {participant} has {found} in symbol {symbol}, its fills give {expected}",
            )
            total = [total[0] + found[0], total[1] + found[1]]
        require(total == [0, 0], f"shares and cash of symbol {symbol} sum to {total}")


def check_reference(history: History, symbols: list[str], limits: MarketLimits) -> None:
    """The reference market, in plain Python, makes the same events of the same commands."""
    reference = ReferenceMarket(symbols, limits=limits)
    for participant in history.operators:
        reference.grant_operator(participant)
    events = reference.submit(history.rows)
    require(np.array_equal(events, history.events), "the reference market makes other events of the journal's commands")
    require(reference.state_hash() == history.market.state_hash(), "the reference market ends in another state")


def check_client(trader: Trader, history: History, market: Market, is_strict: bool) -> None:
    """At rest, a client has every report, its position, and the exchange's books. is_strict: every command must be answered."""
    number, session, name = history.names.index(trader.name), trader.session, trader.name
    reported = int(market.state.report[number])
    require(session.last_report == reported, f"{name} has report {session.last_report} of {reported}")
    missing = sorted(session.without_answer) if is_strict else []
    require(not missing, f"{name} never got an answer to {missing[:9]}")
    for symbol, book in enumerate(trader.books()):
        position, own = market.account(number, symbol).position_lots, session.positions.get(symbol, 0)
        require(not trader.is_complete or own == position, f"{name} believes in a position of {own}, has {position}")
        for side, rows in enumerate(market.book(symbol)):
            levels, expected = [tuple(level) for level in book.levels(side)], [tuple(row) for row in rows.tolist()]
            require(levels == expected, f"the book of {name} in symbol {symbol} is {levels}, the exchange's {expected}")


def check_folder(history: History, folder: Path, known: set[str], is_repaired: bool) -> None:
    """After a clean stop nothing in the folder is damaged besides the `known` files, and each event is in it once. A repair may have left out
    the first events."""
    damaged = [
        f"{each.name}: {each.damage}" for each in verify(folder) if each.damage and Path(each.name).stem not in known
    ]
    require(not damaged, f"damaged after a clean stop: {damaged}")
    parts = [np.asarray(stored_rows(each, EVENT)[:]) for each in stored_paths(folder, "events")]
    stored = np.concatenate(parts) if parts else np.zeros(0, EVENT)
    expected = history.events[-len(stored) or len(history.events) :] if is_repaired else history.events
    require(len(stored) == len(expected), f"{len(stored)} events are stored of {len(history.events)}")
    require(np.array_equal(stored, expected), "the stored events are not those of the commands")
