"""Wait for the end of a process that is not a child."""

import os
import time


def is_gone(pid: int, within_s: float = 10.0) -> bool:
    """Whether the process ends within that time. It is not our child, so there is only its id to poll."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False
