"""Generates a trading day from a seed: zero-intelligence order flow around a mean-reverting value.

Orders arrive as a Poisson process with more arrivals at the open and the close. Each is a limit order (at a geometric distance from its
touch, or one tick inside a wide spread), a cancellation of a random open order (more likely the more are open), or an IOC order against
the touch, whose side leans towards the value, so that the price follows it. After Cont, Stoikov, Talreja, A stochastic model for order
book dynamics (2010), with the value added. The book is never empty, its spread is a few ticks, and many levels have orders.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import allocating, allocating_inner
from serl.exchange.errors import ConfigError
from serl.history.book import BUY, HistoryBook, add_order, empty_book, reduce_order, send_ioc
from serl.history.day import Day, Reference, SymbolReference

SECOND_NS = 1_000_000_000
OPEN_NS, CLOSE_NS = 34_200 * SECOND_NS, 57_600 * SECOND_NS
"""09:30 and 16:00."""

OPENING_LEVELS, OPENING_ORDERS = 30, 3
LEVELS_MIN = 15
"""Minimum number of occupied levels of a side: no event empties a level below it."""
ORDERS_TARGET = 220.0
"""Open orders at which cancellations and executions balance limit orders."""
LIMIT_SHARE, MARKET_SHARE = 0.5, 0.09
SWEEP_SHARE = 0.3
"""Share of the IOC orders that take the whole touch."""
VALUE_TICKS_PER_ROOT_S, VALUE_REVERSION_S = 0.8, 1800.0
DISTANCE_P, DISTANCE_MAX = 0.09, 60
GRID_TICKS = 2000
"""Half the width of the price range."""


@allocating_inner
def _lots(random: np.random.Generator) -> int:
    """Order size: mostly one round lot of 100, some larger, some odd."""
    draw = random.random()
    if draw < 0.6:
        return 100
    if draw < 0.85:
        return 100 * (1 + min(19, int(random.exponential(2.0))))
    return 1 + int(random.random() * 99)


@allocating_inner
def _intensity(time_ns: int) -> float:
    """Relative arrival rate by time of day: mean 1 over 09:30 to 16:00, 2.2 at both ends, 0.4 in the middle."""
    place = 2.0 * (time_ns - OPEN_NS) / (CLOSE_NS - OPEN_NS) - 1.0
    return 0.4 + 1.8 * min(1.0, place * place)


@allocating_inner
def _distance(random: np.random.Generator) -> int:
    return min(DISTANCE_MAX, int(math.log(1.0 - random.random()) / math.log(1.0 - DISTANCE_P)))


@allocating_inner
def _limit_order(book: HistoryBook, random: np.random.Generator, value: float, occupied: NDArray[np.int64]) -> int:
    """A limit order that does not cross; returns its command_id."""
    side = int(random.random() * 2.0)
    sign = 1 if side == BUY else -1
    touch, other = book.best[side], book.best[1 - side]
    spread = (other - touch) * sign
    rank = touch - sign * _distance(random)
    if spread > 1 and random.random() < (0.25 if (value - touch) * sign > 1.0 else 0.08) * (spread - 1):
        rank = touch + sign
    rank = max(1, min(book.price_ticks.shape[0] - 2, rank))
    occupied[side] += book.level_lots[side, rank] == 0
    return int(add_order(book, side, rank, _lots(random), True))


@allocating_inner
def _cancel(
    book: HistoryBook, random: np.random.Generator, live: NDArray[np.int64], count: int, occupied: NDArray[np.int64]
) -> int:
    """Cancels a random open order of live[:count] and drops closed orders on the way; returns the new count."""
    while count > 0:
        place = int(random.random() * count)
        order = live[place]
        still_open = book.open_lots[order] > 0
        if still_open:
            side, rank = book.side[order], book.rank[order]
            is_last = book.level_lots[side, rank] == book.open_lots[order]
            if is_last and occupied[side] <= LEVELS_MIN:
                return count
            reduce_order(book, order, book.open_lots[order])
            occupied[side] -= is_last
        count -= 1
        live[place] = live[count]
        if still_open:
            return count
    return count


@allocating_inner
def _market_order(book: HistoryBook, random: np.random.Generator, value: float, occupied: NDArray[np.int64]) -> None:
    """An IOC order of at most the quantity at the touch."""
    mid = 0.5 * (book.best[0] + book.best[1])
    lean = min(0.35, max(-0.35, 0.06 * (value - mid)))
    side = BUY if random.random() < 0.5 + lean else 1 - BUY
    other = 1 - side
    touch = book.best[other]
    touch_lots = book.level_lots[other, touch]
    lots = touch_lots if random.random() < SWEEP_SHARE else min(touch_lots, _lots(random))
    if lots == touch_lots:
        if occupied[other] <= LEVELS_MIN:
            return
        occupied[other] -= 1
    send_ioc(book, side, touch, lots)


@allocating_inner
def _open(book: HistoryBook, random: np.random.Generator, live: NDArray[np.int64], occupied: NDArray[np.int64]) -> int:
    count, middle = 0, book.price_ticks.shape[0] // 2
    for level in range(OPENING_LEVELS):
        for side in range(2):
            for _ in range(OPENING_ORDERS):
                rank = middle - 1 - level if side == BUY else middle + 1 + level
                live[count] = add_order(book, side, rank, _lots(random), True)
                count += 1
    occupied[:] = OPENING_LEVELS
    return count


@allocating
def _run(book: HistoryBook, random: np.random.Generator, start_ns: int, end_ns: int, commands_per_s: float) -> bool:
    """Generates the whole day; False if there is not enough room for its commands."""
    live, occupied = np.zeros(book.commands.shape[0], np.int64), np.zeros(2, np.int64)
    book.stamp[1] = start_ns
    count = _open(book, random, live, occupied)
    middle = book.price_ticks.shape[0] / 2.0
    value, time_ns, row = middle, start_ns, 0
    while True:
        step_s = random.exponential(1.0) / (commands_per_s * _intensity(time_ns))
        time_ns += int(step_s * SECOND_NS) + 1
        if time_ns >= end_ns:
            return True
        if book.totals[0] == book.commands.shape[0]:
            return False
        shock = VALUE_TICKS_PER_ROOT_S * math.sqrt(step_s) * random.standard_normal()
        value += (middle - value) * min(1.0, step_s / VALUE_REVERSION_S) + shock
        book.stamp[0], book.stamp[1] = row, time_ns
        before = book.totals[0]
        draw = random.random()
        if draw < MARKET_SHARE:
            _market_order(book, random, value, occupied)
        elif draw < MARKET_SHARE + (1.0 - LIMIT_SHARE - MARKET_SHARE) * book.totals[1] / ORDERS_TARGET:
            count = _cancel(book, random, live, count, occupied)
        else:
            live[count] = _limit_order(book, random, value, occupied)
            count += 1
        row += book.totals[0] > before


def generate_day(
    seed: int,
    symbol: str = "DEMO",
    *,
    start_ns: int = OPEN_NS,
    end_ns: int = CLOSE_NS,
    commands_per_s: float = 8.0,
    price_ticks: int = 10_000,
    tick_size: str = "0.01",
) -> Day:
    """Generates a day; the same arguments generate the same day. start_ns and end_ns are nanoseconds after midnight.

    commands_per_s is the mean over 09:30 to 16:00, price_ticks the first mid. Raises `ConfigError` for an invalid argument.
    """
    _check(seed, start_ns, end_ns, commands_per_s, price_ticks)
    prices = np.arange(price_ticks - GRID_TICKS, price_ticks + GRID_TICKS + 1)
    commands_max = int(1.1 * commands_per_s * (end_ns - start_ns) / SECOND_NS) + 1000
    while True:
        book = empty_book(prices, commands_max)
        if _run(book, np.random.Generator(np.random.PCG64(seed)), start_ns, end_ns, float(commands_per_s)):
            break
        commands_max *= 2
    written = int(book.totals[0])
    commands, rows = book.commands[:written].copy(), book.rows[:written].copy()
    parameters: dict[str, Any] = {
        "seed": seed, "start_ns": start_ns, "end_ns": end_ns, "commands_per_s": commands_per_s,
        "price_ticks": price_ticks,
    }  # fmt: skip
    reference = Reference(
        symbols=(SymbolReference(symbol, tick_size),),
        date="",
        source="generated",
        first_time_ns=int(commands["time_ns"][0]),
        last_time_ns=int(commands["time_ns"][-1]),
        source_rows=int(rows[-1]) + 1,
        parameters=parameters,
    )
    return Day(commands, rows, reference)


def _check(seed: int, start_ns: int, end_ns: int, commands_per_s: float, price_ticks: int) -> None:
    if seed < 0:
        raise ConfigError(f"seed: expected 0 or more, got {seed}")
    if not 0 <= start_ns < end_ns <= 86_400 * SECOND_NS:
        raise ConfigError(f"start and end: expected 0 <= start < end <= 24 h (in ns), got {start_ns} and {end_ns}")
    if not 0 < commands_per_s <= 10_000:
        raise ConfigError(f"commands_per_s: expected more than 0, up to 10000, got {commands_per_s}")
    if price_ticks <= GRID_TICKS:
        raise ConfigError(f"price_ticks: expected more than {GRID_TICKS}, got {price_ticks}")
