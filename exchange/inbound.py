"""Commands that wait for their arrival time: all commands in lockstep; under every clock, those of participants with a latency."""

import numpy as np

from serl.exchange.clock import Clock
from serl.exchange.core import Core
from serl.exchange.gateway.state import STAGED, STAGED_LEFT, STAGED_RESERVED, UNDELAYED
from serl.exchange.kernel.state import NEVER
from serl.exchange.latency import Delays, Integers
from serl.exchange.records import BAND_ACTION, BAND_HIGH, BAND_LOW, COMMAND, CommandFlag, CommandKind, Rows, TimeInForce
from serl.exchange.schedule import Schedule

RESCHEDULING, SCHEDULED = np.zeros(256, np.bool_), np.zeros(256, np.bool_)
"""Flags by kind: commands that may make others due earlier; commands that an exchange sends on schedule."""
RESCHEDULING[[CommandKind.HALT, CommandKind.RESUME, CommandKind.PHASE, CommandKind.UNCROSS, CommandKind.RULE]] = True
SCHEDULED[:] = RESCHEDULING
SCHEDULED[[CommandKind.END_DAY, CommandKind.TIME]] = True
PARTS_MAX = 256
"""After this many parts the exchange serves its clients again; the schedule is checked between parts."""


class Inbound:
    """The gateway's staged rows, executed in (arrival time, participant, command id) order."""

    def __init__(self, core: Core, clock: Clock) -> None:
        self._core = core
        self._gateway = core.gateway
        self._clock = clock
        self._delays: dict[int, Delays] = {}
        self._last_arrival_ns: dict[int, int] = {}
        #: commands that the exchange sends for disconnected participants; kept apart because the staged rows may be full
        self._exchange_rows = np.zeros(0, COMMAND)
        #: for each of them, the last command id that its participant had sent before: it orders commands that are raised to the same time
        self._exchange_after = np.zeros(0, np.int64)
        #: commands of many participants from a recorded day, and the participant whose place they take in the execution order
        self._recorded, self._recorded_by = np.zeros(0, COMMAND), 0
        self._is_blocked, self._parts = False, 0
        #: the scheduled commands, which come before commands that arrive at the same time
        self.schedule: Schedule | None = None

    @property
    def is_blocked(self) -> bool:
        """Whether commands have arrived but wait for room on the disk."""
        return self._is_blocked and self._core.journal.is_full

    def open(self, slot: int, participant: int, delays: Delays | None) -> None:
        """Opens a session to whose commands these delays apply."""
        self._gateway.delayed[slot] = delays is not None
        if delays is None:
            self._delays.pop(participant, None)
        else:
            self._delays[participant] = delays

    def delay_last_message(self) -> None:
        """Adds the latency to the last staged message; it arrives after everything that its participant sent before."""
        staged, undelayed = int(self._gateway.counter[STAGED]), int(self._gateway.counter[UNDELAYED])
        self._gateway.counter[UNDELAYED] = 0
        self._delay(self._gateway.staged[staged - undelayed : staged])

    def append_for_exchange(self, row: Rows) -> bool:
        """Delays the exchange's command for a participant until after the participant's own commands. Returns False, and does nothing,
        if the participant has no latency and none of its commands waits."""
        participant = int(row[0]["participant"])
        waiting = self._staged()
        own = waiting[waiting["participant"] == participant]
        if participant in self._delays:
            # one ns later, because the row has no command id that would sort it last
            self._last_arrival_ns[participant] = self._last_arrival_ns.get(participant, 0) + 1
            self._delay(row)
        elif len(own):  # in lockstep
            row["time_ns"] = own["time_ns"].max(initial=row[0]["time_ns"])
        else:
            return False
        self._exchange_rows = np.append(self._exchange_rows, row)
        self._exchange_after = np.append(self._exchange_after, own["command_id"].max(initial=0))
        return True

    def append_recorded(self, rows: Rows, sender: int) -> bool:
        """Adds commands of many participants; they arrive in this order, as if `sender` had sent them. Returns False if they do not fit."""
        if len(self._recorded) + len(rows) > len(self._gateway.staged):
            return False
        is_earlier = len(self._recorded) > 0 and rows["time_ns"][0] < self._recorded["time_ns"][-1]
        self._recorded, self._recorded_by = np.append(self._recorded, rows), sender
        if is_earlier:  # of a later session
            self._recorded = self._recorded[np.argsort(self._recorded["time_ns"], kind="stable")]
        return True

    def last_sent_ns(self, participant: int) -> int:
        """The time before which a new session of a participant may send nothing: that of its last waiting command. -1 if no command waits, or if
        a latency keeps their order: then they wait until some time after they were sent."""
        if participant in self._delays:
            return -1
        staged = self._staged()
        return int(staged["time_ns"][staged["participant"] == participant].max(initial=-1))

    def _delay(self, rows: Rows) -> None:
        participant = int(rows[0]["participant"])
        sent_ns = np.maximum(rows["time_ns"], self._clock.now_ns())
        arrival_ns = sent_ns + self._delays[participant].draw_ns(rows["command_id"])
        arrival_ns[0] = max(arrival_ns[0], self._last_arrival_ns.get(participant, 0))
        rows["time_ns"] = np.maximum.accumulate(arrival_ns)
        self._last_arrival_ns[participant] = int(rows[-1]["time_ns"])

    def _staged(self) -> Rows:
        return self._gateway.staged[: int(self._gateway.counter[STAGED])]

    @property
    def has_commands(self) -> bool:
        """Whether any command waits."""
        return self.count > 0

    @property
    def count(self) -> int:
        """The number of commands that wait."""
        return int(self._gateway.counter[STAGED]) + len(self._exchange_rows) + len(self._recorded)

    @property
    def next_ns(self) -> int:
        """When to execute the next command; NEVER if none waits, or all of them wait for room on the disk. O(waiting commands)."""
        if not self.has_commands or self.is_blocked:
            return NEVER
        parts = (self._staged(), self._exchange_rows, self._recorded)
        return min(int(part["time_ns"].min(initial=NEVER)) for part in parts)

    def last_ns(self, initial_ns: int) -> int:
        """Arrival time of the last command, at least initial_ns."""
        parts = (self._staged(), self._exchange_rows, self._recorded)
        return max(int(part["time_ns"].max(initial=initial_ns)) for part in parts)

    def execute(self, until_ns: int, earliest_ns: int | None = None, is_scheduled: bool = False) -> bool:
        """Executes the commands that arrive before until_ns, or before anything that they make due earlier. Arrival times before earliest_ns (None: the
        time of the last command) are raised to it. Returns False if some must wait: after `PARTS_MAX` parts, or because the disk is full. The waiting
        commands are not acknowledged, and the reserved rows are not for them."""
        self._is_blocked, self._parts = False, 0
        if earliest_ns is None:
            earliest_ns = self._core.time_ns
        while self.has_commands and not self._is_blocked:
            rows = self._staged()
            np.maximum(rows["time_ns"], earliest_ns, out=rows["time_ns"])
            for waiting in (self._exchange_rows, self._recorded):
                np.maximum(waiting["time_ns"], earliest_ns, out=waiting["time_ns"])
            bound_ns = min(until_ns, self._due_ns)
            has_more = self._execute_some(bound_ns, is_scheduled)
            if not has_more and (
                bound_ns == until_ns or self._due_ns <= bound_ns
            ):  # otherwise an order that was to expire is gone
                break
            if self._parts >= PARTS_MAX:
                return False
        return not self._is_blocked

    def execute_before(self, time_ns: int, earliest_ns: int | None = None) -> bool:
        """Like `execute`, if scheduled commands are due at time_ns. Before them come commands that wait for the disk, on which they may depend, and
        commands of a recorded day that were also due at that time."""
        self._core.execute_journaled()
        return self.execute(time_ns, earliest_ns, is_scheduled=True)

    def _execute_some(self, until_ns: int, is_scheduled: bool) -> bool:
        """Executes the first commands that arrive before until_ns, up to the room in the command segment. Returns whether there are more."""
        rows = self._staged()
        due = np.flatnonzero(rows["time_ns"] < until_ns)
        exchange_due = np.flatnonzero(self._exchange_rows["time_ns"] < until_ns)
        recorded = self._recorded[: self._count_recorded(until_ns, is_scheduled)]
        ready = np.concatenate((rows[due], self._exchange_rows[exchange_due], recorded))
        if not len(ready):
            return False
        participants, command_ids = ready["participant"].copy(), ready["command_id"].copy()
        own, stop = len(due), len(due) + len(exchange_due)
        command_ids[own:stop] = self._exchange_after[exchange_due]
        is_exchange = np.zeros(len(ready), np.bool_)
        is_exchange[own:stop] = True
        if len(recorded):  # these keep their order, whatever their command ids
            participants[stop:], command_ids[stop:] = self._recorded_by, np.arange(len(recorded))
        order = np.lexsort((is_exchange, command_ids, participants, ready["time_ns"]))
        order = order[: self._core.rows_for_participants()]
        self._is_blocked = not len(order)
        order = order[: self._submit_until_due(ready[order])]
        taken = np.zeros(len(ready), np.bool_)
        taken[order] = True
        self._remove(due[taken[:own]], exchange_due[taken[own:stop]], int(taken[stop:].sum()))
        return len(order) < len(ready)

    def _count_recorded(self, until_ns: int, is_scheduled: bool) -> int:
        """How many of the recorded commands arrive before until_ns. is_scheduled: also counts those at that time at the front that an exchange sends
        on schedule."""
        first = int(np.searchsorted(self._recorded["time_ns"], until_ns))
        if not is_scheduled:
            return first
        then = self._recorded[first : np.searchsorted(self._recorded["time_ns"], until_ns, side="right")]
        others = np.flatnonzero((then["command_id"] != 0) | ~SCHEDULED[then["kind"]])
        return first + int(others[0] if len(others) else len(then))

    def _submit_until_due(self, rows: Rows) -> int:
        """Executes rows (in order of arrival) until something scheduled is due before the next one. Returns how many were executed."""
        done = 0
        for stop in self._stops(rows):
            last = max(done, min(stop, int(np.searchsorted(rows["time_ns"], self._due_ns)))) if done else stop
            self._core.submit(rows[done:last])
            done, self._parts = last, self._parts + 1
            if last < stop or self._parts == PARTS_MAX:
                break
        return done

    @property
    def _due_ns(self) -> int:
        return NEVER if self.schedule is None else self.schedule.next_ns

    def _stops(self, rows: Rows) -> list[int]:
        """The row counts after which something may be due earlier than before: at the end of each time with a command that may interrupt a symbol,
        change its phase, or let an order expire. `rows` are in order of arrival."""
        symbols, kind, times_ns = self._core.market.state.symbols, rows["kind"], rows["time_ns"]
        if len(rows) < 2 or times_ns[0] == times_ns[-1]:
            return [len(rows)]
        has_bands = symbols[:, BAND_ACTION].any()
        may_expire = (rows["time_in_force"] == TimeInForce.GTT) | (rows["flags"] & CommandFlag.TERMS > 0)
        if not has_bands and kind.max() < CommandKind.HALT and not may_expire.any():
            return [len(rows)]
        changes = RESCHEDULING[kind]
        changes |= (kind == CommandKind.NEW) & (rows["time_in_force"] == TimeInForce.GTT)
        changes |= (kind == CommandKind.REPLACE) & (rows["flags"] & CommandFlag.TERMS > 0)
        changes |= has_bands and ((symbols[:, BAND_ACTION] > 0) & symbols[:, [BAND_LOW, BAND_HIGH]].any(axis=1)).any()
        stops = np.unique(np.append(np.searchsorted(times_ns, times_ns[changes], side="right"), len(rows)))
        rules = np.flatnonzero(kind == CommandKind.RULE)  # after a RULE, any command may interrupt
        if len(rules):
            stops = stops[: 1 + np.searchsorted(stops, rules[0], side="right")]
        return [int(stop) for stop in stops]

    def _remove(self, staged: Integers, for_exchange: Integers, recorded: int) -> None:
        """Removes the staged and the exchange's rows with these indices, and the first `recorded` recorded rows."""
        gateway, rows = self._gateway, self._staged()
        np.subtract.at(gateway.staged_rows, rows["participant"][staged], 1)
        taken = np.maximum(gateway.staged_rows, gateway.counter[STAGED_RESERVED]).sum()
        gateway.counter[STAGED_LEFT] = len(gateway.staged) - taken
        later = np.delete(rows, staged)
        gateway.staged[: len(later)] = later
        gateway.counter[STAGED] = len(later)
        self._exchange_rows = np.delete(self._exchange_rows, for_exchange)
        self._exchange_after = np.delete(self._exchange_after, for_exchange)
        self._recorded = self._recorded[recorded:]
