"""The verdict of a market on a day: the share of commands it accepts, the share of time with a two-sided book, and gaps without commands."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import allocating
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, execute_batch
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import EVENT, CommandKind, EventKind, Reason, Rows, TimeInForce
from serl.history.day import Reference
from serl.history.errors import SourceRejected
from serl.history.limits import limits_for
from serl.history.verify import HISTORY

REJECTED, IOC = int(EventKind.REJECTED), int(TimeInForce.IOC)
NEW, REPLACE = int(CommandKind.NEW), int(CommandKind.REPLACE)
REJECTED_SHARE_MAX = 0.01
"""Above this share of rejected commands, a source was misread or is damaged."""
GAP_NS = 60_000_000_000
EVENT_ROWS = 4096
ONE_SIDED, CROSSED, TWO_SIDED, EMPTY = range(4)
"""States of a symbol's book. Crossed: its best bid is at or above its best ask."""
LAST_NS, GAPS, LONGEST_NS = range(3)
LIMITS = ("qty_lots_max", "price_ticks_max", "levels_max")
"""Limits of which a day may need more than an exchange's defaults. Large quantities lower a fourth limit, that of open orders."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a market made of a day's commands."""

    rows: int
    """Number of rows of the source."""
    commands: int
    rejected: dict[str, int]
    """Number of rejected commands by reason."""
    one_sided_share: float
    """Share of the time from each symbol's first command to its last in which only one side has orders."""
    crossed_share: float
    empty_share: float
    gaps: int
    """Stretches of over a minute without a command."""
    longest_gap_s: float
    limits: MarketLimits
    """Limits of the market, as the day needs them."""

    @property
    def rejected_share(self) -> float:
        """Share of the commands that the market rejected."""
        return sum(self.rejected.values()) / max(self.commands, 1)

    def lines(self) -> list[str]:
        """The verdict as lines of text."""
        reasons = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in self.rejected.items())
        lowered = ("orders_open_max",) if self.limits.orders_open_max < MarketLimits().orders_open_max else ()
        limits = ", ".join(f"{name} {getattr(self.limits, name):,}" for name in (*LIMITS, *lowered))
        return [
            f"{1 - self.rejected_share:.2%} of the commands were accepted; rejected: {reasons}"
            if reasons
            else "no command was rejected",
            f"share of the time in which the book has one side: {self.one_sided_share:.2%}, no side: {self.empty_share:.2%}, is crossed: {self.crossed_share:.2%}",
            f"{self.gaps:,} gaps of over a minute without a command; the longest time without one is {self.longest_gap_s:,.1f} s",
        ] + ([f"an exchange that replays it needs the limits {limits}"] if self._needs_limits else [])

    @property
    def _needs_limits(self) -> bool:
        usual = MarketLimits()
        return any(getattr(self.limits, name) > getattr(usual, name) for name in LIMITS)

    def require_accepted(self, name: str) -> None:
        """Raises `SourceRejected` if the market rejected more than a hundredth of the commands."""
        if self.rejected_share > REJECTED_SHARE_MAX:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in self.rejected.items())
            raise SourceRejected(
                f"{name}: expected a market to accept at least {1 - REJECTED_SHARE_MAX:.0%} of the {self.commands:,} commands, "
                f"got {self.rejected_share:.1%} rejected ({reasons}); check the source and --tick-size, or give --allow-rejected"
            )


@allocating
def _walk(
    state: Any, commands: Any, at: int, events: Any, gaps: NDArray[np.int64], changed_ns: NDArray[np.int64], sides: NDArray[np.int64],
    time_ns: NDArray[np.int64], rejections: NDArray[np.int64], levels_most: NDArray[np.int64],
) -> tuple[int, int]:  # fmt: skip
    """Executes commands[at:] one by one; returns (index of the next command, DONE or what the market needs).

    gaps: by LAST_NS .. LONGEST_NS. changed_ns, sides: [symbol] time and state of its last command. time_ns: [symbol, state].
    rejections: [reason]. levels_most: [0] the smallest levels_max that no order exceeds.
    """
    while at < commands.size:
        order = commands[at]
        may_rest = order.kind == REPLACE or (order.kind == NEW and order.time_in_force < IOC)
        if may_rest and order.symbol < changed_ns.size:
            # an order that may rest needs room for a level, even if it joins an existing one, or leaves one
            levels_most[0] = max(levels_most[0], state.level_count[order.symbol] + 1)
        at, count, status = execute_batch(state, commands, at, at + 1, events, 0)
        for index in range(count):
            if events[index].kind == REJECTED:
                rejections[events[index].reason] += 1
        if status == EVENTS_FULL:
            continue
        if status != DONE:
            return at, status
        command = commands[at - 1]
        now_ns, symbol = command.time_ns, command.symbol
        if gaps[LAST_NS] >= 0 and now_ns - gaps[LAST_NS] > gaps[LONGEST_NS]:
            gaps[LONGEST_NS] = now_ns - gaps[LAST_NS]
        gaps[GAPS] += gaps[LAST_NS] >= 0 and now_ns - gaps[LAST_NS] > GAP_NS
        gaps[LAST_NS] = now_ns
        if symbol < changed_ns.size:
            if changed_ns[symbol] >= 0:
                time_ns[symbol, sides[symbol]] += now_ns - changed_ns[symbol]
            bid, ask = state.best[symbol, 0], state.best[symbol, 1]
            if bid != 0 and ask != 0:
                sides[symbol] = CROSSED if bid >= ask else TWO_SIDED
            else:
                sides[symbol] = EMPTY if bid == ask else ONE_SIDED
            changed_ns[symbol] = now_ns
    return at, DONE


class _Trial:
    """A market, and its results for the blocks so far."""

    def __init__(self, symbols: int, limits: MarketLimits) -> None:
        self._market = Market(symbols, limits=limits)
        self._market.grant_operator(HISTORY)
        self._events = np.zeros(EVENT_ROWS, EVENT)
        self._changed_ns, self._sides = np.full(symbols, -1, np.int64), np.zeros(symbols, np.int64)
        self.commands = 0
        self.gaps = np.array([-1, 0, 0], np.int64)
        self.time_ns = np.zeros((symbols, 4), np.int64)
        self.rejections = np.zeros(256, np.int64)
        self.levels_most = np.zeros(1, np.int64)

    def submit(self, commands: Rows) -> None:
        """Executes a block of COMMAND rows."""
        rows = commands.copy()
        rows["participant"] = HISTORY
        rows["sequence"] = np.arange(self.commands + 1, self.commands + 1 + len(rows))
        self.commands += len(rows)
        at, status = 0, DONE
        while at < len(rows) or status != DONE:
            at, status = _walk(
                self._market.state, rows, at, self._events, self.gaps, self._changed_ns, self._sides, self.time_ns, self.rejections,
                self.levels_most,
            )  # fmt: skip
            if status != DONE:
                self._market.grow()


def verdict(reference: Reference, blocks: Callable[[], Iterable[Rows]]) -> Verdict:
    """Replays a day through a market; returns the verdict. blocks: returns the day's COMMAND rows, block by block, again at each call."""
    limits = limits_for(blocks())
    trial = _Trial(max(len(reference.symbols), 1), limits)  # a file without orders may have no symbols
    for block in blocks():
        trial.submit(block)
    levels_max = min(max(MarketLimits().levels_max, int(trial.levels_most[0])), limits.levels_max)
    reasons = np.flatnonzero(trial.rejections)
    time_ns = trial.time_ns.sum(axis=0) / max(trial.time_ns.sum(), 1)
    return Verdict(
        rows=reference.source_rows,
        commands=trial.commands,
        rejected={Reason(int(reason)).name.lower(): int(trial.rejections[reason]) for reason in reasons},
        one_sided_share=float(time_ns[ONE_SIDED]),
        crossed_share=float(time_ns[CROSSED]),
        empty_share=float(time_ns[EMPTY]),
        gaps=int(trial.gaps[GAPS]),
        longest_gap_s=trial.gaps[LONGEST_NS] / 1e9,
        limits=dataclasses.replace(limits, levels_max=levels_max),
    )
