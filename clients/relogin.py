"""The HELLOs of a client whose session the exchange no longer knows."""

import time

from serl.clients.errors import SessionEnded

DUPLICATE = "duplicate_login"


class Relogin:
    """Decides when to send HELLO: at once, and again until one is answered, because a broken connection may have lost it. Also after a refusal:
    the exchange may not yet have noticed that the former connection is gone."""

    def __init__(self) -> None:
        self._is_wanted = self._is_repeated = self._is_forgiven = False
        self._sent_s = 0.0
        #: the error of a session that the exchange has ended for good
        self._over: SessionEnded | None = None

    def begin(self) -> None:
        """Begins a login: the caller sends the first HELLO now."""
        self._is_wanted, self._sent_s = True, time.monotonic()
        self._is_repeated = self._is_forgiven = False

    def end(self, over: SessionEnded | None = None) -> None:
        """Ends the login: the session has begun, or is `over` for good."""
        self._is_wanted, self._over = False, over

    def raise_if_over(self) -> None:
        """Raises SessionEnded once the exchange has ended the session: messages sent after that get no answer."""
        if self._over is not None:
            raise SessionEnded(self._over.code, "it is over; connect again")

    def is_due(self, retry_s: float) -> bool:
        """Whether to send HELLO again now, `retry_s` after the last one."""
        now_s = time.monotonic()
        if not self._is_wanted or now_s - self._sent_s <= retry_s:
            return False
        self._sent_s, self._is_repeated = now_s, True
        return True

    def is_repeat(self, code: str) -> bool:
        """Whether a refusal only means that two of our own HELLOs collided: one was refused because of the other, the earlier that still waited or
        the later. True at most once per login: after that another session has the name, or WELCOME is lost."""
        is_repeat = code == DUPLICATE and self._is_repeated and not self._is_forgiven
        self._is_forgiven |= is_repeat
        return is_repeat
