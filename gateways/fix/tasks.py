"""What a session does besides its messages: tasks that wait for the exchange."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Tasks(set[asyncio.Task[None]]):
    """The tasks that have not ended."""

    def run(self, steps: Coroutine[Any, Any, None]) -> None:
        """Starts a task."""
        task = asyncio.create_task(steps)
        self.add(task)
        task.add_done_callback(self.discard)

    def cancel(self) -> None:
        """Ends all of them."""
        for task in self:
            task.cancel()
