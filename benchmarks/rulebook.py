"""The full rule book, in process on one core: an opening auction of 100,000 orders, and the cost of an order compared with the fast path.

- Auction: limit orders of two overlapping sides, 400 prices, seed 1. `opening_auction_ms` is the PHASE command that ends the auction.
- The stream is that of `kernel` (100,000 messages), in batches of 256.
- `ns_watched`: one hidden order far from the touch sends every command of the symbol through the full rule book.
- Icebergs: 1,000 with ten parts each, swept by one order.
- `ns_beside_*`: 20,000 messages of the stream in a symbol where 10,000 pegged, trailing or all-or-none orders rest without being affected by them;
  the fastest of the rounds.
"""

import time
from typing import Any

import numpy as np

from benchmarks.stream import make
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, CommandFlag, CommandKind, EventKind, Peg, Phase, Rows, Side, command
from serl.exchange.terms import NO_TERMS, Terms, order

ORDERS, MESSAGES, ROUNDS, SEED = 100_000, 100_000, 5, 1
CONDITIONAL, CONDITIONAL_MESSAGES, CONDITIONAL_KINDS = 10_000, 20_000, ("pegged", "trailing", "all_or_none")
OPERATOR, TRADER = 9, 8
MID = 100_000
"""Where the stream begins."""


def _collected() -> tuple[Market, Rows]:
    """A market in PRE_OPEN, and the orders to send into it."""
    market = Market(1)
    market.grant_operator(OPERATOR)
    market.submit(command(CommandKind.PHASE, flags=Phase.PRE_OPEN, participant=OPERATOR, command_id=1))
    rng = np.random.default_rng(SEED)
    rows = np.zeros(ORDERS, COMMAND)
    rows["kind"], rows["command_id"] = CommandKind.NEW, np.arange(1, ORDERS + 1)
    rows["side"] = rng.integers(0, 2, ORDERS)
    rows["price_ticks"] = 10_000 + rng.integers(-150, 250, ORDERS) * np.where(rows["side"] == Side.BUY, -1, 1)
    rows["qty_lots"] = rng.integers(1, 100, ORDERS)
    return market, rows


def _auction() -> tuple[float, float, int]:
    """(seconds to take the orders, seconds of the auction, matches)."""
    market, rows = _collected()
    began = time.perf_counter()
    market.submit(rows)
    taken = time.perf_counter()
    opened = time.perf_counter()
    events = market.submit(command(CommandKind.PHASE, flags=Phase.CONTINUOUS, participant=OPERATOR, command_id=2))
    done = time.perf_counter()
    return taken - began, done - opened, int((events["kind"] == EventKind.FILL).sum()) // 2


def _stream(watched: bool) -> float:
    """ns per message of the stream."""
    build, stream = make(MESSAGES, 1_000, SEED)
    market = Market(1)
    market.submit(build)
    if watched:
        hidden = command(
            CommandKind.NEW,
            side=Side.BUY,
            qty_lots=1,
            price_ticks=1,
            flags=CommandFlag.HIDDEN,
            participant=TRADER,
            command_id=1,
        )
        market.submit(hidden)
    began = time.perf_counter()
    for start in range(0, len(stream), 256):
        market.submit(stream[start : start + 256])
    return (time.perf_counter() - began) / len(stream) * 1e9


def _icebergs() -> float:
    """ns per fill when one order sweeps icebergs."""
    market = Market(1)
    rows = [
        order(2 * number + 1, Terms(display_lots=10), side=Side.SELL, qty_lots=100, price_ticks=1_000 + number % 50, participant=TRADER)
        for number in range(1_000)
    ]  # fmt: skip
    market.submit(np.concatenate(rows))
    sweep = command(
        CommandKind.NEW, side=Side.BUY, qty_lots=100_000, price_ticks=2_000, participant=OPERATOR, command_id=1
    )
    began = time.perf_counter()
    events = market.submit(sweep)
    return (time.perf_counter() - began) / int((events["kind"] == EventKind.FILL).sum() / 2) * 1e9


def _resting_beside(kind: str) -> Rows:
    """10,000 orders of a kind that the stream need not touch, made by TRADER behind the book that the stream begins with."""
    rows = []
    for number in range(CONDITIONAL):
        side, spread = number % 2, number // 2
        sign = -1 if side == Side.BUY else 1
        if kind == "pegged":  # at a limit behind the market, where the reference does not come
            terms, flags, price = Terms(peg=Peg.PRIMARY, offset_ticks=1), 0, MID + sign * (4_000 + spread)
        elif kind == "trailing":  # nearer to the market than their distance, until a trade is 4,000 ticks away
            stop = MID - sign * (5_000 + spread)
            terms, flags, price = Terms(stop_ticks=stop, trail_ticks=9_000 + spread), CommandFlag.MARKET, 0
        else:  # across the market, and larger than all that they could buy
            side, terms, flags, price = Side.BUY, NO_TERMS, CommandFlag.ALL_OR_NONE, MID + 20 + number % 8
        rows.append(
            order(
                1 + 4 * number, terms, side=side, qty_lots=500_000, flags=flags, price_ticks=price, participant=TRADER
            )
        )
    return np.concatenate(rows)


def _stream_beside(kind: str) -> float:
    """ns per message of the stream beside 10,000 orders of a kind."""
    build, stream = make(CONDITIONAL_MESSAGES, 1_000, SEED)
    market = Market(1)
    market.submit(build)
    market.submit(_resting_beside(kind))
    assert int(market.state.counters["orders_open"][0]) >= CONDITIONAL, "the orders beside the stream rest"
    began = time.perf_counter()
    for start in range(0, len(stream), 256):
        market.submit(stream[start : start + 256])
    return (time.perf_counter() - began) / len(stream) * 1e9


def run() -> dict[str, Any]:
    """All figures, medians over the rounds."""
    _auction(), _stream(True), _icebergs()
    auctions = [_auction() for _ in range(ROUNDS)]
    return {
        "opening_auction_ms": float(np.median([seconds for _, seconds, _ in auctions])) * 1e3,
        "opening_auction_matches": auctions[0][2],
        "collected_orders_per_s": ORDERS / float(np.median([seconds for seconds, _, _ in auctions])),
        "ns_plain": float(np.median([_stream(False) for _ in range(ROUNDS)])),
        "ns_watched": float(np.median([_stream(True) for _ in range(ROUNDS)])),
        "ns_iceberg_fill": float(np.median([_icebergs() for _ in range(ROUNDS)])),
        **{f"ns_beside_{kind}": min(_stream_beside(kind) for _ in range(ROUNDS)) for kind in CONDITIONAL_KINDS},
    }
