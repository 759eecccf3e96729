"""A bare array book as a baseline: matching only, without ids, events, accounts or checks."""

import time
from typing import Any

import numpy as np
from numba import njit

from serl.exchange.records import CommandFlag, CommandKind, Rows

NEW, CANCEL = int(CommandKind.NEW), int(CommandKind.CANCEL)
MARKET = int(CommandFlag.MARKET)
PRICES = 1 << 18


@njit(cache=True)
def _play(
    kinds: Any, sides: Any, prices: Any, qtys: Any, targets: Any, markets: Any, first: Any, last: Any, following: Any,
    previous: Any, open_lots: Any, price_of: Any, side_of: Any,
) -> int:  # fmt: skip
    """Order ids are row numbers, queues are linked lists by price, and the best price is found tick by tick."""
    best_bid, best_ask, fills = 0, PRICES - 1, 0
    for row in range(kinds.size):
        if kinds[row] == CANCEL or kinds[row] != NEW:
            order = targets[row]
            if order >= 0 and open_lots[order] > 0:
                price = price_of[order]
                before, after = previous[order], following[order]
                if before >= 0:
                    following[before] = after
                else:
                    first[price] = after
                if after >= 0:
                    previous[after] = before
                else:
                    last[price] = before
                open_lots[order] = 0
            if kinds[row] == CANCEL:
                continue
        left, side = qtys[row], sides[row]
        limit = (PRICES - 2 if side == 0 else 1) if markets[row] else prices[row]
        while left > 0:
            while best_ask < PRICES - 1 and first[best_ask] < 0:
                best_ask += 1
            while best_bid > 0 and first[best_bid] < 0:
                best_bid -= 1
            price = best_ask if side == 0 else best_bid
            if (side == 0 and (price > limit or price == PRICES - 1)) or (side == 1 and (price < limit or price == 0)):
                break
            order = first[price]
            qty = min(left, open_lots[order])
            left -= qty
            open_lots[order] -= qty
            fills += 1
            if open_lots[order] == 0:
                first[price] = following[order]
                if first[price] >= 0:
                    previous[first[price]] = -1
                else:
                    last[price] = -1
        if left > 0 and not markets[row]:
            price = prices[row]
            open_lots[row], price_of[row], side_of[row] = left, price, side
            previous[row], following[row] = last[price], -1
            if last[price] >= 0:
                following[last[price]] = row
            else:
                first[price] = row
            last[price] = row
            if side == 0:
                best_bid = max(best_bid, price)
            else:
                best_ask = min(best_ask, price)
    return fills


def run_bare(stream: Rows) -> float:
    """Seconds for the stream. Targets outside of the stream (in the initial book) are skipped."""
    count = len(stream)
    first_id = int(stream["command_id"][0])
    targets = np.where(stream["order_id"] >= first_id, stream["order_id"] - first_id, -1)
    columns = [np.ascontiguousarray(stream[name]) for name in ("kind", "side", "price_ticks", "qty_lots")]
    markets = (stream["flags"] & MARKET).astype(np.bool_)
    queues = [np.full(PRICES, -1, np.int64) for _ in range(2)]
    orders = [np.zeros(count, np.int64) for _ in range(5)]
    began = time.perf_counter()
    _play(*columns, targets, markets, *queues, *orders)
    return time.perf_counter() - began
