"""Errors in journal files that are needed only for queries about the past: an unreadable one is logged and does not end the exchange."""

from collections.abc import Iterator
from contextlib import contextmanager

from serl.exchange.errors import JournalError
from serl.exchange.log import LineLimit, log
from serl.exchange.wire import RequestError

_LINES = LineLimit()


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Raises RequestError `replay_gone` if the files needed for `what` cannot be read."""
    try:
        yield
    except (JournalError, OSError) as error:
        log_unreadable(what, error)
        raise RequestError(
            "replay_gone", f"{what} cannot be read: the exchange's log says why; request a later one"
        ) from None


def log_unreadable(what: str, error: Exception) -> None:
    """Logs why files cannot be read: only a few times per period, however often they are requested."""
    finding = getattr(error, "finding", "") or str(error)
    if line := _LINES.limit(f"{what} cannot be read: {finding}; verify the journal: serl journal verify FOLDER"):
        log("journal_unreadable", line, what=what)
