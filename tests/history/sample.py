"""Hand-written LOBSTER samples."""

from collections.abc import Sequence
from pathlib import Path

from serl.exchange.records import CommandKind
from serl.history.day import Day
from serl.history.lobster import Lobster, read_lobster
from serl.history.lobster_day import book_view, lobster_day
from serl.history.verify import VerifyResult, verify

Message = tuple[int, int, int, int, int]
"""type, order id, size, price in ticks, direction."""
Book = tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]]
"""(asks, bids) of (price in ticks, size), best first."""

MESSAGES, BOOKS = "TEST_2020-01-02_34200000_57600000_message_2.csv", "TEST_2020-01-02_34200000_57600000_orderbook_2.csv"
LEVELS = 2


def message_line(index: int, message: Message) -> str:
    kind, order, size, ticks, direction = message
    price = ticks if kind == 7 else ticks * 100
    return f"{34200 + index}.5,{kind},{order},{size},{price},{direction}"


def book_line(book: Book) -> str:
    cells = []
    for level in range(LEVELS):
        for side, empty in zip(book, ("9999999999", "-9999999999"), strict=True):
            cells += [str(side[level][0] * 100), str(side[level][1])] if level < len(side) else [empty, "0"]
    return ",".join(cells)


def write_sample(folder: Path, rows: Sequence[tuple[Message, Book]]) -> Path:
    """Writes both files, row i at 09:30:00.5 + i s; returns the message file."""
    (folder / MESSAGES).write_text("".join(message_line(i, message) + "\n" for i, (message, _) in enumerate(rows)))
    (folder / BOOKS).write_text("".join(book_line(book) + "\n" for _, book in rows))
    return folder / MESSAGES


def imported(folder: Path, *rows: tuple[Message, Book]) -> tuple[Day, VerifyResult]:
    """Imports and verifies a sample."""
    source: Lobster = read_lobster(write_sample(folder, rows))
    day = lobster_day(source)
    return day, verify(day, *book_view(source))


def commands_of_row(day: Day, row: int) -> list[tuple[str, int, int, int, int]]:
    """The commands of a source row: (kind, order_id, side, qty_lots, price_ticks)."""
    return [
        (
            CommandKind(int(c["kind"])).name,
            int(c["order_id"]),
            int(c["side"]),
            int(c["qty_lots"]),
            int(c["price_ticks"]),
        )
        for c in day.commands[day.rows == row]
    ]
