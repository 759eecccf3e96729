"""One-dimensional scores of order flow: the 21 of LOB-Bench and its three conditional ones.

A score is a function of a Tape whose values are compared as a distribution. Definitions follow Nagy et al., *LOB-Bench:
Benchmarking Generative AI for Finance* (arXiv 2502.09172) and its code; docs/realism.md describes the choices that they
leave open. Book scores are sampled after each message. Prices are in ticks, quantities in lots.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from serl.agents.realism.messages import CANCEL, LIMIT
from serl.agents.realism.tape import HOUR_NS, MINUTE_NS, SECOND_NS, Bools, Floats, Ints, Tape
from serl.exchange.records import Side

BUY, SELL = int(Side.BUY), int(Side.SELL)
ZERO_TIME = 1e-9
"""Replaces durations of zero before the logarithm, as in LOB-Bench."""
OFI_EVENTS = 100
NO_ASK = 1 << 62
"""Price of a missing ask: farther away than any other."""
VOLATILITY_STEP_NS = 100_000_000


@dataclass(frozen=True)
class Score:
    """A named distribution of a tape."""

    name: str
    unit: str
    values: Callable[[Tape], Floats]
    discrete: bool = False
    """Whether to use one bin per value instead of Freedman-Diaconis bins."""


@dataclass(frozen=True)
class ConditionalScore:
    """A distribution conditional on another quantity of the same messages."""

    name: str
    unit: str
    values: Callable[[Tape], Floats]
    condition: Callable[[Tape], Floats]
    deciles: bool
    """Whether to condition on deciles of the pooled sample instead of the values themselves."""
    discrete: bool = False


def book_samples(tape: Tape) -> Bools:
    """[n] whether the book is two-sided after the message."""
    return tape.two_sided[1:]


def spread(tape: Tape) -> Floats:
    """Ask - bid."""
    keep = book_samples(tape)
    return (tape.ask[1:] - tape.bid[1:])[keep].astype(np.float64)


def imbalance(tape: Tape) -> Floats:
    """(bid quantity - ask quantity) / their sum, at the touch."""
    lots = tape.book_lots[1:, :, 0][book_samples(tape)]
    return np.asarray((lots[:, 0] - lots[:, 1]) / lots.sum(axis=1))


def log_inter_arrival(tape: Tape) -> Floats:
    """ln of the milliseconds between messages."""
    return _log(np.diff(tape.time_ns) / 1e6)


def log_time_to_cancel(tape: Tape) -> Floats:
    """ln of the seconds from an order to its first reduction or cancellation, for orders that arrived within the tape."""
    seen = tape.first_cancel & (tape.entered_ns >= tape.time_ns[0])
    return _log((tape.time_ns[seen] - tape.entered_ns[seen]) / SECOND_NS)


def _log(values: Floats) -> Floats:
    return np.log(np.where(values == 0, ZERO_TIME, values))


def touch_volume(side: int) -> Callable[[Tape], Floats]:
    """Quantity at a side's best price."""
    return lambda tape: tape.book_lots[1:, side, 0][book_samples(tape)].astype(np.float64)


def volume(side: int) -> Callable[[Tape], Floats]:
    """Quantity on all visible levels of a side."""
    return lambda tape: tape.book_lots[1:, side].sum(axis=1)[book_samples(tape)].astype(np.float64)


def depth(kind: int, side: int) -> Callable[[Tape], Floats]:
    """|price - mid after the message| of messages of a kind and side."""

    def values(tape: Tape) -> Floats:
        chosen = (tape.kind == kind) & (tape.side == side) & book_samples(tape)
        return np.abs(tape.price_ticks[chosen] - tape.mid[1:][chosen])

    return values


def level(kind: int, side: int) -> Callable[[Tape], Floats]:
    """Level (1 = touch) of the message's price, in the book after a new order or before a cancellation."""

    def values(tape: Tape) -> Floats:
        chosen = np.flatnonzero((tape.kind == kind) & (tape.side == side))
        ticks = tape.book_ticks[chosen + (1 if kind == LIMIT else 0), side]
        found = ticks == tape.price_ticks[chosen, np.newaxis]
        return (found.argmax(axis=1)[found.any(axis=1)] + 1).astype(np.float64)

    return values


def volume_per_minute(tape: Tape) -> Floats:
    """60 times the lots executed in each second that has an execution."""
    second = tape.time_ns[tape.trades] // SECOND_NS
    _, group = np.unique(second, return_inverse=True)
    return np.asarray(60.0 * np.bincount(group, weights=tape.qty_lots[tape.trades]), np.float64)


def ofi(tape: Tape, level: int = 0) -> Floats:
    """[n] order-flow imbalance of each message at a level, 0 = best (Cont, Kukanov, Stoikov 2014), NaN where the book is not two-sided.

    e = 1[bid' >= bid] q_bid' - 1[bid' <= bid] q_bid - 1[ask' <= ask] q_ask' + 1[ask' >= ask] q_ask; ' is after the message.
    """
    ticks, lots = tape.book_ticks[:, :, level], tape.book_lots[:, :, level]
    bid, ask = np.diff(ticks[:, 0]), np.diff(np.where(ticks[:, 1] > 0, ticks[:, 1], NO_ASK))
    values = (bid >= 0) * lots[1:, 0] - (bid <= 0) * lots[:-1, 0]
    values = values - (ask <= 0) * lots[1:, 1] + (ask >= 0) * lots[:-1, 1]
    return np.where(tape.two_sided[1:] & tape.two_sided[:-1], values, np.nan)


def mean_ofi(tape: Tape, events: int = OFI_EVENTS) -> Floats:
    """[n] mean of `ofi` over a message and the `events` - 1 before it; NaN unless all are known."""
    values = ofi(tape)
    result = np.full(len(tape), np.nan)
    if len(tape) >= events:
        known, filled = np.isfinite(values), np.nan_to_num(values)
        sums = np.concatenate([[0.0], np.cumsum(filled)])
        counts = np.concatenate([[0], np.cumsum(known)])
        full = counts[events:] - counts[:-events] == events
        result[events - 1 :] = np.where(full, (sums[events:] - sums[:-events]) / events, np.nan)
    return result


def ofi_mean(tape: Tape) -> Floats:
    """Rolling mean OFI of 100 messages."""
    values = mean_ofi(tape)
    return values[np.isfinite(values)]


def ofi_before(move: int, events: int = OFI_EVENTS) -> Callable[[Tape], Floats]:
    """Mean OFI of 100 messages, given that the mid moves up (+1), stays (0) or moves down (-1) at the next message."""

    def values(tape: Tape) -> Floats:
        before, change = mean_ofi(tape, events)[:-1], np.diff(tape.mid[1:])
        chosen = np.isfinite(before) & np.isfinite(change) & (np.sign(change) == move)
        return before[chosen]

    return values


def hour(tape: Tape) -> Floats:
    """Hour of the day of each message with a two-sided book."""
    return (tape.time_ns[book_samples(tape)] // HOUR_NS).astype(np.float64)


def volatility(tape: Tape) -> Floats:
    """Standard deviation of 0.1 s log mid returns in the minute of each message with a two-sided book."""
    keep = book_samples(tape)
    time_ns, mid = tape.time_ns[keep], np.log(tape.mid[1:][keep])
    first = time_ns[0] // MINUTE_NS * MINUTE_NS
    minutes = int((time_ns[-1] - first) // MINUTE_NS) + 1
    steps = MINUTE_NS // VOLATILITY_STEP_NS
    grid = first + VOLATILITY_STEP_NS * np.arange(minutes * steps + 1, dtype=np.int64)
    path = last_before(time_ns, mid, grid)
    by_minute = np.diff(path).reshape(minutes, steps).std(axis=1)
    return np.asarray(by_minute[(time_ns - first) // MINUTE_NS])


def last_before(time_ns: Ints, values: Floats, grid_ns: Ints) -> Floats:
    """The last value before each grid time; the first value if there is none before."""
    return np.asarray(values[np.maximum(0, np.searchsorted(time_ns, grid_ns, side="left") - 1)])


SCORES = (
    Score("spread", "ticks", spread, discrete=True),
    Score("touch imbalance", "", imbalance),
    Score("log inter-arrival time", "ln ms", log_inter_arrival),
    Score("log time to cancel", "ln s", log_time_to_cancel),
    Score("ask volume at touch", "lots", touch_volume(SELL)),
    Score("bid volume at touch", "lots", touch_volume(BUY)),
    Score("ask volume", "lots", volume(SELL)),
    Score("bid volume", "lots", volume(BUY)),
    Score("limit depth, ask", "ticks", depth(LIMIT, SELL)),
    Score("limit depth, bid", "ticks", depth(LIMIT, BUY)),
    Score("cancel depth, ask", "ticks", depth(CANCEL, SELL)),
    Score("cancel depth, bid", "ticks", depth(CANCEL, BUY)),
    Score("limit level, ask", "level", level(LIMIT, SELL), discrete=True),
    Score("limit level, bid", "level", level(LIMIT, BUY), discrete=True),
    Score("cancel level, ask", "level", level(CANCEL, SELL), discrete=True),
    Score("cancel level, bid", "level", level(CANCEL, BUY), discrete=True),
    Score("volume per minute", "lots", volume_per_minute),
    Score("OFI", "lots", ofi_mean),
    Score("OFI before up", "lots", ofi_before(1)),
    Score("OFI before stay", "lots", ofi_before(0)),
    Score("OFI before down", "lots", ofi_before(-1)),
)
"""The unconditional scores of LOB-Bench."""

CONDITIONAL_SCORES = (
    ConditionalScore("ask volume at touch | spread", "lots", touch_volume(SELL), spread, deciles=False),
    ConditionalScore("spread | hour", "ticks", spread, hour, deciles=False, discrete=True),
    ConditionalScore("spread | volatility", "ticks", spread, volatility, deciles=True, discrete=True),
)
