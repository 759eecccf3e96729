"""Waiting for messages in an asyncio event loop: one reader of the sockets for all tasks of a client."""

import asyncio
from collections import deque

import zmq

from serl.clients.core import ClientCore
from serl.clients.errors import SessionEnded


class Arrivals:
    """Receives what arrives for a client and wakes all of its tasks. An error while receiving is raised in every task that waits, including
    one that has already been woken but has not run yet; until all of them have raised it, nothing more is received."""

    def __init__(self, core: ClientCore) -> None:
        self._core = core
        self._loop = asyncio.get_running_loop()
        self._waiting: list[asyncio.Future[None]] = []
        #: number of received messages that the waiting tasks know of
        self._known = core.received
        self._timer: asyncio.TimerHandle | None = None
        #: tasks in `wait`, woken ones included
        self._inside = 0
        #: the last error that every task in `wait` raises, and the number of such errors so far
        self._failure: Exception | None = None
        self._failures = 0
        #: tasks in `wait` that have yet to raise it, and whether one has
        self._failing, self._is_raised = 0, False
        self._is_closed = False
        #: errors raised while no task was waiting; each of the next calls raises one
        self._errors: deque[Exception] = deque()
        self._descriptors = [int(socket.getsockopt(zmq.FD)) for socket in core.sockets]
        for descriptor in self._descriptors:
            self._loop.add_reader(descriptor, self._receive)
        core.on_unread = self._receive_soon

    async def wait(self, longest_s: float) -> None:
        """Returns once messages have been received, or after `longest_s` seconds. Raises what `ClientCore.receive` raises, and SessionEnded after `close`."""
        self.raise_if_failed()
        self.tell_others()
        woken = self._loop.create_future()
        self._waiting.append(woken)
        self._receive_within(longest_s)
        failures = self._failures
        self._inside += 1
        is_cancelled = True
        try:
            await woken
            is_cancelled = False
        finally:
            self._leave(failures, is_cancelled)
        self._raise_if_closed()
        if self._failure is not None and self._failures != failures:
            raise self._failure

    def _leave(self, failures: int, is_cancelled: bool) -> None:
        """Ends the wait of a task that began after `failures` errors. If all tasks that were to raise an error are cancelled, the next call does."""
        self._inside -= 1
        if self._failures == failures:
            return
        self._failing -= 1
        self._is_raised |= not is_cancelled
        if not self._failing:
            if not self._is_raised and self._failure is not None:
                self._errors.append(self._failure)
            self._release()

    def raise_if_failed(self) -> None:
        """Raises an error that was received while no task was waiting, and SessionEnded after `close`."""
        self._raise_if_closed()
        if self._errors:
            raise self._errors.popleft()

    def _raise_if_closed(self) -> None:
        """Raises SessionEnded after `close`: the sockets are being closed, perhaps in another thread."""
        if self._is_closed:
            raise SessionEnded("bye", "the client was closed")

    def fail_others(self, error: Exception, *, is_raised: bool = True) -> None:
        """Makes every task in `wait` raise `error`, an error of `ClientCore.receive`. is_raised: whether another task raises it already."""
        self._core.failure = None
        if not self._inside:
            self._release()
            return
        self._failure = error
        self._failures += 1
        self._failing, self._is_raised = self._inside, is_raised
        self._core.is_held = True
        self._wake()

    def tell_others(self) -> None:
        """Wakes the other tasks if the current one has received something: no further message may arrive to wake them."""
        if self._waiting and self._core.received != self._known:
            self._wake()

    def close(self) -> None:
        """Stops; tasks that wait raise SessionEnded, and so does every later call."""
        self._is_closed = True
        for descriptor in self._descriptors:
            self._loop.remove_reader(descriptor)
        self._descriptors = []
        self._core.on_unread = lambda: None
        self._wake()

    def _release(self) -> None:
        """Receives again after an error: no further message may arrive to signal those that came with it."""
        self._core.is_held = False
        self._loop.call_soon(self._receive)

    def _receive_soon(self) -> None:
        self._loop.call_soon(self._receive_unread)

    def _receive_unread(self) -> None:
        if self._core.is_unread:  # else the call that sent has received itself
            self._receive()

    def _receive_within(self, longest_s: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= self._loop.time() + longest_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_later(longest_s, self._receive)

    def _receive(self) -> None:
        if not self._descriptors:
            return  # closed after this call was scheduled
        received = self._core.received
        try:
            self._core.receive()
        except Exception as error:
            if not self._inside:
                self._errors.append(error)
            if self._inside or self._core.received != received:  # else it would come again at once
                self.fail_others(error, is_raised=False)
        else:
            self._wake()

    def _wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        self._known = self._core.received
        for woken in waiting:
            if not woken.done():
                woken.set_result(None)
