"""The order book as a library, from Python: `serl.Market`, one method call an order, and arrays of rows through `submit`.

The stream is the kernel benchmark's: 45 % add, 40 % cancel, 10 % marketable, 5 % replace. For comparison, the same loop runs in turns with bourse,
whose book is in Rust (extra `bench`). Medians of seven rounds.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bourse.core import OrderBook

from benchmarks.stream import KINDS, classify, make
from serl import Market
from serl.exchange.records import Rows

MESSAGES, RESTING, ROUNDS, SEED = 200_000, 1_000, 7, 1
BATCHES = (1, 16, 256, 4096)
ADD, CANCEL, MARKETABLE, REPLACE = range(len(KINDS))

Message = tuple[int, bool, int, int, int, int]
"""(place in KINDS, buys, qty_lots, price_ticks, own number, number of the order meant)."""


def _messages(rows: Rows) -> list[Message]:
    names = ("side", "qty_lots", "price_ticks", "command_id", "order_id")
    columns = [rows[name].tolist() for name in names]
    return [
        (kind, side == 0, *rest) for kind, side, *rest in zip(classify(rows).tolist(), *columns, strict=True)
    ]  # fmt: skip


def _play_serl(market: Market, messages: list[Message], ids: list[int]) -> float:
    """Seconds of the messages, one call each; `ids`: order_id by number."""
    began = time.perf_counter()
    for kind, buys, qty, price, number, meant in messages:
        if kind == ADD:
            ids[number] = market.buy(qty, price) if buys else market.sell(qty, price)
        elif kind == CANCEL:
            market.cancel(ids[meant])
        elif kind == MARKETABLE:
            ids[number] = market.buy(qty) if buys else market.sell(qty)
        else:
            market.replace(ids[meant], qty, price)
    return time.perf_counter() - began


def _play_bourse(book: Any, messages: list[Message], ids: list[int]) -> float:
    """The same of a bourse.core.OrderBook."""
    began = time.perf_counter()
    for kind, buys, qty, price, number, meant in messages:
        if kind == ADD:
            ids[number] = book.place_order(buys, qty, 0, price)
        elif kind == CANCEL:
            book.cancel_order(ids[meant])
        elif kind == MARKETABLE:
            ids[number] = book.place_order(buys, qty, 0)
        else:
            book.modify_order(ids[meant], price, qty)
    return time.perf_counter() - began


def _singles(play: Callable[[Any, list[Message], list[int]], float], new: Callable[[], Any]) -> Callable[[], float]:
    """A round: the book is built and then played in; seconds of the latter."""
    build, stream = (_messages(rows) for rows in make(MESSAGES, RESTING, SEED))

    def once() -> float:
        book, ids = new(), [0] * (RESTING + MESSAGES + 1)
        play(book, build, ids)
        return play(book, stream, ids)

    return once


def _arrays(batch: int) -> float:
    """Seconds of the stream in arrays of `batch` rows."""
    build, stream = make(MESSAGES, RESTING, SEED)
    parts = [stream[start : start + batch] for start in range(0, MESSAGES, batch)]
    market = Market(1)
    market.submit(build)
    began = time.perf_counter()
    for part in parts:
        market.submit(part)
    return time.perf_counter() - began


def run() -> dict[str, Any]:
    """All figures; the books in turns, medians over the rounds."""
    books = {"serl": _singles(_play_serl, Market), "bourse": _singles(_play_bourse, lambda: OrderBook(0, 1, True))}
    _play_serl(Market(), [(ADD, True, 1, 1, 0, 0)], [0])  # compiles
    seconds: dict[str, list[float]] = {name: [] for name in books}
    for _ in range(ROUNDS):
        for name, play in books.items():
            seconds[name].append(play())
    rates = {name: MESSAGES / float(np.median(took)) for name, took in seconds.items()}
    arrays = {str(batch): MESSAGES / float(np.median([_arrays(batch) for _ in range(ROUNDS)])) for batch in BATCHES}
    return {
        "calls_per_s": rates["serl"], "bourse_calls_per_s": rates["bourse"],
        "ratio_to_bourse": rates["serl"] / rates["bourse"], "rows_per_s_by_array": arrays,
    }  # fmt: skip
