"""The number of commands that the book has rejected, by reason. Counted on request, so it does not slow orders down."""

import numpy as np
from numpy.typing import NDArray

from serl.exchange.core import Core
from serl.exchange.gateway.state import EVENTS
from serl.exchange.reasons import REASONS_SIZE, by_name, count_rejections


class Rejections:
    """Counts the REJECTED events since the start of the process. Each row of the journal is read once: on request, or when its segment ends."""

    def __init__(self, core: Core) -> None:
        self._core, self._segment = core, core.journal.events
        self._counted = int(core.gateway.counter[EVENTS])
        self._found: NDArray[np.int64] = np.zeros(REASONS_SIZE, np.int64)
        core.before_event_rotation.append(self._count)

    def by_reason(self) -> dict[str, int]:
        """Number of rejections by the name of the Reason in lower case; reasons that did not occur are left out."""
        self._count()
        return by_name(self._found)

    def _count(self) -> None:
        events = self._core.journal.events
        if events is not self._segment:
            self._segment, self._counted = events, 0
        stop = int(self._core.gateway.counter[EVENTS])
        self._found += count_rejections(events.rows[self._counted : stop])
        self._counted = stop
