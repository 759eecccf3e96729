"""Group commit (`--durability batch`): commands are executed, and so acknowledged and published, only once they are on the disk.

The loop journals arriving commands and requests a sync through a pipe; a thread syncs everything journaled by then and wakes the loop
through another pipe. While one batch is being synced, the loop journals the next.
"""

import os
import threading
from collections.abc import Callable

from serl.exchange.gateway.state import (
    COMMIT_FD,
    COMMIT_TARGET,
    DURABLE,
    JOURNAL_FAILED,
    NEXT_SEQUENCE,
    WAKE_FD,
    GatewayState,
)
from serl.exchange.journal.segment import Segment
from serl.exchange.kernel.state import NEVER

PIPE_BYTES = 4096


class GroupCommit:
    """Syncs the current command segment (`segment()`) in batches. After a failed sync it never syncs again.

    `failed(error)` is called once if the thread's sync fails."""

    def __init__(
        self, gateway: GatewayState, segment: Callable[[], Segment], failed: Callable[[BaseException], None]
    ) -> None:
        self._gateway, self._segment, self._failed = gateway, segment, failed
        self._syncing = threading.Lock()
        self._requests, request_end = os.pipe()
        self.wakes, self._wake_end = os.pipe()
        for descriptor in (request_end, self.wakes, self._wake_end):
            os.set_blocking(descriptor, False)
        counter = gateway.counter
        counter[COMMIT_FD], counter[WAKE_FD], counter[COMMIT_TARGET] = (
            request_end,
            self.wakes,
            counter[NEXT_SEQUENCE] - 1,
        )
        segment().sync()
        counter[DURABLE] = counter[NEXT_SEQUENCE] - 1
        self._stopping = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="journal-commit", daemon=True)
        self._thread.start()

    def commit(self, sequence: int) -> None:
        """Returns once every command up to `sequence` is on the disk. A segment must be committed before another replaces it.

        Raises the error of this or an earlier sync."""
        with self._syncing:
            if self._error is not None:
                raise self._error
            if self._gateway.counter[DURABLE] < sequence:
                try:
                    self._segment().sync()
                except BaseException as error:
                    self._error = error
                    raise
                self._gateway.counter[DURABLE] = sequence

    def stop(self) -> None:
        """Ends the thread; from then on commands are executed without waiting."""
        counter = self._gateway.counter
        self._stopping = True
        os.write(int(counter[COMMIT_FD]), b"\0")
        self._thread.join()
        counter[DURABLE] = NEVER
        for descriptor in (self._requests, int(counter[COMMIT_FD]), self.wakes, self._wake_end):
            os.close(descriptor)

    def _run(self) -> None:
        while os.read(self._requests, PIPE_BYTES) and not self._stopping:
            try:
                self.commit(int(self._gateway.counter[COMMIT_TARGET]))
            except BaseException as error:
                self._failed(error)
                self._gateway.counter[JOURNAL_FAILED] = 1
                self._wake()
                return
            self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._wake_end, b"\0")
        except BlockingIOError:
            return  # the loop has not read earlier wakes yet
