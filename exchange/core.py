"""The journaled market: journals commands, executes them in the book, encodes the reports. It opens no sockets."""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from serl.exchange.assets import Assets
from serl.exchange.config import RESERVED_ROWS, ExchangeConfig
from serl.exchange.errors import ConfigError, DiskFullError
from serl.exchange.gateway.feed_state import NO_FEED, NOBODY, FeedState
from serl.exchange.gateway.loop import (
    JOURNAL_FAILURE,
    NEED_COMMAND_SEGMENT,
    NEED_EVENT_SEGMENT,
    NEED_MARKET_CAPACITY,
    TIMEOUT,
    journal_rows,
    serve,
)
from serl.exchange.gateway.state import (
    APPENDED,
    EVENTS,
    EXECUTED,
    LAST_COMMAND_NS,
    NEXT_SEQUENCE,
    REPORTED,
    ROWS_USABLE,
    SALT,
    new_gateway,
)  # fmt: skip
from serl.exchange.growth import POOLS, Room, pools
from serl.exchange.journal import snapshots
from serl.exchange.journal.checked_json import damaged
from serl.exchange.journal.checks import CommandCheck, check_commands
from serl.exchange.journal.event_reader import JournalReader
from serl.exchange.journal.journal import Journal
from serl.exchange.journal.meta import check_rules, is_new, limits_at, operators_at, parts
from serl.exchange.journal.news_log import NewsLog
from serl.exchange.journal.segment import Segment, first_sequence
from serl.exchange.journal.snapshots import SavedSnapshot
from serl.exchange.journal.stored import decompress
from serl.exchange.libzmq import POLL_ITEM
from serl.exchange.limits import MarketLimits
from serl.exchange.market import MATCHING_RULES, Market
from serl.exchange.records import COMMAND, EVENT, Rows

ROOM_SLOTS = 1 << 21
"""Number of open orders up to which the book grows without being copied: 200 MB of address space, 600 MB with all order types."""
RETRY_S = 0.2
"""Seconds between two attempts to make room on a full disk."""


@dataclasses.dataclass(frozen=True)
class Recovery:
    """What the exchange restored from the journal at its start."""

    snapshot_sequence: int  # the last command that the snapshot contains; 0 = no snapshot
    commands: int  # number of commands executed again after the snapshot
    dropped_bytes: int  # bytes of an incomplete last command


class Core:
    """Market, gateway and journal of one exchange."""

    def __init__(self, config: ExchangeConfig, folder: Path) -> None:
        self.config = config
        self.symbols = [symbol.reference for symbol in config.symbols]
        self.assets = Assets(config.symbols)
        self.assets.check(config.accounts)
        self.journal = Journal(folder, self.symbols, config.journal)
        self.gateway = new_gateway(config.limits)
        self.journal.set_salt(self.gateway)
        self._next_retry = 0.0
        self._copies = Room(ROOM_SLOTS)
        self.socket = 0  # raw handle of the orders socket; 0 = none, and then no sessions either
        self.poll = np.zeros(4, POLL_ITEM)  # the sockets that the loop polls; the exchange sets them
        self.before_event_rotation: list[Callable[[], None]] = []  # called before the current event segment is replaced
        try:
            self.recovery = self._recover()
        except BaseException:
            self.journal.unlock()
            raise

    @property
    def event_sequence(self) -> int:
        """The sequence number of the last event."""
        return self.journal.events.first_sequence + int(self.gateway.counter[EVENTS]) - 1

    @property
    def command_sequence(self) -> int:
        """The sequence number of the last journaled command."""
        return int(self.gateway.counter[NEXT_SEQUENCE]) - 1

    @property
    def executed_sequence(self) -> int:
        """The sequence number of the last executed command."""
        return self.command_sequence - int(self.gateway.counter[APPENDED] - self.gateway.counter[EXECUTED])

    @property
    def time_ns(self) -> int:
        """Exchange time of the last command."""
        return int(self.gateway.counter[LAST_COMMAND_NS])

    def read_events(self) -> JournalReader:
        """A reader of trades and phases that starts at the next event."""
        return JournalReader(self.journal, self.gateway, self.before_event_rotation)

    def map_segments(self) -> None:
        """Points the compiled code at the arrays of the current segments."""
        commands, events = self.journal.commands, self.journal.events
        event_bytes = events.rows.view(np.uint8).reshape(events.capacity, EVENT.itemsize)
        self.journal.set_usable(self.gateway)
        self.arrays: Any = (commands.rows, commands.words(), commands.bytes(), events.rows, event_bytes)

    def execute_journaled(self) -> None:
        """Executes everything that is journaled and sends the reports.

        It runs the compiled loop without receiving: a separate function would compile the whole kernel a second time.
        """
        self.journal.commit(self.gateway)
        while (reason := self.serve(deadline_ns=0, messages_max=0)) != TIMEOUT:
            self.add_capacity(reason)

    def serve(self, deadline_ns: int, messages_max: int, feed: FeedState = NO_FEED, publisher: int = NOBODY) -> int:
        """Runs the compiled loop once. Returns the reason why it returned (gateway.loop). Raises JournalError if the journal cannot be written."""
        reason = int(
            serve(
                self.gateway,
                self.market.state,
                self.arrays,
                self.socket,
                self.poll,
                deadline_ns,
                messages_max,
                feed,
                publisher,
            )
        )
        if reason == JOURNAL_FAILURE:
            self.journal.raise_if_failed()
        return reason

    def warm_up(self) -> None:
        """Compiles or loads the functions called between two runs of the loop, so that no client waits for them later."""
        self.execute_journaled()
        Market.warm()
        if self.config.needs_full_rule_book and not len(self.market.state.extras):  # while there are few orders to move
            self.market.state.counters["wants_full_book"] = 1
            self.market.grow()
        for name in POOLS:  # their memory is provided before the first snapshot
            self._copies.reserved(name, getattr(self.market.state, name), 0)

    def add_capacity(self, reason: int) -> bool:
        """Provides what the compiled loop ran out of: a new event segment, a larger market, a new command segment.

        Returns False if the disk has no room for a command segment: the loop's pending message must be rejected."""
        if reason == NEED_EVENT_SEGMENT:
            for callback in self.before_event_rotation:
                callback()
            self.journal.rotate_events(self.gateway, self.event_sequence + 1)
            self.map_segments()
        elif reason == NEED_MARKET_CAPACITY:
            self.market.grow()
            self.journal.wake()
        elif reason == NEED_COMMAND_SEGMENT:
            return self.make_room() if self.journal.is_full else self._rotate_commands()
        return True

    def _rotate_commands(self) -> bool:
        """Starts a new command segment, with a snapshot before it if there is room for one. Returns False if the disk is full."""
        self.execute_journaled()
        try:
            if not self.journal.is_saving_snapshot:
                self.save_snapshot()
            self.journal.rotate_commands(self.gateway)
        except DiskFullError:
            self.journal.set_full(True, self.gateway)
            return False
        self.map_segments()
        return True

    def make_room(self) -> bool:
        """After the disk was full: writes the pending data, and accepts orders again if that succeeds. Tries at most once per `RETRY_S`."""
        if not self.journal.is_full:
            return True
        if time.monotonic() < self._next_retry:
            return False
        self._next_retry = time.monotonic() + RETRY_S
        try:
            self.journal.write_events(self.gateway)
        except DiskFullError:
            return False
        if not self._rotate_commands():
            return False
        self.journal.set_full(False, self.gateway)
        return True

    def submit(self, rows: Rows) -> None:
        """Journals and executes COMMAND rows; sets their sequence and checksum.

        While the disk is full it uses the reserved rows. Raises DiskFullError once they are used up."""
        done = 0
        while done < len(rows):
            part = rows[done : done + self._free_rows()]
            journal_rows(self.gateway, self.arrays[0], self.arrays[1], part)
            self.execute_journaled()
            done += len(part)

    @property
    def cancellation_rows(self) -> int:
        """Number of reserved rows left for participants' cancellations while the disk is full."""
        return self.journal.commands.capacity - int(self.gateway.counter[APPENDED]) - RESERVED_ROWS // 4

    def rows_for_participants(self) -> int:
        """Number of free rows in the command segment for participants' commands, in a new segment if it has none; 0 while the disk is full."""
        counter = self.gateway.counter
        free = int(counter[ROWS_USABLE] - counter[APPENDED])
        if free <= 0 and self.add_capacity(NEED_COMMAND_SEGMENT):
            free = int(counter[ROWS_USABLE] - counter[APPENDED])
        return max(0, free)

    def _free_rows(self) -> int:
        """The same as `rows_for_participants`, or the number of reserved rows if that is 0."""
        counter, free = self.gateway.counter, self.rows_for_participants()
        if free <= 0:
            free = self.journal.commands.capacity - int(counter[APPENDED])
        if free <= 0:
            raise DiskFullError(
                f"{self.journal.folder}: expected room for the exchange's own commands, got a full disk and no reserved rows; "
                "free some disk space, then start again on this folder"
            )
        return free

    def save_snapshot(self) -> None:
        """Saves the state after the last command, from which a restart begins; in the background while the exchange serves."""
        self.execute_journaled()
        if self.journal.is_saving_snapshot:  # it reads the last copy
            self._copies = Room(ROOM_SLOTS)
        copy = self.market.copied(self._copies)
        numbers = self.command_sequence, self.time_ns, self.event_sequence
        self.journal.save_snapshot(lambda: SavedSnapshot(*numbers, copy.snapshot()), self.gateway)

    def populate(self) -> None:
        """Makes the system provide the memory that the book and its copies grow into. For the journal's thread."""
        state = self.market.state
        self.market.room.populate(pools(state), len(state.orders), len(state.table))
        self._copies.populate(POOLS, len(state.orders))

    def close(self) -> None:
        """Writes a snapshot, syncs and closes the journal."""
        try:
            self.save_snapshot()
            self.journal.close(self.gateway)
        except DiskFullError:
            self.journal.set_full(True, self.gateway)
            self.journal.commands.sync()
            self.journal.abandon()  # the next start regenerates what could not be written

    def _recover(self) -> Recovery:
        counter = self.gateway.counter
        snapshot_sequence = self._load_snapshot()
        checks = self._check_segments(snapshot_sequence)
        if checks:
            stop = checks[-1].first_sequence + checks[-1].valid
            check_rules(self.journal.folder, self.journal.meta, snapshot_sequence + 1, stop, MATCHING_RULES)
        self.journal.store.find(self._first_event)  # raises if it is damaged
        self.news_log = NewsLog(self.journal.folder, self.journal.id, self.config.limits.news_kept)
        self.journal.start()
        self._open_events()
        executed = 0
        for check in checks:
            path = check.path
            if path.suffix == ".zrows":  # compressed, but needed again because a later snapshot is damaged
                path = decompress(path, COMMAND, self.journal.id)
            skip = max(0, snapshot_sequence + 1 - check.first_sequence)
            segment = Segment.open(path, COMMAND)
            segment.write_again(check.valid)  # an earlier process may have ended without a sync
            segment.bytes()[check.valid * COMMAND.itemsize :][: check.tail_bytes] = 0
            if check.valid < skip:
                # truncated before the snapshot's last command: nothing is lost, and a new segment follows the snapshot
                segment.close(check.valid)
                self.journal.create_commands(snapshot_sequence + 1)
                self.map_segments()
                continue
            self.journal.commands = segment
            counter[EXECUTED], counter[APPENDED] = skip, check.valid
            counter[NEXT_SEQUENCE] = segment.first_sequence + check.valid
            if check.valid:
                counter[LAST_COMMAND_NS] = max(counter[LAST_COMMAND_NS], segment.rows[check.valid - 1]["time_ns"])
            self.map_segments()
            self._execute_again(segment.first_sequence, check.valid)
            executed += check.valid - skip
            if check is not checks[-1]:
                segment.close()
        if not checks:
            self.journal.create_commands(int(counter[NEXT_SEQUENCE]))
            self.map_segments()
        limits = market_limits(self.config)
        self._set_rules(limits, self.journal.operators())
        self.journal.note_limits(self.command_sequence + 1, dataclasses.asdict(limits), MATCHING_RULES)
        return Recovery(snapshot_sequence, executed, checks[-1].tail_bytes if checks else 0)

    def _execute_again(self, first: int, valid: int) -> None:
        """Executes the rest of a segment again, each command under the same limits and operators as the first time."""
        meta, today = self.journal.meta, market_limits(self.config)
        for begin, stop in parts(meta, first + int(self.gateway.counter[EXECUTED]), first + valid):
            operators = operators_at(meta, begin)
            limits = dataclasses.replace(today, **limits_at(meta, begin))
            self._set_rules(limits, self.journal.operators() if operators is None else operators)
            self.gateway.counter[APPENDED] = stop - first
            self.execute_journaled()

    def _set_rules(self, limits: MarketLimits, operators: list[int]) -> None:
        self.market.set_limits(limits)
        self.market.state.operator[:] = 0
        self.market.state.operator[operators] = 1

    def _check_segments(self, snapshot_sequence: int) -> list[CommandCheck]:
        """Checks the command segments, beginning with the one that contains the snapshot's next command. Raises JournalError if one is damaged or
        missing: only the last row of the last one may be unfinished. Changes nothing."""
        paths = self.journal.segments("commands")
        later = [first_sequence(path) > snapshot_sequence + 1 for path in paths[1:]] + [True]
        needed = [path for path, is_needed in zip(paths, later, strict=False) if is_needed]
        expected, checks = snapshot_sequence + 1, []
        for path in needed:
            check = check_commands(path, int(self.gateway.counter[SALT]), self.journal.id)
            if damage := check.damage(last=path == needed[-1]):
                raise damaged(path, damage)
            if check.first_sequence > expected:
                raise damaged(path, f"expected command {expected} first, got {check.first_sequence}; a file is missing")
            expected = max(expected, check.first_sequence + check.valid)
            checks.append(check)
        if not paths and snapshot_sequence == 0 and (self.journal.participants or not is_new(self.journal.folder)):
            raise damaged(self.journal.folder / "commands-*.rows", "expected the files of the commands, got none")
        return checks

    def _load_snapshot(self) -> int:
        """Restores the newest valid snapshot. Returns the sequence number of its last command, 0 without one."""
        limits = market_limits(self.config)
        names = [symbol["name"] for symbol in self.symbols]
        self._check_participants(len(self.journal.participants))
        for path in reversed(snapshots.snapshot_paths(self.journal.folder)):
            saved = snapshots.load(path, self.journal.id)
            if saved is None:
                continue
            self._check_participants(len(saved.market.report))
            self.gateway.counter[LAST_COMMAND_NS] = saved.now_ns
            self.gateway.counter[NEXT_SEQUENCE] = saved.sequence + 1
            self._first_event = saved.event_sequence + 1
            self.market = Market.restore(saved.market, symbols=names, limits=limits, room_slots=ROOM_SLOTS)
            return saved.sequence
        self.market = Market(names, limits=limits, room_slots=ROOM_SLOTS)
        self.gateway.counter[NEXT_SEQUENCE] = 1
        self._first_event = 1
        return 0

    def _check_participants(self, used: int) -> None:
        """Raises ConfigError if the market has no room for the first `used` participants."""
        most = self.config.limits.participants_max
        if used > most:
            raise ConfigError(
                f"participants_max: expected at least {used}, as the journal in {self.journal.folder} has {used} participants, got {most}; "
                "raise it, or start with another folder"
            )

    def _open_events(self) -> None:
        """Opens the event log that contains event `_first_event`, or creates one that starts with it. Removes the files after it: their events are
        generated again, in files that may begin elsewhere."""
        counter = self.gateway.counter
        counter[EVENTS] = counter[REPORTED] = self.journal.store.open(self._first_event)
        self.journal.store.delete_later()
        self.journal.store.index_answers()


def market_limits(config: ExchangeConfig) -> MarketLimits:
    """The order book's limits from the configured limits."""
    names = {field.name for field in dataclasses.fields(MarketLimits)}
    limits = config.limits.model_dump()
    return MarketLimits(**{name: limits[name] for name in names & limits.keys()})
