"""The quotes and trades of a simulated day, found by replaying its commands once in compiled code."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.traders.simulate import EVENT_ROWS
from serl.exchange.compiling import compiled
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, execute
from serl.exchange.kernel.levels import levels
from serl.exchange.market import Market
from serl.exchange.records import EVENT, LEVEL, EventFlag, EventKind, Rows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Columns of quotes
TIME_NS, BID_TICKS, BID_LOTS, ASK_TICKS, ASK_LOTS = range(5)
# Indices into totals
NEXT_COMMAND, LAST_QUOTE, TRADES, VOLUME_LOTS = range(4)
# Indices into costs
SPREAD_LOTS, LOTS = range(2)

FILL, MAKER, AUCTION = int(EventKind.FILL), int(EventFlag.MAKER), int(EventFlag.AUCTION)


@dataclass(frozen=True)
class Quotes:
    """The trades of one symbol over a day, and its Q quotes (best prices), each valid until the time of the next."""

    rows: Ints
    """(Q, 5): time in ns after midnight, best bid in ticks, its lots, best ask, its lots; 0 where a side is empty."""
    end_ns: int
    """End of the last quote."""
    trades: int
    """Number of executions: one for each resting order that is hit."""
    volume_lots: int
    effective_spread: float
    """Mean of 2 s (p - m) / m, weighted by lots; NaN without trades that met a bid and an ask."""
    tick: float
    """The tick size in money."""
    value_ticks: Floats
    """The fundamental value on a grid from the open on."""
    value_step_ns: int

    @property
    def open_ns(self) -> int:
        """Time of the first quote."""
        return int(self.rows[0, TIME_NS])

    @cached_property
    def duration_ns(self) -> Ints:
        """(Q,) duration of each quote."""
        return np.diff(np.append(self.rows[:, TIME_NS], self.end_ns))

    @cached_property
    def quoted(self) -> NDArray[np.bool_]:
        """(Q,) whether there is a bid below an ask. Prices may cross while orders are collected for an auction; these do not count as quotes."""
        bid, ask = self.rows[:, BID_TICKS], self.rows[:, ASK_TICKS]
        return (bid > 0) & (ask > bid)

    @cached_property
    def mid_times_ns(self) -> Ints:
        """(M,) times of the quotes that have a bid and an ask."""
        return self.rows[self.quoted, TIME_NS]

    @cached_property
    def mids_ticks(self) -> Floats:
        """(M,) mids of the quotes that have a bid and an ask."""
        return self.rows[self.quoted][:, [BID_TICKS, ASK_TICKS]].mean(axis=1)


def replay_quotes(market: Market, commands: Rows, open_ns: int, symbol: int = 0) -> tuple[Ints, Ints, Floats]:
    """Executes COMMAND rows in a market without orders; returns (quotes, totals, costs) of one symbol."""
    quotes = np.empty((len(commands) + 1, 5), np.int64)
    quotes[0] = open_ns, 0, 0, 0, 0
    totals, costs = np.zeros(4, np.int64), np.zeros(2)
    events, touch = np.zeros(EVENT_ROWS, EVENT), np.zeros(1, LEVEL)
    while record_quotes(market.state, symbol, commands, events, touch, quotes, totals, costs) != DONE:
        market.grow()
    return quotes[: totals[LAST_QUOTE] + 1].copy(), totals, costs


@compiled(nogil=True)
def record_quotes(
    state: Any, symbol: int, commands: Any, events: Any, touch: Any, quotes: Any, totals: Any, costs: Any
) -> int:  # fmt: skip
    """Continues at totals[NEXT_COMMAND]. Returns DONE, or what the market needs (GROW). touch: a buffer of one LEVEL row."""
    while totals[NEXT_COMMAND] < commands.size:
        index, last = totals[NEXT_COMMAND], totals[LAST_QUOTE]
        bid_ticks, ask_ticks = quotes[last, BID_TICKS], quotes[last, ASK_TICKS]
        status = EVENTS_FULL
        while status == EVENTS_FULL:
            count, status = execute(state, commands, index, events, 0)
            for place in range(count):
                event = events[place]
                if event.kind != FILL or not event.flags & MAKER or event.symbol != symbol:
                    continue
                totals[TRADES] += 1
                totals[VOLUME_LOTS] += event.qty_lots
                if event.flags & AUCTION == 0 and bid_ticks > 0 and ask_ticks > bid_ticks:
                    mid = 0.5 * (bid_ticks + ask_ticks)
                    above = event.price_ticks - mid if event.side == 1 else mid - event.price_ticks
                    costs[SPREAD_LOTS] += 2.0 * above / mid * event.qty_lots
                    costs[LOTS] += event.qty_lots
        if status != DONE:
            return int(status)
        bid_lots, ask_lots = 0, 0
        bid_ticks, ask_ticks = 0, 0
        if levels(state, symbol, 0, touch) > 0:
            bid_ticks, bid_lots = touch[0].price_ticks, touch[0].qty_lots
        if levels(state, symbol, 1, touch) > 0:
            ask_ticks, ask_lots = touch[0].price_ticks, touch[0].qty_lots
        before = quotes[last]
        if (
            bid_ticks != before[BID_TICKS]
            or bid_lots != before[BID_LOTS]
            or ask_ticks != before[ASK_TICKS]
            or ask_lots != before[ASK_LOTS]
        ):
            after = quotes[last + 1]
            after[TIME_NS] = commands[index].time_ns
            after[BID_TICKS], after[BID_LOTS], after[ASK_TICKS], after[ASK_LOTS] = (
                bid_ticks,
                bid_lots,
                ask_ticks,
                ask_lots,
            )
            totals[LAST_QUOTE] = last + 1
        totals[NEXT_COMMAND] = index + 1
    return DONE
