"""Commands that wait for the time of their arrival: all in lockstep, those of participants with a latency on every clock."""

import numpy as np

from serl.exchange.clock import Clock
from serl.exchange.core import Core
from serl.exchange.gateway.state import STAGED, UNDELAYED
from serl.exchange.kernel.state import NEVER
from serl.exchange.latency import Delays
from serl.exchange.records import COMMAND, Rows


class Inbound:
    """The gateway's staged rows, executed in (arrival time, participant, command id) order."""

    def __init__(self, core: Core, clock: Clock) -> None:
        self._core = core
        self._gateway = core.gateway
        self._clock = clock
        self._delays: dict[int, Delays] = {}
        self._arrived_ns: dict[int, int] = {}
        #: what the exchange itself sends for a participant whose session is over: it has room where the staged rows have none
        self._own = np.zeros(0, COMMAND)
        #: a recorded day's commands of many, in their order, and the participant among whose commands they come
        self._played, self._player = np.zeros(0, COMMAND), 0

    def open(self, slot: int, participant: int, delays: Delays | None) -> None:
        """The commands of a new session take these delays from now on."""
        self._gateway.delayed[slot] = delays is not None
        if delays is None:
            self._delays.pop(participant, None)
        else:
            self._delays[participant] = delays

    def depart(self) -> None:
        """Adds its latency to the message that was staged last; it arrives behind everything its participant sent before."""
        staged, fresh = int(self._gateway.counter[STAGED]), int(self._gateway.counter[UNDELAYED])
        self._gateway.counter[UNDELAYED] = 0
        self._delay(self._gateway.staged[staged - fresh : staged])

    def follow(self, row: Rows) -> bool:
        """Sends a row of the exchange behind the commands of its participant; False if that has no latency: then nothing was done."""
        participant = int(row[0]["participant"])
        if participant not in self._delays:
            return False
        self._arrived_ns[participant] = self._arrived_ns.get(participant, 0) + 1  # it has no id to come last by
        self._delay(row)
        self._own = np.append(self._own, row)
        return True

    def play(self, rows: Rows, player: int) -> bool:
        """Adds commands of many participants that arrive in this order, as if `player` sent them; False where they have no room."""
        if len(self._played) + len(rows) > len(self._gateway.staged):
            return False
        self._played, self._player = np.append(self._played, rows), player
        return True

    def _delay(self, rows: Rows) -> None:
        participant = int(rows[0]["participant"])
        sent_ns = np.maximum(rows["time_ns"], self._clock.now_ns())
        arrival_ns = sent_ns + self._delays[participant].draw_ns(rows["command_id"])
        arrival_ns[0] = max(arrival_ns[0], self._arrived_ns.get(participant, 0))
        rows["time_ns"] = np.maximum.accumulate(arrival_ns)
        self._arrived_ns[participant] = int(rows[-1]["time_ns"])

    def _staged(self) -> Rows:
        return self._gateway.staged[: int(self._gateway.counter[STAGED])]

    @property
    def waiting(self) -> bool:
        """Whether anything does."""
        return bool(self._gateway.counter[STAGED]) or len(self._own) > 0 or len(self._played) > 0

    @property
    def next_ns(self) -> int:
        """When the next command arrives; NEVER if none is on its way. O(waiting)."""
        if not self.waiting:
            return NEVER
        parts = (self._staged(), self._own, self._played)
        return min(int(part["time_ns"].min(initial=NEVER)) for part in parts)

    def last_ns(self, initial_ns: int) -> int:
        """When the last command arrives, not before initial_ns."""
        parts = (self._staged(), self._own, self._played)
        return max(int(part["time_ns"].max(initial=initial_ns)) for part in parts)

    def execute(self, until_ns: int, earliest_ns: int) -> None:
        """Executes what arrives before until_ns; what arrived before earliest_ns counts as arriving then."""
        if not self.waiting:
            return
        rows = self._staged()
        np.maximum(rows["time_ns"], earliest_ns, out=rows["time_ns"])
        due, own_due = rows["time_ns"] < until_ns, self._own["time_ns"] < until_ns
        np.maximum(self._played["time_ns"], earliest_ns, out=self._played["time_ns"])
        played = self._played[: np.searchsorted(self._played["time_ns"], until_ns)]
        ready = np.concatenate((rows[due], self._own[own_due], played))
        if not len(ready):
            return
        later = rows[~due]
        self._gateway.staged[: len(later)] = later
        self._gateway.counter[STAGED] = len(later)
        self._own = self._own[~own_due]
        self._played = self._played[len(played) :]
        participants, command_ids = ready["participant"].copy(), ready["command_id"].copy()
        if len(played):  # they keep their order whatever their ids are
            participants[-len(played) :], command_ids[-len(played) :] = self._player, np.arange(len(played))
        self._core.submit(ready[np.lexsort((command_ids, participants, ready["time_ns"]))])
