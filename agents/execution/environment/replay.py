"""The replay market: our orders in the real book, among the orders of history.

The N environments are N symbols of one market, so that one compiled call steps them all. Of each day the book is kept at
times a few minutes apart; an episode begins at the last one before its start.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from serl.agents.execution.environment.records import CHILD, FILL, FRAME, LEVELS
from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.errors import ConfigError
from serl.exchange.history.day import Day
from serl.exchange.kernel import ids
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, GROW, execute
from serl.exchange.kernel.levels import find_level, next_price
from serl.exchange.kernel.matching import take_out
from serl.exchange.kernel.state import ASK, BID
from serl.exchange.kernel.walk import restore_orders
from serl.exchange.market import Market, MarketLimits
from serl.exchange.records import COMMAND, EVENT, CommandFlag, CommandKind, EventFlag, EventKind, Rows, TimeInForce

CHECKPOINT_NS = 120_000_000_000
EVENT_ROWS = 2048
NEW, CANCEL = int(CommandKind.NEW), int(CommandKind.CANCEL)
TRADED = ("traded_lots", "traded_notional", "signed_lots", "trades")
IOC, GTC, MARKET = int(TimeInForce.IOC), int(TimeInForce.GTC), int(CommandFlag.MARKET)
FILLED, MAKER = int(EventKind.FILL), int(EventFlag.MAKER)
# Columns of `places`, one row an environment
CURSOR, STOP, NOW, COMMAND_ID, RESTING, PHASE = range(6)
BEGINNING, ARRIVING, CANCELLING, TAKING, PLACING, GOING_ON = range(6)


@inlined
def _note(events: Any, count: int, own: int, frame: Any, fill: Any) -> None:
    """Adds the fills among events 0 .. count to what others traded and to what we did."""
    for index in range(count):
        event = events[index]
        if event.kind != FILLED:
            continue
        if event.participant == own:
            fill.lots += event.qty_lots
            fill.notional += event.qty_lots * event.price_ticks
        if event.flags & MAKER:
            taker = events[index + 1]  # the other side of the same match
            if event.participant != own and taker.participant != own:
                frame.traded_lots += event.qty_lots
                frame.traded_notional += event.qty_lots * event.price_ticks
                frame.signed_lots += event.qty_lots if event.side == ASK else -event.qty_lots
                frame.trades += 1


@inlined
def _submit(state: Any, row: Any, events: Any, own: int, frame: Any, fill: Any) -> int:
    """Executes the first COMMAND row: DONE or GROW."""
    status = EVENTS_FULL
    while status == EVENTS_FULL:
        count, status = execute(state, row, 0, events, 0)
        _note(events, count, own, frame, fill)
    return status


@inlined
def _replay(state: Any, history: Any, row: Any, place: Any, env: int, own: int, until_ns: int, events: Any, frame: Any, fill: Any) -> int:  # fmt: skip
    """History's commands before `until_ns`: DONE, or GROW with the cursor at the command that had no room."""
    while place[CURSOR] < place[STOP] and history[place[CURSOR]].time_ns < until_ns:
        row[0] = history[place[CURSOR]]
        row[0].symbol = env
        row[0].participant = env
        if _submit(state, row, events, own, frame, fill) == GROW:
            return GROW
        place[CURSOR] += 1
    return DONE


@inlined
def _own(place: Any, row: Any, env: int, own: int, kind: int, time_ns: int) -> None:
    """Begins a command of ours in the first COMMAND row."""
    place[COMMAND_ID] += 1
    row[0].kind, row[0].symbol, row[0].participant = kind, env, own
    row[0].command_id, row[0].order_id, row[0].time_ns = place[COMMAND_ID], 0, time_ns
    row[0].price_ticks = row[0].qty_lots = 0
    row[0].time_in_force = row[0].flags = row[0].side = 0


@compiled
def _look(state: Any, env: int, frame: Any) -> None:
    """The book as it stands."""
    for side in range(2):
        price = state.best[env, side]
        for level in range(LEVELS):
            lots = int64(0)
            if price != 0:
                lots = int64(state.levels[find_level(state, env, side, price)].qty_lots)
            if side == BID:
                frame.bid_ticks[level] = price
                frame.bid_lots[level] = lots
            else:
                frame.ask_ticks[level] = price
                frame.ask_lots[level] = lots
            if price != 0:
                price = next_price(state, env, side, price)


@inlined
def _clear(state: Any, env: int) -> None:
    """Takes every order of one symbol out of the book."""
    for side in range(2):
        while state.best[env, side] != 0:
            slot = state.levels[find_level(state, env, side, state.best[env, side])].first
            take_out(state, int64(slot))


@inlined
def _reduce(child: Any, lots: int) -> None:
    """Takes off a child what filled while it was on its way, from the limit order first: a parent order is never overdone."""
    late = min(lots, child.limit_lots)
    child.limit_lots -= late
    child.market_lots -= min(lots - late, child.market_lots)


@inlined
def _send(state: Any, row: Any, place: Any, env: int, own: int, side: int, child: Any, time_ns: int, events: Any, frame: Any, fill: Any) -> int:  # fmt: skip
    """Cancels what rests of ours, then sends the child: DONE, or GROW with `place` at what is still to do."""
    if place[PHASE] == CANCELLING:
        if place[RESTING] != 0:
            _own(place, row, env, own, CANCEL, time_ns)
            row[0].order_id = place[RESTING]
            if _submit(state, row, events, own, frame, fill) == GROW:
                return GROW
            place[RESTING] = 0
            _reduce(child, fill.lots)
        place[PHASE] = TAKING
    if place[PHASE] == TAKING:
        if child.market_lots > 0:
            _own(place, row, env, own, NEW, time_ns)
            row[0].side, row[0].qty_lots, row[0].time_in_force, row[0].flags = side, child.market_lots, IOC, MARKET
            if _submit(state, row, events, own, frame, fill) == GROW:
                return GROW
        place[PHASE] = PLACING
    if place[PHASE] == PLACING:
        if child.limit_lots > 0 and child.limit_ticks > 0:
            _own(place, row, env, own, NEW, time_ns)
            row[0].side, row[0].qty_lots, row[0].price_ticks = side, child.limit_lots, child.limit_ticks
            row[0].time_in_force = GTC
            if _submit(state, row, events, own, frame, fill) == GROW:
                return GROW
            place[RESTING] = place[COMMAND_ID]
        place[PHASE] = GOING_ON
    return DONE


@compiled
def _advance(
    state: Any, history: Any, row: Any, places: Any, signs: Any, which: Any, children: Any, until_ns: Any,
    latency_ns: int, events: Any, frames: Any, fills: Any, first: int,
) -> int:  # fmt: skip
    """Steps environments which[first], which[first + 1] ...; the place in `which` that needs a larger market, else its size."""
    count = places.shape[0]
    for index in range(first, which.size):
        env = which[index]
        place, own, frame, fill, child = places[env], count + env, frames[env], fills[env], children[index]
        if place[PHASE] == BEGINNING:
            fill.lots = fill.notional = 0
            frame.traded_lots = frame.traded_notional = frame.signed_lots = frame.trades = 0
            place[PHASE] = ARRIVING
        arrival_ns = min(place[NOW] + latency_ns, until_ns[index])
        if place[PHASE] == ARRIVING:
            if place[RESTING] != 0 or child.market_lots > 0 or child.limit_lots > 0:
                if _replay(state, history, row, place, env, own, arrival_ns, events, frame, fill) == GROW:
                    return index
                place[PHASE] = CANCELLING
            else:
                place[PHASE] = GOING_ON
        side = ASK if signs[env] > 0 else BID
        if _send(state, row, place, env, own, side, child, arrival_ns, events, frame, fill) == GROW:
            return index
        if _replay(state, history, row, place, env, own, until_ns[index], events, frame, fill) == GROW:
            return index
        place[PHASE] = BEGINNING
        place[NOW] = frame.time_ns = until_ns[index]
        _look(state, env, frame)
        _queue(state, place, own, fill)
    return which.size


@inlined
def _queue(state: Any, place: Any, own: int, fill: Any) -> None:
    """What our limit order still has open, and how much stands before it."""
    fill.resting_lots = fill.ahead_lots = 0
    if place[RESTING] == 0:
        return
    slot = ids.find(state, own, place[RESTING])
    if slot < 0:
        place[RESTING] = 0
        return
    fill.resting_lots = state.orders[slot].open_lots
    before = int64(state.orders[slot].previous)
    while before >= 0:
        fill.ahead_lots += state.orders[before].open_lots
        before = int64(state.orders[before].previous)


@compiled
def _begin(state: Any, rows: Any, env: int) -> int:
    """Empties a symbol's book and puts ORDER rows (of this symbol and its history's participant) into it; rows placed."""
    _clear(state, env)
    state.last_command_id[env] = 0
    state.last_command_id[state.last_command_id.size // 2 + env] = 0
    state.halted[env] = 0
    return restore_orders(state, rows, 0)


class ReplayMarket:
    """N environments over days of history (each of one symbol). See `ExecutionMarket`."""

    def __init__(self, days: Sequence[Day], count: int, *, latency_ns: int = 1_000_000) -> None:
        if not days or any(len(day.reference.symbols) != 1 for day in days):
            raise ConfigError("replay: at least one day is due, each of one symbol")
        self.count = count
        self.latency_ns = latency_ns
        self.frames, self.fills = np.zeros(count, FRAME), np.zeros(count, FILL)
        self._market = Market(count, limits=MarketLimits(participants_max=2 * count))
        for env in range(count):
            self._market.grant_operator(env)
        self._days = [(day.reference.first_time_ns, day.reference.last_time_ns) for day in days]
        self._history = np.concatenate([day.commands for day in days])
        ends = np.cumsum([len(day) for day in days])
        self._bounds = [(int(end) - len(day), int(end)) for day, end in zip(days, ends, strict=True)]
        self._checkpoints = [checkpoints(self._history[start:stop]) for start, stop in self._bounds]
        self._places = np.zeros((count, 6), np.int64)
        self._signs = np.ones(count, np.int64)
        self._row, self._events = np.zeros(1, COMMAND), np.zeros(EVENT_ROWS, EVENT)

    def reset(self, which: Any, episodes: Rows) -> None:
        """See ExecutionMarket."""
        for env, episode in zip(which.tolist(), episodes, strict=True):
            self._places[env] = *self._open(env, episode), 0, 0, BEGINNING
            self._signs[env] = int(episode["sign"])
        self._run(which, np.zeros(len(which), CHILD), episodes["start_ns"].copy())
        for name in TRADED:  # since the last checkpoint, which is nobody's business
            self.frames[name][which] = 0

    def _open(self, env: int, episode: Any) -> tuple[int, int, int]:
        """Puts the last book before an episode's start into symbol env: (next row of history, its last row, the book's time)."""
        day, start_ns = int(episode["day"]), int(episode["start_ns"])
        end_ns = start_ns + int(episode["interval_ns"] * episode["steps"])
        first_ns, last_ns = self._days[day]
        if not (first_ns <= start_ns and end_ns <= last_ns):
            raise ConfigError(
                f"the day goes from {first_ns} to {last_ns} ns, the order's window from {start_ns} to {end_ns}"
            )
        times, cursors, books = self._checkpoints[day]
        at = int(np.searchsorted(times, start_ns, side="right")) - 1
        rows = books[at].copy()
        rows["symbol"] = rows["participant"] = env
        while _begin(self._market.state, rows, env) < len(rows):
            self._market.grow()
        offset, stop = self._bounds[day]
        return offset + int(cursors[at]), stop, int(times[at])

    def step(self, children: Rows, until_ns: Any) -> None:
        """See ExecutionMarket."""
        self._run(np.arange(self.count), children, until_ns)

    def force(self, which: Any, children: Rows) -> None:
        """See ExecutionMarket."""
        self._run(which, children, self.frames["time_ns"][which] + self.latency_ns)

    def _run(self, which: Any, children: Rows, until_ns: Any) -> None:
        done = 0
        while True:
            done = _advance(
                self._market.state, self._history, self._row, self._places, self._signs, which, children, until_ns,
                self.latency_ns, self._events, self.frames, self.fills, done,
            )  # fmt: skip
            if done == len(which):
                return
            self._market.grow()


def checkpoints(commands: Rows) -> tuple[Any, Any, list[Rows]]:
    """(times, cursors, ORDER rows): the book every CHECKPOINT_NS, from the first command on; rows before a cursor are in it."""
    market = Market(1, limits=MarketLimits(participants_max=2))
    market.grant_operator(0)
    times = np.arange(int(commands["time_ns"][0]), int(commands["time_ns"][-1]) + 1, CHECKPOINT_NS)
    cursors = np.searchsorted(commands["time_ns"], times, side="left")
    books, before = [], 0
    for cursor in cursors.tolist():
        market.submit(commands[before:cursor])
        before = cursor
        books.append(market.orders().copy())
    return times, cursors, books
