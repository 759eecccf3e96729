"""The journaled market: journals commands, executes them in the book, encodes the reports. It opens no sockets."""

import dataclasses
import hashlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from serl.exchange.config import ExchangeConfig
from serl.exchange.errors import JournalError
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
    SALT,
    new_gateway,
)  # fmt: skip
from serl.exchange.journal.answers import SegmentAnswers
from serl.exchange.journal.journal import Journal
from serl.exchange.journal.segment import Segment, read_header
from serl.exchange.libzmq import POLL_ITEM
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import ACCOUNT_COLUMNS, COMMAND, EVENT, Rows
from serl.exchange.row_checksum import count_valid, find_valid
from serl.exchange.snapshot import Snapshot

SNAPSHOT_FIELDS = {field.name for field in dataclasses.fields(Snapshot)}


@dataclasses.dataclass(frozen=True)
class Recovery:
    """What a start restored from the journal."""

    snapshot_sequence: int  # the last command that the snapshot contains; 0 = no snapshot
    commands: int  # number of commands executed again after the snapshot
    dropped_bytes: int  # bytes of an incomplete last command


class Core:
    """Market, gateway and journal of one exchange."""

    def __init__(self, config: ExchangeConfig, folder: Path) -> None:
        self.config = config
        self.symbols = [symbol.reference for symbol in config.symbols]
        self.journal = Journal(folder, self.symbols, config.journal.segment_rows)
        self.gateway = new_gateway(config.limits)
        self.journal.set_salt(self.gateway)
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
    def time_ns(self) -> int:
        """Exchange time of the last command."""
        return int(self.gateway.counter[LAST_COMMAND_NS])

    def map_segments(self) -> None:
        """Points the compiled code at the arrays of the current segments."""
        commands, events = self.journal.commands, self.journal.events
        event_bytes = events.rows.view(np.uint8).reshape(events.capacity, EVENT.itemsize)
        self.arrays: Any = (commands.rows, commands.words(), commands.bytes(), events.rows, event_bytes)

    def execute_journaled(self) -> None:
        """Executes everything that is journaled and sends the reports.

        It runs the compiled loop without receiving: a separate function would compile the whole kernel a second time.
        """
        self.journal.commit(self.gateway)
        while (reason := self.serve(deadline_ns=0, messages_max=0)) != TIMEOUT:
            self.add_capacity(reason)

    def serve(self, deadline_ns: int, messages_max: int, has_subscribers: bool = False) -> int:
        """Runs the compiled loop once. Returns why it came back (gateway.loop). Raises JournalError if the journal cannot be written."""
        reason = int(
            serve(
                self.gateway,
                self.market.state,
                self.arrays,
                self.socket,
                self.poll,
                deadline_ns,
                messages_max,
                has_subscribers,
            )
        )
        if reason == JOURNAL_FAILURE:
            self.journal.raise_if_failed()
        return reason

    def warm_up(self) -> None:
        """Compiles or loads the functions called between two runs of the loop, so that no client waits for them later."""
        self.execute_journaled()
        Market.warm()

    def add_capacity(self, reason: int) -> None:
        """Provides what the compiled loop ran out of: a new event segment, a larger market, a new command segment."""
        if reason == NEED_EVENT_SEGMENT:
            for callback in self.before_event_rotation:
                callback()
            self.journal.rotate_events(self.gateway, self.event_sequence + 1)
            self.map_segments()
        elif reason == NEED_MARKET_CAPACITY:
            self.market.grow()
        elif reason == NEED_COMMAND_SEGMENT:
            self.execute_journaled()
            self.save_snapshot()
            self.journal.rotate_commands(self.gateway)
            self.map_segments()

    def submit(self, rows: Rows) -> None:
        """Journals and executes COMMAND rows; it sets their sequence and checksum."""
        done = 0
        while done < len(rows):
            free = len(self.arrays[0]) - int(self.gateway.counter[APPENDED])
            part = rows[done : done + free]
            journal_rows(self.gateway, self.arrays[0], self.arrays[1], part)
            self.execute_journaled()
            done += len(part)
            if done < len(rows):
                self.add_capacity(NEED_COMMAND_SEGMENT)

    def save_snapshot(self) -> None:
        """Writes the state after the last command; a restart begins there."""
        self.journal.write_events(self.gateway)  # a restart cannot regenerate the events before its snapshot
        path = self.journal.folder / f"snapshot-{self.command_sequence:012d}.npz"
        snapshot = self.market.snapshot()
        fields = {field.name: np.asarray(getattr(snapshot, field.name)) for field in dataclasses.fields(snapshot)}
        temporary = path.with_suffix(".tmp")
        with temporary.open("wb") as file:
            np.savez(
                file,
                allow_pickle=False,
                now_ns=self.gateway.counter[LAST_COMMAND_NS],
                event_sequence=self.event_sequence,
                **fields,
            )
            file.flush()
            os.fsync(file.fileno())
        digest = hashlib.sha256(temporary.read_bytes()).hexdigest()
        path.with_suffix(".sha256").write_text(digest)
        temporary.replace(path)

    def close(self) -> None:
        """Writes a snapshot, syncs and closes the journal."""
        self.execute_journaled()
        self.save_snapshot()
        self.journal.close(self.gateway)

    def _recover(self) -> Recovery:
        counter = self.gateway.counter
        snapshot_sequence = self._load_snapshot()
        first_event = self._open_events()
        self.journal.index_answers()
        for participant, entry in enumerate(self.journal.participants):
            if entry.get("operator"):  # older journals lack the key
                self.market.grant_operator(participant)
        executed, dropped = 0, 0
        paths = [path for path in self.journal.segments("commands") if self._is_needed(path, snapshot_sequence)]
        for path in paths:
            segment = Segment.open(path, COMMAND)
            valid, dropped = self._count_valid_rows(segment, last=path == paths[-1])
            skip = max(0, snapshot_sequence + 1 - segment.first_sequence)
            if segment.first_sequence + skip != counter[NEXT_SEQUENCE]:
                raise JournalError(
                    f"{path}: expected command {counter[NEXT_SEQUENCE]} first, got {segment.first_sequence}: "
                    "a file of the journal is missing; restore it"
                )
            if valid < skip:
                # truncated before the snapshot's last command: nothing is lost, and a new segment follows the snapshot
                segment.close(valid)
                self.journal.create_commands(snapshot_sequence + 1)
                self.map_segments()
                continue
            self.journal.commands = segment
            counter[EXECUTED], counter[APPENDED] = skip, valid
            counter[NEXT_SEQUENCE] = segment.first_sequence + valid
            if valid:
                counter[LAST_COMMAND_NS] = max(counter[LAST_COMMAND_NS], segment.rows[valid - 1]["time_ns"])
            self.map_segments()
            self.execute_journaled()
            executed += valid - skip
        if not paths:
            self.journal.create_commands(int(counter[NEXT_SEQUENCE]))
            self.map_segments()
        self._delete_later_events()
        assert self.event_sequence >= first_event - 1
        return Recovery(snapshot_sequence, executed, dropped)

    def _is_needed(self, path: Path, snapshot_sequence: int) -> bool:
        """Whether a command segment has commands after the snapshot, or is the last one."""
        later = [other for other in self.journal.segments("commands") if other > path]
        return not later or int(later[0].stem.partition("-")[2]) > snapshot_sequence + 1

    def _load_snapshot(self) -> int:
        """Restores the newest valid snapshot. Returns the sequence number of its last command, 0 without one."""
        limits = market_limits(self.config)
        names = [symbol["name"] for symbol in self.symbols]
        for path in sorted(self.journal.folder.glob("snapshot-*.npz"), reverse=True):
            sidecar = path.with_suffix(".sha256")
            if not sidecar.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != sidecar.read_text():
                continue
            try:
                values = dict(np.load(path, allow_pickle=False))
            except (ValueError, OSError, zipfile.BadZipFile):
                continue
            if SNAPSHOT_FIELDS - values.keys() or values["accounts"].shape[1] != ACCOUNT_COLUMNS:
                continue  # written by an older version: the journal has all commands
            counter = self.gateway.counter
            counter[LAST_COMMAND_NS] = values.pop("now_ns")
            self._first_event = int(values.pop("event_sequence")) + 1
            self.market = Market.restore(_snapshot(values), symbols=names, limits=limits)
            sequence = int(path.stem.partition("-")[2])
            counter[NEXT_SEQUENCE] = sequence + 1
            return sequence
        self.market = Market(names, limits=limits)
        self.gateway.counter[NEXT_SEQUENCE] = 1
        self._first_event = 1
        return 0

    def _open_events(self) -> int:
        """Opens the event segment that contains event `_first_event`, or creates one that starts with it."""
        first = self._first_event
        for path in reversed(self.journal.segments("events")):
            header = read_header(path, EVENT)
            index = first - header["first_sequence"]
            if 0 <= index <= header["capacity"]:
                self.journal.open_events(path, header["first_sequence"], index)
                self.gateway.counter[EVENTS] = self.gateway.counter[REPORTED] = index
                return first
        self.journal.create_events(first)
        return first

    def _count_valid_rows(self, segment: Segment, last: bool) -> tuple[int, int]:
        """(valid rows at the start, bytes of an incomplete row after them). Raises JournalError if valid rows follow an invalid one."""
        words, salt = segment.words(), int(self.gateway.counter[SALT])
        valid = int(count_valid(segment.rows, words, segment.first_sequence, salt))
        later = (
            int(find_valid(segment.rows, words, segment.first_sequence, valid, salt))
            if valid < segment.capacity
            else -1
        )
        if later >= 0 or (not last and valid == 0):
            raise JournalError(
                f"{segment.path}: command {segment.first_sequence + valid} is corrupt but later ones are valid: the file "
                "is damaged, and starting would lose acknowledged orders; restore it from a copy"
            )
        rest = segment.bytes()[valid * COMMAND.itemsize : segment.found_bytes]
        used = np.flatnonzero(rest)
        dropped = int(used[-1]) + 1 if len(used) else 0
        rest[:] = 0
        return valid, dropped

    def _delete_later_events(self) -> None:
        """Deletes event segments after the current one: their commands are no longer in the journal."""
        for path in self.journal.segments("events"):
            if path > self.journal.events.path:
                path.unlink()
                SegmentAnswers(path).delete_saved()


def market_limits(config: ExchangeConfig) -> MarketLimits:
    """The limits of the order book within the configured limits."""
    names = {field.name for field in dataclasses.fields(MarketLimits)}
    limits = config.limits.model_dump()
    return MarketLimits(**{name: limits[name] for name in names & limits.keys()})


def _snapshot(values: dict[str, Any]) -> Snapshot:
    return Snapshot(**{name: value if value.ndim else value.item() for name, value in values.items()})
