"""Checks the rows of LOBSTER files and reports the first invalid one."""

import re

import numpy as np
from numpy.typing import NDArray

from serl.history.errors import LobsterError

TIME = re.compile(r"\d{1,6}(\.\d{1,12})?")
INTEGER = re.compile(r"-?\d{1,18}")
DAY_NS = 86_400 * 1_000_000_000
SIZE_MAX = 1_000_000_000
COLUMNS = ("time", "type", "order id", "size", "price", "direction")


def describe_malformed_row(name: str, data: bytes, columns: int, messages: bool) -> str:
    """Describes the first row that is not `columns` numbers; '' if there is none."""
    for row, line in enumerate(data.decode("latin-1").splitlines(), 1):
        cells = line.split(",")
        if len(cells) != columns:
            return f"{name}: row {row}: expected {columns} columns, got {len(cells)}: {line[:80]!r}"
        for index, cell in enumerate(cells[: len(COLUMNS)] if messages else cells):
            time = messages and index == 0
            if not (TIME if time else INTEGER).fullmatch(cell.strip()):
                column = COLUMNS[index] if messages else f"column {index + 1}"
                expected = "seconds with up to 12 decimals" if time else "an integer"
                return f"{name}: row {row}: {column}: expected {expected}, got {cell[:40]!r}"
    return ""


def _check(file: str, column: str, invalid: NDArray[np.bool_], expected: str, values: NDArray[np.int64]) -> None:
    """Raises `LobsterError` for the first invalid row, if there is one."""
    if invalid.any():
        row = int(np.argmax(invalid))
        raise LobsterError(f"{file}: row {row + 1}: {column}: expected {expected}, got {values[row]}")


def check_messages(name: str, time_ns: NDArray[np.int64], messages: NDArray[np.int64], tick_units: int) -> None:
    """Raises `LobsterError` for an invalid message; messages as in `Lobster.messages`."""
    kind, _, size, price, direction = messages.T
    _check(name, "time", (time_ns < 0) | (time_ns >= DAY_NS), "0 to 86400 s (in ns)", time_ns)
    backwards = np.zeros(len(time_ns), bool)
    backwards[1:] = np.diff(time_ns) < 0
    _check(name, "time", backwards, "a time not before the row above (in ns)", time_ns)
    _check(name, "type", (kind < 1) | (kind > 7), "1 to 7", kind)
    halt, visible = kind == 7, kind <= 4
    _check(name, "size", (kind <= 5) & (size <= 0), "a number above 0", size)
    _check(name, "size", (size < 0) | (size > SIZE_MAX), f"0 to {SIZE_MAX}", size)
    _check(name, "price of a halt", halt & ((price < -1) | (price > 1)), "-1, 0 or 1", price)
    _check(name, "price", ~halt & (price <= 0) & (size > 0), "a number above 0", price)
    _check(name, "price", visible & (price % tick_units != 0), f"a multiple of the tick ({tick_units})", price)
    _check(name, "direction", ~halt & (np.abs(direction) != 1), "1 or -1", direction)


def check_book(name: str, book: NDArray[np.int64], tick_units: int, empty_price: int) -> None:
    """Raises `LobsterError` for an invalid row of the order book; book as in `Lobster.book`."""
    for column in range(0, book.shape[1], 2):
        sign = 1 if column % 4 == 0 else -1
        level = f"{'ask' if sign == 1 else 'bid'} {column // 4 + 1}"
        price, size = book[:, column], book[:, column + 1]
        empty = price == sign * empty_price
        _check(name, f"{level} size", empty & (size != 0), "0, as there is no such level", size)
        _check(name, f"{level} size", ~empty & (size <= 0), "a number above 0", size)
        _check(
            name,
            f"{level} price",
            ~empty & (price <= 0),
            f"a number above 0, or {sign * empty_price} for no level",
            price,
        )
        _check(
            name, f"{level} price", ~empty & (price % tick_units != 0), f"a multiple of the tick ({tick_units})", price
        )
        if column >= 4:
            order = sign * (price - book[:, column - 4])
            _check(name, f"{level} price", ~empty & (order <= 0), "a price worse than the level before", price)
