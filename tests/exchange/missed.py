"""The reports that a participant missed, as a login waits for them."""

import time

from serl.exchange.core import Core
from serl.exchange.records import Rows
from tests.server_fixture import WAIT_MS


def missed_reports(core: Core, participant: int, after: int, limit: int = 10**6) -> Rows | None:
    """The participant's reports after one; None if they are no longer stored."""
    deadline_s = time.monotonic() + WAIT_MS / 1000
    while True:
        is_over, found = core.journal.missed.find(participant, after, core.gateway, limit)
        if is_over:
            return found
        assert time.monotonic() < deadline_s
        time.sleep(0.001)
