"""Plays a day of many participants' commands, as `serl record --accounts` writes it, into a lockstep exchange: each under an account of its own."""

from collections.abc import Callable

import msgpack
import numpy as np

from serl.clients.errors import Refused
from serl.clients.replay import END_NS, NAME, Progress, Replayer, ReplayError, with_symbols
from serl.clients.session import Grant
from serl.exchange.records import Rows
from serl.exchange.wire import Kind
from serl.history.accounts import LIMITS
from serl.history.day import Day

SAME = tuple(name for name in LIMITS if name != "participants_max")
"""Limits on which it depends what an order does."""


class AccountsReplayer(Replayer):
    """The same, with accounts "history/1", "history/2" ... for the day's participants; the exchange's commands are its own again.

    Nobody answers for them: time tells how far it is.
    """

    def _rows(self) -> Rows:
        return with_symbols(self.day, self.client)

    def _check(self) -> None:
        super()._check()
        if self.kind != "lockstep":
            raise ReplayError(
                f"a day of many participants needs a lockstep clock, this one is {self.kind}; start the exchange with --clock lockstep"
            )
        for name in SAME:
            due, here = int(self.day.reference.parameters[name]), int(self.client.session.limits[name])
            if due != here:
                raise ReplayError(
                    f"the day was recorded with limits: {name}: {due}, the exchange has {here}; start it with the same"
                )

        if len(self.day.reference.participants) > 1 and self._has_played():
            raise ReplayError("such a day was played into this exchange before; start one with a new --journal folder")

    def _has_played(self) -> bool:
        try:
            self.client.ask(Kind.ACCOUNT, self.token, f"{NAME}/1")
        except Refused as refused:
            if refused.code != "login":
                raise
            return False
        return True

    def _say(self, rows: Rows) -> None:
        self.client.words.say(msgpack.packb([Kind.ON_BEHALF, rows.tobytes()]))

    def _unanswered(self) -> int:
        """Of those only that arrive before the next one: those that arrive with it are executed with it."""
        times = self.rows["time_ns"]
        before = int(np.searchsorted(times, times[min(self.progress.sent, len(times) - 1)]))
        return before - self.progress.answered

    def _last_promise_ns(self) -> int:
        return int(self.rows[-1]["time_ns"]) + 1

    def _granted(self, grant: Grant) -> None:
        self.progress.answered = int(np.searchsorted(self.rows["time_ns"], grant.time_ns))

    def run(self, tell: Callable[[Progress], None]) -> Progress:
        """Plays everything, calling `tell` now and then; at the end all is executed."""
        progress = super().run(tell)
        self._promise(END_NS)
        return progress


def replayer(
    day: Day, endpoint: str, speed: float | None = None, token: str = "", from_ns: int = 0, to_ns: int = END_NS
) -> Replayer:
    """The one that the day needs."""
    kind = AccountsReplayer if day.reference.participants else Replayer
    return kind(day, endpoint, speed, token, from_ns, to_ns)
