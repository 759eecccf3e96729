"""The replay market: our orders in the real order book, among the orders of history and of other agents.

The books are symbols of one market, so that one compiled call steps them all. Each day has a checkpoint of its book every CHECKPOINT_NS; an
episode begins at the last checkpoint before its start.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from serl.agents.execution.answering.model import AnsweringDay, compiled_answers
from serl.agents.execution.answering.rules import execute_history, execute_live, show_last_trades, show_shift
from serl.agents.execution.environment import windows
from serl.agents.execution.environment.hours import lot_multiple
from serl.agents.execution.environment.own_orders import (
    ARRIVING,
    CANCELLING,
    COMMAND_ID,
    CURSOR,
    EVENT_ROWS,
    FILLED,
    IDLE,
    MAKER,
    NOW,
    PHASE,
    RESTING,
    STOP,
    WAITING,
    align,
    charge_fees,
    clear_traded,
    command_executed,
    end_step,
    next_command,
    record_fills,
)
from serl.agents.execution.environment.records import CHILD, FILL, FRAME
from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.errors import ConfigError
from serl.exchange.kernel.book import remove_order
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, GROW, execute
from serl.exchange.kernel.dump import restore_orders
from serl.exchange.kernel.levels import find_level
from serl.exchange.kernel.state import ASK, BID, SPECIAL_RULES
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, EVENT, CommandKind, Rows
from serl.history.day import Day
from serl.history.limits import limits_for

CHECKPOINT_NS = 120_000_000_000
TRADED = ("traded_lots", "traded_notional", "signed_lots", "trades")
# Rows of `books` have the columns of `env_states`, except that while PHASE is SENDING_ORDERS, AGENT is the agent whose turn it is.
AGENT, SENDING_ORDERS = COMMAND_ID, CANCELLING


class Trading(NamedTuple):
    """How a symbol trades at a checkpoint: whether it is halted, its row of State.symbols (phase and rules), and whether that needs the full rule book."""

    halted: int
    instrument: Any
    special_rules: int


@inlined
def _submit(state: Any, row: Any, events: Any, first_own: int, frame: Any, fills: Any) -> int:
    """Executes the first COMMAND row. Returns DONE or GROW."""
    status = EVENTS_FULL
    while status == EVENTS_FULL:
        count, status = execute(state, row, 0, events, 0)
        record_fills(events, count, first_own, frame, fills, 0)
    return status


@inlined
def _replay(
    state: Any, history: Any, row: Any, answers: Any, book: Any, agents: Any, symbol: int, first_own: int, number: int,
    until_ns: int, events: Any, frame: Any, fills: Any,
) -> int:  # fmt: skip
    """Executes history's commands before `until_ns`. Returns DONE, or GROW with the cursor at the command that did not fit."""
    while book[CURSOR] < book[STOP] and history[book[CURSOR]].time_ns < until_ns:
        if answers is None:
            row[0] = history[book[CURSOR]]
            row[0].symbol = symbol
            row[0].participant = symbol
            status = _submit(state, row, events, first_own, frame, fills)
        else:
            status = execute_history(
                state,
                history,
                book[CURSOR],
                row,
                answers,
                symbol,
                agents[:, RESTING : RESTING + 1],
                first_own + number,
                first_own,
                events,
                frame,
                fills,
                None,
            )
        if status == GROW:
            return GROW
        book[CURSOR] += 1
    return DONE


@inlined
def _send_orders(
    state: Any, row: Any, answers: Any, book: Any, agents: Any, signs: Any, children: Any, symbol: int, first_own: int,
    number: int, time_ns: int, events: Any, frame: Any, fills: Any,
) -> int:  # fmt: skip
    """Executes the commands of one book's agents in their order; `number` is the row of the first. Returns DONE or GROW."""
    while book[AGENT] < agents.shape[0]:
        agent = book[AGENT]
        side, own = ASK if signs[agent] > 0 else BID, first_own + number + agent
        while True:
            align(state, symbol, signs[agent], children[agent])
            if not next_command(agents[agent], row, symbol, own, side, children[agent], time_ns):
                break
            if answers is None:
                status = _submit(state, row, events, first_own, frame, fills)
            else:
                status = execute_live(
                    state,
                    row,
                    answers.books[symbol],
                    symbol,
                    agents[:, RESTING : RESTING + 1],
                    first_own + number,
                    first_own,
                    events,
                    frame,
                    fills,
                    None,
                )
            if status == GROW:
                return GROW
            command_executed(agents[agent], children[agent], fills[number + agent])
        book[AGENT] += 1
    return DONE


@inlined
def _clear(state: Any, symbol: int) -> None:
    """Removes every order of one symbol from the book."""
    for side in range(2):
        while state.best[symbol, side] != 0:
            slot = state.levels[find_level(state, symbol, side, state.best[symbol, side])].first
            remove_order(state, int64(slot))


@compiled
def _advance(
    state: Any, history: Any, row: Any, answers: Any, books: Any, env_states: Any, signs: Any, which: Any, children: Any, until_ns: Any,
    latency_ns: int, events: Any, frames: Any, fills: Any, first: int,
) -> int:  # fmt: skip
    """Steps books which[first], which[first + 1] ... Returns the index in `which` that needs a larger market, or its size when finished.

    answers: Answers, or None: then history continues unchanged, and the compiled code does not contain the rules.
    """
    first_own, each = books.shape[0], env_states.shape[0] // books.shape[0]
    for index in range(first, which.size):
        symbol, end_ns = which[index], until_ns[index]
        book, start, stop = books[symbol], symbol * each, (symbol + 1) * each
        frame, agents = frames[start], env_states[start:stop]
        if book[PHASE] == IDLE:
            clear_traded(frame)
            for number in range(start, stop):
                fills[number].lots = fills[number].notional = 0
                env_states[number, PHASE] = CANCELLING
            book[PHASE] = ARRIVING
        arrival_ns = min(book[NOW] + latency_ns, end_ns)
        if book[PHASE] == ARRIVING:
            if _replay(
                state, history, row, answers, book, agents, symbol, first_own, start, arrival_ns, events, frame, fills,
            ) == GROW:  # fmt: skip
                return index
            book[PHASE], book[AGENT] = SENDING_ORDERS, 0
        if book[PHASE] == SENDING_ORDERS:
            own_children = children[index * each : (index + 1) * each]
            if _send_orders(
                state, row, answers, book, agents, signs[start:stop], own_children, symbol, first_own, start, arrival_ns, events,
                frame, fills,
            ) == GROW:  # fmt: skip
                return index
            book[PHASE] = WAITING
        if _replay(
            state, history, row, answers, book, agents, symbol, first_own, start, end_ns, events, frame, fills,
        ) == GROW:  # fmt: skip
            return index
        if answers is not None and show_last_trades(
            state, row, answers.books[symbol], symbol, agents[:, RESTING : RESTING + 1], first_own + start, first_own, events, frame,
            fills, None,
        ) == GROW:  # fmt: skip
            return index
        book[PHASE] = IDLE
        book[NOW] = end_ns
        for number in range(start, stop):
            frames[number] = frame
            end_step(state, symbol, env_states[number], first_own + number, end_ns, frames[number], fills[number])
            charge_fees(state, env_states[number], symbol, first_own + number, fills[number])
            if answers is not None:
                show_shift(frames[number], answers.books[symbol].shift_ticks)
    return which.size


@compiled
def _begin(state: Any, rows: Any, symbol: int) -> int:
    """Replaces a symbol's book by ORDER rows (of this symbol and its history's participant); returns the number of rows that fitted."""
    _clear(state, symbol)
    state.last_command_id[symbol] = 0
    return restore_orders(state, rows, 0)


class ReplayMarket:
    """`books` books on historical days of one symbol each, with `agents` parent orders per book: row b * agents + a is agent a of book b.
    See the module and `ExecutionMarket`.

    The orders of one decision arrive in the order of the agents. The trades of others (FRAME) exclude those of every agent of the book.
    answers: how far each of the days gives way (docs/answering.md); None: history continues unchanged.

    Attributes:
        lot_multiples: (days,) lots that orders must be a multiple of.
    """

    def __init__(
        self, days: Sequence[Day], books: int, agents: int = 1, *, latency_ns: int = 1_000_000,
        answers: Sequence[AnsweringDay] | None = None,
    ) -> None:  # fmt: skip
        if not days or any(len(day.reference.symbols) != 1 for day in days):
            raise ConfigError("replay: expected at least one day, each with one symbol")
        if agents < 1 or books < 1:
            raise ConfigError(f"replay: expected at least one book and one agent, got {books} and {agents}")
        count = books * agents
        self.count, self.agents, self.latency_ns = count, agents, latency_ns
        self.frames, self.fills = np.zeros(count, FRAME), np.zeros(count, FILL)
        # participants: the history of each book, then the agents
        self._market = Market(books, limits=limits_for((day.commands for day in days), participants_max=books + count))
        for book in range(books):
            self._market.grant_operator(book)
        self._spans = [(day.reference.first_time_ns, day.reference.last_time_ns) for day in days]
        self.lot_multiples = np.array([lot_multiple(day.commands) for day in days])
        self._history = np.concatenate([day.commands for day in days])
        # END_DAY would cancel orders in the books of other environments; the days of populations, which have it, consist of DAY orders
        self._history["kind"][self._history["kind"] == CommandKind.END_DAY] = CommandKind.MASS_CANCEL
        ends = np.cumsum([len(day) for day in days])
        self._bounds = [(int(end) - len(day), int(end)) for day, end in zip(days, ends, strict=True)]
        self._checkpoints, self._most_lots = [], []
        for start, stop in self._bounds:
            *kept, volume = checkpoints(self._history[start:stop])
            self._checkpoints.append(kept)
            self._most_lots.append(min(volume, self._market.limits.qty_lots_max))
        self._books, self._env_states = np.zeros((books, 6), np.int64), np.zeros((count, 6), np.int64)
        self._signs = np.ones(count, np.int64)
        self._row, self._events = np.zeros(1, COMMAND), np.zeros(EVENT_ROWS, EVENT)
        self._answering = [] if answers is None else list(answers)
        self._answers = None if answers is None else compiled_answers(self._answering, books)

    def reset(self, which: Any, episodes: Rows) -> None:
        """See ExecutionMarket. Raises ConfigError unless all agents of a book start together, with the same day and window."""
        books = self._books_of(which)
        windows.check(episodes, self._spans, self._most_lots)
        windows.check_multiples(episodes, self.lot_multiples[episodes["day"]])
        shared = episodes[["day", "start_ns", "interval_ns", "steps"]].reshape(-1, self.agents)
        if np.any(shared != shared[:, :1]):
            raise ConfigError(
                "replay: expected the same day and window for all parent orders of a book, got different ones"
            )
        for book, episode in zip(books.tolist(), episodes[:: self.agents], strict=True):
            self._books[book] = self._open(book, episode)
            if self._answers is not None:
                self._answers.books[book] = self._answering[int(episode["day"])].new_state()[0]
        self._market.state.last_command_id[len(self._books) + which] = 0
        self._env_states[which] = 0
        self._signs[which] = episodes["sign"]
        self._run(books, np.zeros(len(which), CHILD), episodes["start_ns"][:: self.agents].copy())
        for name in TRADED:  # trades since the checkpoint are not part of the episode
            self.frames[name][which] = 0
        self.fills["fee_microticks"][which] = 0  # nor are the fees of earlier ones

    def _open(self, book: int, episode: Any) -> tuple[int, ...]:
        """Restores the last checkpoint before an episode's start; returns the row of `books`."""
        day = int(episode["day"])
        times, cursors, snapshots, trading = self._checkpoints[day]
        index = int(np.searchsorted(times, int(episode["start_ns"]), side="right")) - 1
        rows = snapshots[index].copy()
        rows["symbol"] = rows["participant"] = book
        while _begin(self._market.state, rows, book) < len(rows):
            self._market.grow()
        state = self._market.state
        state.halted[book], state.symbols[book], state.needs_full_book[book] = trading[index]
        offset, stop = self._bounds[day]
        return int(times[index]), 0, 0, IDLE, offset + int(cursors[index]), stop

    def step(self, children: Rows, until_ns: Any) -> None:
        """See ExecutionMarket."""
        self._run(np.arange(len(self._books)), children, until_ns[:: self.agents].copy())

    def force(self, which: Any, children: Rows) -> None:
        """See ExecutionMarket; `which` must have all agents of each book."""
        self._run(self._books_of(which), children, self.frames["time_ns"][which[:: self.agents]] + self.latency_ns)

    def _books_of(self, which: Any) -> Any:
        """The books of these rows. Raises ConfigError unless the rows are all rows of some books, in order."""
        books = which[:: self.agents] // self.agents
        if not np.array_equal(which, (books[:, None] * self.agents + np.arange(self.agents)).ravel()):
            raise ConfigError(f"replay: expected all {self.agents} agents of each book, got rows {which}")
        return books

    def _run(self, books: Any, children: Rows, until_ns: Any) -> None:
        finished = 0
        while True:
            finished = _advance(
                self._market.state, self._history, self._row, self._answers, self._books, self._env_states, self._signs, books, children,
                until_ns, self.latency_ns, self._events, self.frames, self.fills, finished,
            )  # fmt: skip
            if finished == len(books):
                return
            self._market.grow()


def checkpoints(commands: Rows) -> tuple[Any, Any, list[Rows], list[Trading], int]:
    """Returns (times, cursors, ORDER rows, Trading, volume of the day) of checkpoints: the book every CHECKPOINT_NS from the first command on. A
    checkpoint contains the effect of all rows before its cursor."""
    market = Market(1, limits=limits_for([commands], participants_max=2))
    market.grant_operator(0)
    times = np.arange(int(commands["time_ns"][0]), int(commands["time_ns"][-1]) + 1, CHECKPOINT_NS)
    cursors = np.searchsorted(commands["time_ns"], times, side="left")
    books, trading, volume, before = [], [], 0, 0
    for cursor in [*cursors.tolist(), len(commands)]:
        events = market.submit(commands[before:cursor])
        volume += int(events["qty_lots"][(events["kind"] == FILLED) & (events["flags"] & MAKER > 0)].sum())
        before = cursor
        books.append(market.orders().copy())
        state = market.state
        special_rules = int(state.needs_full_book[0]) & SPECIAL_RULES
        trading.append(Trading(int(state.halted[0]), state.symbols[0].copy(), special_rules))
    return times, cursors, books[:-1], trading[:-1], volume
