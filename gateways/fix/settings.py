"""The settings of a FIX gateway, and its limits."""

import dataclasses
from pathlib import Path

from serl.gateways.connections import SESSIONS, ConnectionLimits

LOGON_S = 10.0
"""The time that a new connection has for its Logon."""
LAST_WRITE_S = 5.0
"""The time that a client has to read what was written before its connection was closed."""
UNREAD_BYTES_MAX = 8 << 20
"""Maximum bytes that a client has not read, in addition to TCP's buffers; with more it is disconnected. Missed messages are resent later."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """endpoint: the exchange's orders socket; curve: key folder for it; store: folder of the sessions; comp_id: CompID of the gateway."""

    endpoint: str
    store: Path
    curve: Path | None = None
    comp_id: str = "SERL"
    connections: ConnectionLimits = SESSIONS
