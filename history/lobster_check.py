"""What rows of LOBSTER files must look like, and which row is the first that does not."""

import re

import numpy as np
from numpy.typing import NDArray

from serl.history.errors import LobsterError

TIME = re.compile(r"\d{1,6}(\.\d{1,12})?")
INTEGER = re.compile(r"-?\d{1,18}")
DAY_NS = 86_400 * 1_000_000_000
COLUMNS = ("time", "type", "order id", "size", "price", "direction")


def explain(name: str, data: bytes, columns: int, messages: bool) -> str:
    """The first row that is not `columns` numbers, in words; '' if there is none."""
    for row, line in enumerate(data.decode("latin-1").splitlines(), 1):
        cells = line.split(",")
        if len(cells) != columns:
            return f"{name}: row {row}: {columns} columns are due, got {len(cells)}: {line[:80]!r}"
        for index, cell in enumerate(cells):
            time = messages and index == 0
            if not (TIME if time else INTEGER).fullmatch(cell.strip()):
                what = COLUMNS[index] if messages else f"column {index + 1}"
                due = "seconds with up to 12 decimals" if time else "an integer"
                return f"{name}: row {row}: {what}: {due} is due, got {cell[:40]!r}"
    return ""


def _refuse(name: str, bad: NDArray[np.bool_], due: str, came: NDArray[np.int64]) -> None:
    """LobsterError for the first bad row, if there is one."""
    if bad.any():
        row = int(np.argmax(bad))
        raise LobsterError(f"{name}: row {row + 1}: {due} is due, got {came[row]}")


def check_messages(name: str, time_ns: NDArray[np.int64], messages: NDArray[np.int64], tick_units: int) -> None:
    """LobsterError if a message cannot be; messages as in Lobster.messages."""
    kind, _, size, price, direction = messages.T
    _refuse(name, (time_ns < 0) | (time_ns >= DAY_NS), "time: 0 to 86400 s (in ns)", time_ns)
    backwards = np.zeros(len(time_ns), bool)
    backwards[1:] = np.diff(time_ns) < 0
    _refuse(name, backwards, "time: not before that of the row above (in ns)", time_ns)
    _refuse(name, (kind < 1) | (kind > 7), "type: 1 to 7", kind)
    halt, visible = kind == 7, kind <= 4
    _refuse(name, (kind <= 5) & (size <= 0), "size: above 0", size)
    _refuse(name, (size < 0) | (size > 1_000_000_000), "size: 0 to 1000000000", size)
    _refuse(name, halt & ((price < -1) | (price > 1)), "price of a halt: -1, 0 or 1", price)
    _refuse(name, ~halt & (price <= 0) & (size > 0), "price: above 0", price)
    _refuse(name, visible & (price % tick_units != 0), f"price: a multiple of the tick ({tick_units})", price)
    _refuse(name, ~halt & (np.abs(direction) != 1), "direction: 1 or -1", direction)


def check_book(name: str, book: NDArray[np.int64], tick_units: int, empty_price: int) -> None:
    """LobsterError if a row of the order book cannot be; book as in Lobster.book."""
    for column in range(0, book.shape[1], 2):
        sign = 1 if column % 4 == 0 else -1
        what = f"{'ask' if sign == 1 else 'bid'} {column // 4 + 1}"
        price, size = book[:, column], book[:, column + 1]
        empty = price == sign * empty_price
        _refuse(name, empty & (size != 0), f"{what} size: 0 (there is no such level)", size)
        _refuse(name, ~empty & (size <= 0), f"{what} size: above 0", size)
        _refuse(name, ~empty & (price <= 0), f"{what} price: above 0, or {sign * empty_price} for no level", price)
        _refuse(name, ~empty & (price % tick_units != 0), f"{what} price: a multiple of the tick ({tick_units})", price)
        if column >= 4:
            order = sign * (price - book[:, column - 4])
            _refuse(name, ~empty & (order <= 0), f"{what} price: worse than the level before it", price)
