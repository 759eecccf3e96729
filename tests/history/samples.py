"""The real sample files, and replay of their days in steps."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from serl.exchange.market import Market
from serl.history.day import Day
from serl.history.verify import market_of

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
Levels = dict[int, int]
"""Lots by price in ticks."""


def sample(name: str) -> Path:
    """Path of a sample file; skips the test without it."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"no {name} in ../shared/data")
    return path


def replay_to_rows(day: Day, rows: list[int]) -> Iterator[Market]:
    """Yields the market after each of these source rows."""
    market, commands = market_of(day)
    at = 0
    for stop in np.searchsorted(day.rows, rows, side="right"):
        events = market.submit(commands[at:stop])
        assert not (events["kind"] == 2).any(), "history alone is never rejected"
        at = int(stop)
        yield market


def top(market: Market, count: int) -> tuple[Levels, Levels]:
    """The best levels of symbol 0."""
    bids, asks = market.book(0, count)
    return tuple({int(row["price_ticks"]): int(row["qty_lots"]) for row in side} for side in (bids, asks))  # pyrefly: ignore[bad-return]


def best(levels: Levels, side: int, count: int) -> Levels:
    """The best levels of a side."""
    return {price: levels[price] for price in sorted(levels, reverse=side == 0)[:count]}
