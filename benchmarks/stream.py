"""The synthetic order stream of the kernel benchmark: 45 % add, 40 % cancel, 10 % marketable, 5 % replace."""

from typing import Any

import numpy as np
from numba import njit

from serl.exchange.records import COMMAND, CommandFlag, CommandKind, Rows, Side, TimeInForce

NEW, CANCEL, REPLACE = int(CommandKind.NEW), int(CommandKind.CANCEL), int(CommandKind.REPLACE)
GTC, IOC = int(TimeInForce.GTC), int(TimeInForce.IOC)
MARKET = int(CommandFlag.MARKET)
KINDS = ("add", "cancel", "marketable", "replace")
SPREAD_TICKS = 200
"""Largest distance of adds from the moving mid."""


@njit(cache=True)
def _fill(
    rows: Any,
    kind: Any,
    depth: Any,
    side: Any,
    qty: Any,
    step: Any,
    pick: Any,
    live: Any,
    live_count: int,
    first_id: int,
) -> int:
    """Fill in the rows. Cancels target earlier orders; some are filled by then, so those cancels are rejected, as in real markets."""
    mid = 100_000
    for index in range(rows.size):
        row = rows[index]
        mid = max(10_000, mid + step[index])
        row.command_id = first_id + index
        row.side = side[index]
        row.qty_lots = qty[index]
        row.time_in_force = GTC
        away = 1 + depth[index]
        price = mid - away if side[index] == 0 else mid + away
        if kind[index] == 0 or live_count == 0:
            row.kind = NEW
            row.price_ticks = price
            live[live_count] = row.command_id
            live_count += 1
        elif kind[index] == 2:
            row.kind = NEW
            row.flags = MARKET
            row.time_in_force = IOC
        else:
            place = np.int64(pick[index] * live_count)
            row.order_id = live[place]
            if kind[index] == 1:
                row.kind = CANCEL
                live_count -= 1
                live[place] = live[live_count]
            else:
                row.kind = REPLACE
                row.price_ticks = price
    return live_count


def make(count: int, resting: int, seed: int, sort_runs: int = 0) -> tuple[Rows, Rows]:
    """(rows that build a book of `resting` orders, the stream of `count` messages), for participant 0 and symbol 0.

    With `sort_runs`, runs of this many messages are sorted by kind, so each kind can be timed separately.
    """
    rng = np.random.default_rng(seed)
    live = np.zeros(count + resting + 1, np.int64)
    build = _random(rng, resting, [1.0, 0, 0, 0], live, 0, 1, 0)
    stream = _random(rng, count, [0.45, 0.40, 0.10, 0.05], live, resting, resting + 1, sort_runs)
    return build, stream


def _random(
    rng: np.random.Generator, count: int, mix: list[float], live: Any, live_count: int, first_id: int, sort_runs: int
) -> Rows:  # fmt: skip
    rows = np.zeros(count, COMMAND)
    kind = rng.choice(4, count, p=mix)
    if sort_runs:
        kind = np.sort(kind.reshape(-1, sort_runs), axis=1).ravel()
    _fill(
        rows, kind, rng.integers(0, SPREAD_TICKS, count), rng.integers(Side.BUY, Side.SELL + 1, count),
        rng.integers(1, 100, count), rng.choice([-1, 0, 1], count, p=[0.02, 0.96, 0.02]), rng.random(count), live,
        live_count, first_id,
    )  # fmt: skip
    rows["sequence"] = np.arange(first_id, first_id + count)
    return rows


def classify(rows: Rows) -> Any:
    """The index in KINDS of each row."""
    kinds = np.zeros(len(rows), np.int64)
    kinds[rows["kind"] == CANCEL] = 1
    kinds[rows["flags"] == MARKET] = 2
    kinds[rows["kind"] == REPLACE] = 3
    return kinds
