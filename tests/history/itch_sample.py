"""Hand-written ITCH files, and a simple reference reader to compare with."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from serl.history.day import Day
from serl.history.itch.messages import decode, encode
from serl.history.itch.reader import read_itch
from serl.history.source import MemorySink, Options

Fields = dict[str, Any]
Levels = dict[int, int]
"""Lots by price in ticks."""


def add(order: int, side: str, shares: int, price: int, stock: str = "AAA", **more: Any) -> Fields:
    """Message A; price in 1/10000."""
    return {"type": "A", "order": order, "side": side, "shares": shares, "price": price, "stock": stock, **more}


def order_message(kind: str, order: int, shares: int = 0, **more: Any) -> Fields:
    """Message E, C, X or D."""
    return {"type": kind, "order": order, **({"shares": shares} if shares else {}), **more}


def state(letter: str, stock: str = "AAA", **more: Any) -> Fields:
    """Message H."""
    return {"type": "H", "stock": stock, "state": letter, **more}


def file_bytes(messages: Iterable[Fields]) -> bytes:
    """A file of messages; by default one second apart and of locate 1."""
    return b"".join(
        encode({"locate": 1, "time_ns": (34_200 + second) * 10**9, **message})
        for second, message in enumerate(messages)
    )


def imported(folder: Path, *messages: Fields, **options: Any) -> Day:
    """Imports a file with these messages."""
    path = folder / "sample.itch"
    path.write_bytes(file_bytes(messages))
    return import_itch(path, **options)


def import_itch(path: Path, **options: Any) -> Day:
    """Imports a file."""
    sink = MemorySink()
    reference = read_itch(path, sink, Options(**options))
    return Day(*sink.concatenated(), reference)


def read_messages(data: bytes) -> Iterator[Fields]:
    """Yields the messages of a file."""
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 2], "big")
        yield decode(data[at + 2 : at + 2 + length])
        at += 2 + length


def reference_books(messages: Iterable[Fields], units: int = 100) -> Iterator[dict[int, tuple[Levels, Levels]]]:
    """(bids, asks) by locate after each message by the specification, without halts; keeps orders in a dictionary."""
    orders: dict[int, tuple[int, int, int, int]] = {}
    books: dict[int, tuple[Levels, Levels]] = {}

    def change(locate: int, side: int, ticks: int, lots: int) -> None:
        level = books.setdefault(locate, ({}, {}))[side]
        level[ticks] = level.get(ticks, 0) + lots
        if not level[ticks]:
            del level[ticks]

    for message in messages:
        kind = message["type"]
        if kind in "AF":
            side = "BS".index(message["side"])
            orders[message["order"]] = (message["locate"], side, message["price"] // units, message["shares"])
            change(*orders[message["order"]])
        elif kind in "ECXDU":
            locate, side, ticks, lots = orders.pop(message["order"])
            removed = lots if kind in "DU" else message["shares"]
            change(locate, side, ticks, -removed)
            if lots > removed:
                orders[message["order"]] = (locate, side, ticks, lots - removed)
            if kind == "U":
                orders[message["new_order"]] = (locate, side, message["price"] // units, message["shares"])
                change(*orders[message["new_order"]])
        yield books
