"""Commands that wait for their arrival time: all commands in lockstep; under every clock, those of participants with a latency."""

import numpy as np

from serl.exchange.clock import Clock
from serl.exchange.core import Core
from serl.exchange.gateway.state import STAGED, STAGED_LEFT, STAGED_RESERVED, UNDELAYED
from serl.exchange.kernel.state import NEVER
from serl.exchange.latency import Delays, Integers
from serl.exchange.records import COMMAND, Rows


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
        #: the last command id that the participant of each had sent before: the order of commands that are raised to the same time
        self._exchange_after = np.zeros(0, np.int64)
        #: commands of many participants from a recorded day, and the participant whose place they take in the execution order
        self._recorded, self._recorded_by = np.zeros(0, COMMAND), 0
        self._is_blocked = False

    @property
    def is_blocked(self) -> bool:
        """Whether commands have arrived and wait for room on the disk."""
        return self._is_blocked and self._core.journal.is_full

    def open(self, slot: int, participant: int, delays: Delays | None) -> None:
        """Applies these delays to the commands of a new session."""
        self._gateway.delayed[slot] = delays is not None
        if delays is None:
            self._delays.pop(participant, None)
        else:
            self._delays[participant] = delays

    def delay_last_message(self) -> None:
        """Adds the latency to the last staged message, which arrives after everything that its participant sent before."""
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
        """Adds commands of many participants, which arrive in this order as if `sender` sent them. Returns False if they do not fit."""
        if len(self._recorded) + len(rows) > len(self._gateway.staged):
            return False
        is_earlier = len(self._recorded) > 0 and rows["time_ns"][0] < self._recorded["time_ns"][-1]
        self._recorded, self._recorded_by = np.append(self._recorded, rows), sender
        if is_earlier:  # of a later session
            self._recorded = self._recorded[np.argsort(self._recorded["time_ns"], kind="stable")]
        return True

    def last_sent_ns(self, participant: int) -> int:
        """Arrival time of a participant's last command that waits, -1 if none does."""
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
        return bool(self._gateway.counter[STAGED]) or len(self._exchange_rows) > 0 or len(self._recorded) > 0

    @property
    def next_ns(self) -> int:
        """When to execute the next command, NEVER if none waits, or all for room on the disk. O(waiting commands)."""
        if not self.has_commands or self.is_blocked:
            return NEVER
        parts = (self._staged(), self._exchange_rows, self._recorded)
        return min(int(part["time_ns"].min(initial=NEVER)) for part in parts)

    def last_ns(self, initial_ns: int) -> int:
        """Arrival time of the last command, at least initial_ns."""
        parts = (self._staged(), self._exchange_rows, self._recorded)
        return max(int(part["time_ns"].max(initial=initial_ns)) for part in parts)

    def execute(self, until_ns: int, earliest_ns: int | None = None) -> bool:
        """Executes the commands that arrive before until_ns; arrival times before earliest_ns, None = the time of the last command, are raised to it. Returns False if some must wait, because
        the disk is full: none of them is acknowledged, and the reserved rows are not for them."""
        self._is_blocked = False
        if earliest_ns is None:
            earliest_ns = self._core.time_ns
        while self.has_commands and not self._is_blocked:
            rows = self._staged()
            np.maximum(rows["time_ns"], earliest_ns, out=rows["time_ns"])
            for waiting in (self._exchange_rows, self._recorded):
                np.maximum(waiting["time_ns"], earliest_ns, out=waiting["time_ns"])
            if not self._execute_some(until_ns):
                break
        return not self._is_blocked

    def _execute_some(self, until_ns: int) -> bool:
        """Executes the first commands that arrive before until_ns, as many as the command segment has room for. Returns whether there are more."""
        rows = self._staged()
        due = np.flatnonzero(rows["time_ns"] < until_ns)
        exchange_due = np.flatnonzero(self._exchange_rows["time_ns"] < until_ns)
        recorded = self._recorded[: np.searchsorted(self._recorded["time_ns"], until_ns)]
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
        taken = np.zeros(len(ready), np.bool_)
        taken[order] = True
        self._remove(due[taken[:own]], exchange_due[taken[own:stop]], int(taken[stop:].sum()))
        self._core.submit(ready[order])
        return len(order) < len(ready)

    def _remove(self, staged: Integers, for_exchange: Integers, recorded: int) -> None:
        """Removes the staged rows and those of the exchange with these indices, and the first recorded ones."""
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
