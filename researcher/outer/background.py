"""Runs work in parallel: proposing while candidates train, and training the incumbent while the first candidates are proposed."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from serl.researcher.sandbox.errors import AbandonedError

ABANDON_S_MAX = 5.0
"""How long an interrupted run waits for a proposal in progress."""
ABANDON_WAIT_S = 0.2


@contextmanager
def in_background(work: Callable[[], object], abandon: Callable[[], None]) -> Iterator[None]:
    """Run `work` in a thread while the block runs, wait for both, and raise what `work` raised. If the block is left early, `abandon`, which kills
    the current job of `work`, is called until `work` has ended."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # raised again in the run's own thread
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
        thread.join()
    except BaseException as error:
        while thread.is_alive():
            abandon()
            thread.join(ABANDON_WAIT_S)
        if errors and isinstance(error, AbandonedError):  # failing work kills all jobs, also those of the block
            raise errors[0] from None
        raise
    if errors:
        raise errors[0]


class BackgroundProposals:
    """Proposes iterations in a thread. Each proposal is stored at once, so a killed run keeps it."""

    def __init__(self, propose: Callable[[int], None], iterations: Iterable[int]) -> None:
        self._propose, self._iterations = propose, list(iterations)
        self._abandoned = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for iteration in self._iterations:
                if self._abandoned.is_set():
                    return
                self._propose(iteration)
        except BaseException as error:  # raised again in the run's own thread
            self._error = error

    def wait(self) -> None:
        """Wait until all iterations are proposed, or a proposal has failed."""
        self._thread.join()

    def abandon(self) -> None:
        """Stop after the iteration in progress; do not wait long for it."""
        self._abandoned.set()
        self._thread.join(ABANDON_S_MAX)

    def raise_error(self) -> None:
        """Raise what a proposal raised."""
        if self._error is not None:
            raise self._error
