"""Replays a day with the commands of many participants (`serl record --accounts`) into a lockstep exchange, each under its own account."""

from collections.abc import Callable
from pathlib import Path

import msgpack
import numpy as np

from serl.clients.errors import RequestRejected
from serl.clients.replay import END_NS, NAME, Progress, Replayer, ReplayError, with_symbol_numbers
from serl.clients.session import Grant
from serl.exchange.records import Rows
from serl.exchange.wire import Kind
from serl.history.accounts import LIMITS
from serl.history.day import Day

SAME_LIMITS = tuple(name for name in LIMITS if name != "participants_max")
"""Limits that change the effect of an order."""


class AccountsReplayer(Replayer):
    """Sends the day's commands on behalf of accounts "history/1", "history/2" ..., and the exchange's own commands as its own.

    These commands produce no reports: the grants of time show the progress.
    """

    def _rows(self) -> Rows:
        return with_symbol_numbers(self.day, self.client)

    def _check(self) -> None:
        super()._check()
        if self.clock_kind != "lockstep":
            raise ReplayError(
                f"expected a lockstep clock for a day with participants, got {self.clock_kind}; start the exchange with --clock lockstep"
            )
        for name in SAME_LIMITS:
            if name not in self.day.reference.parameters or name not in self.client.session.limits:
                continue  # the recording, or the exchange, is older than this limit
            recorded, current = int(self.day.reference.parameters[name]), int(self.client.session.limits[name])
            if recorded != current:
                raise ReplayError(
                    f"expected limits: {name}: {recorded}, as in the recording, got {current}; start the exchange with the same limits"
                )

        if len(self.day.reference.participants) > 1 and self._was_replayed():
            raise ReplayError(
                "a day with participants was replayed into this exchange before; start one with a new --journal folder"
            )

    def _was_replayed(self) -> bool:
        try:
            self.client.ask(Kind.ACCOUNT, self.token, f"{NAME}/1")
        except RequestRejected as error:
            if error.code != "login":
                raise
            return False
        return True

    def _send(self, rows: Rows) -> None:
        self.client.core.send(msgpack.packb([Kind.ON_BEHALF, rows.tobytes()]))

    def _unanswered(self) -> int:
        """Counts only rows that arrive before the next row to send: rows with the same arrival time as that row are executed together with it."""
        times = self.rows["time_ns"]
        before = int(np.searchsorted(times, times[min(self.progress.sent, len(times) - 1)]))
        return before - self.progress.answered

    def _last_promise_ns(self) -> int:
        return int(self.rows[-1]["time_ns"]) + 1

    def _process_grant(self, grant: Grant) -> None:
        super()._process_grant(grant)
        self.progress.answered = int(np.searchsorted(self.rows["time_ns"], grant.time_ns))

    def run(self, report: Callable[[Progress], None]) -> Progress:
        """Sends every command, calling `report` from time to time; returns once all are executed."""
        progress = super().run(report)
        self._promise(END_NS)
        return progress


def create_replayer(
    day: Day, endpoint: str, speed: float | None = None, token: str = "", from_ns: int = 0, to_ns: int = END_NS,
    curve: Path | None = None,
) -> Replayer:  # fmt: skip
    """The replayer for this kind of day."""
    replayer = AccountsReplayer if day.reference.participants else Replayer
    return replayer(day, endpoint, speed, token, from_ns, to_ns, curve)
