"""The journaled market: commands in, journal first, then the book, then reports. No sockets of its own."""

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
from serl.exchange.gateway.codec import read_order
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
    index_sessions,
    new_gateway,
)  # fmt: skip
from serl.exchange.gateway.timing import clock_now_ns
from serl.exchange.journal.answers import SegmentAnswers
from serl.exchange.journal.journal import Journal
from serl.exchange.journal.rows import count_valid, find_valid
from serl.exchange.journal.segment import Segment, read_header
from serl.exchange.libzmq import POLL_ITEM
from serl.exchange.market import Market, MarketLimits
from serl.exchange.records import ACCOUNT_COLUMNS, COMMAND, EVENT, Rows
from serl.exchange.snapshot import Snapshot

SNAPSHOT_FIELDS = {field.name for field in dataclasses.fields(Snapshot)}


@dataclasses.dataclass(frozen=True)
class Recovery:
    """What a start found in the journal."""

    snapshot_sequence: int  # the command after which the snapshot was made; 0 = none
    commands: int  # executed again since then
    dropped_bytes: int  # of a last command that was not whole


class Core:
    """Market, gateway and journal of one exchange."""

    def __init__(self, config: ExchangeConfig, folder: Path) -> None:
        self.config = config
        self.symbols = [symbol.reference for symbol in config.symbols]
        self.journal = Journal(folder, self.symbols, config.journal.segment_rows)
        self.gateway = new_gateway(config.limits)
        self.journal.set_salt(self.gateway)
        self.socket = 0  # raw handle of the orders socket; 0 while there is none: then there is no session either
        self.poll = np.zeros(4, POLL_ITEM)  # the sockets that end a turn; the exchange fills it in
        self.before_event_rotation: list[Callable[[], None]] = []  # who reads the current event segment
        try:
            self.recovery = self._recover()
        except BaseException:
            self.journal.unlock()
            raise

    @property
    def event_sequence(self) -> int:
        """The number of the last event."""
        return self.journal.events.first_sequence + int(self.gateway.counter[EVENTS]) - 1

    @property
    def command_sequence(self) -> int:
        """The number of the last journaled command."""
        return int(self.gateway.counter[NEXT_SEQUENCE]) - 1

    @property
    def time_ns(self) -> int:
        """When the last command was executed."""
        return int(self.gateway.counter[LAST_COMMAND_NS])

    def map_segments(self) -> None:
        """Takes the arrays of the current segments for the compiled code."""
        commands, events = self.journal.commands, self.journal.events
        event_bytes = events.rows.view(np.uint8).reshape(events.capacity, EVENT.itemsize)
        self.arrays: Any = (commands.rows, commands.words(), commands.bytes(), events.rows, event_bytes)

    def execute_journaled(self) -> None:
        """Executes everything that is journaled and sends the reports.

        With the compiled loop, told to receive nothing: a function of its own would hold the whole kernel once more.
        """
        while (need := self.serve(deadline_ns=0, messages_max=0)) != TIMEOUT:
            self.add_capacity(need)

    def serve(self, deadline_ns: int, messages_max: int, has_subscribers: bool = False) -> int:
        """One call of the compiled loop: why it came back (gateway.loop). JournalError where the journal does not reach the disk."""
        need = int(
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
        if need == JOURNAL_FAILURE:
            self.journal.check()
        return need

    def warm_up(self) -> None:
        """Compiles or loads what is called between two turns of the loop, so that nobody waits for it later."""
        self.execute_journaled()
        journal_rows(self.gateway, self.arrays[0], self.arrays[1], self.arrays[0][:0])
        index_sessions(self.gateway)
        clock_now_ns(self.gateway)
        read_order(self.gateway.message, 0, np.zeros(1, COMMAND)[0])
        Market.warm(self.config.needs_full_rule_book)

    def add_capacity(self, need: int) -> None:
        """Does what the compiled code asked for: a new event segment, a larger market, a new command segment."""
        if need == NEED_EVENT_SEGMENT:
            for read in self.before_event_rotation:
                read()
            self.journal.rotate_events(self.gateway, self.event_sequence + 1)
            self.map_segments()
        elif need == NEED_MARKET_CAPACITY:
            self.market.grow()
        elif need == NEED_COMMAND_SEGMENT:
            self.execute_journaled()
            self.save_snapshot()
            self.journal.rotate_commands(self.gateway)
            self.map_segments()

    def submit(self, rows: Rows) -> None:
        """Journals and executes COMMAND rows that are complete but for sequence and check."""
        done = 0
        while done < len(rows):
            room = len(self.arrays[0]) - int(self.gateway.counter[APPENDED])
            part = rows[done : done + room]
            journal_rows(self.gateway, self.arrays[0], self.arrays[1], part)
            self.execute_journaled()
            done += len(part)
            if done < len(rows):
                self.add_capacity(NEED_COMMAND_SEGMENT)

    def save_snapshot(self) -> None:
        """Writes the state after the last command, so that a restart begins here."""
        self.journal.write_events(self.gateway)  # behind the snapshot nobody can make the events before it again
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
        """Snapshot, sync, close."""
        self.execute_journaled()
        self.save_snapshot()
        self.journal.close(self.gateway)

    def _recover(self) -> Recovery:
        counter = self.gateway.counter
        snapshot_sequence = self._load_snapshot()
        first_event = self._open_events()
        self.journal.index_answers()
        for participant, entry in enumerate(self.journal.participants):
            if entry.get("operator"):  # older journals do not say
                self.market.grant_operator(participant)
        executed, dropped = 0, 0
        paths = [path for path in self.journal.segments("commands") if self._follows(path, snapshot_sequence)]
        for path in paths:
            segment = Segment.open(path, COMMAND)
            whole, dropped = self._whole_rows(segment, last=path == paths[-1])
            skip = max(0, snapshot_sequence + 1 - segment.first_sequence)
            if segment.first_sequence + skip != counter[NEXT_SEQUENCE]:
                raise JournalError(
                    f"{path}: starts at command {segment.first_sequence}, command {counter[NEXT_SEQUENCE]} is due: "
                    "a file of the journal is missing; put it back"
                )
            if whole < skip:  # cut shorter than the snapshot knows: nothing is lost, and we go on behind the snapshot
                segment.close(whole)
                self.journal.create_commands(snapshot_sequence + 1)
                self.map_segments()
                continue
            self.journal.commands = segment
            counter[EXECUTED], counter[APPENDED] = skip, whole
            counter[NEXT_SEQUENCE] = segment.first_sequence + whole
            if whole:
                counter[LAST_COMMAND_NS] = max(counter[LAST_COMMAND_NS], segment.rows[whole - 1]["time_ns"])
            self.map_segments()
            self.execute_journaled()
            executed += whole - skip
        if not paths:
            self.journal.create_commands(int(counter[NEXT_SEQUENCE]))
            self.map_segments()
        self._drop_later_events()
        assert self.event_sequence >= first_event - 1
        return Recovery(snapshot_sequence, executed, dropped)

    def _follows(self, path: Path, snapshot_sequence: int) -> bool:
        """Whether a command segment holds anything behind the snapshot, or is the one to go on in."""
        later = [other for other in self.journal.segments("commands") if other > path]
        return not later or int(later[0].stem.partition("-")[2]) > snapshot_sequence + 1

    def _load_snapshot(self) -> int:
        """Restores the newest snapshot that is whole; the sequence of the command it follows."""
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
                continue  # of an older version: the journal has it all
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
        """Opens the event segment in which event `_first_event` is, or makes one that starts there."""
        first = self._first_event
        for path in reversed(self.journal.segments("events")):
            head = read_header(path, EVENT)
            place = first - head["first_sequence"]
            if 0 <= place <= head["capacity"]:
                self.journal.open_events(path, head["first_sequence"], place)
                self.gateway.counter[EVENTS] = self.gateway.counter[REPORTED] = place
                return first
        self.journal.create_events(first)
        return first

    def _whole_rows(self, segment: Segment, last: bool) -> tuple[int, int]:
        """(whole rows, bytes behind them that belong to none). Whole rows behind a broken one are an error."""
        words, salt = segment.words(), int(self.gateway.counter[SALT])
        whole = int(count_valid(segment.rows, words, segment.first_sequence, salt))
        later = (
            int(find_valid(segment.rows, words, segment.first_sequence, whole, salt))
            if whole < segment.capacity
            else -1
        )
        if later >= 0 or (not last and whole == 0):
            raise JournalError(
                f"{segment.path}: command {segment.first_sequence + whole} is broken but later ones are whole: the file "
                "was damaged, and starting would lose acknowledged orders; restore it from a copy"
            )
        rest = segment.bytes()[whole * COMMAND.itemsize : segment.found_bytes]
        used = np.flatnonzero(rest)
        dropped = int(used[-1]) + 1 if len(used) else 0
        rest[:] = 0
        return whole, dropped

    def _drop_later_events(self) -> None:
        """Removes event segments behind the current one: they tell of commands that the journal no longer has."""
        for path in self.journal.segments("events"):
            if path > self.journal.events.path:
                path.unlink()
                SegmentAnswers(path).delete_saved()


def market_limits(config: ExchangeConfig) -> MarketLimits:
    """The book's part of the limits."""
    names = {field.name for field in dataclasses.fields(MarketLimits)}
    given = config.limits.model_dump()
    return MarketLimits(**{name: given[name] for name in names & given.keys()})


def _snapshot(values: dict[str, Any]) -> Snapshot:
    return Snapshot(**{name: value if value.ndim else value.item() for name, value in values.items()})
