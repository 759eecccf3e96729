"""Makes the gateway's arrays to the size of the limits."""

import numpy as np

from serl.exchange.config import LimitsConfig
from serl.exchange.gateway.state import BULK_ROWS_MAX, COUNTERS, DUE, HEAD_BYTES, PENDING_SESSION, Gate
from serl.exchange.kernel.state import NEVER
from serl.exchange.pointed import bound
from serl.exchange.records import COMMAND


def new_gate(limits: LimitsConfig) -> Gate:
    """A gate with no sessions. Its pages are touched when they are used, not here."""
    sessions, participants = limits.sessions_max, limits.participants_max
    routes = 1 << (4 * sessions - 1).bit_length()
    staged = np.zeros(limits.staged_rows_max, COMMAND)
    gate = Gate(
        counter=np.zeros(COUNTERS, np.int64),
        route_number=np.zeros(routes, np.int64),
        route_session=np.zeros(routes, np.int32),
        route=np.zeros(sessions, np.int64),
        status=np.zeros(sessions, np.uint8),
        participant=np.zeros(sessions, np.int32),
        session_of=np.full(participants, -1, np.int32),
        delayed=np.zeros(sessions, np.uint8),
        sent_id=np.zeros(participants, np.int64),
        as_rows=np.zeros(sessions, np.uint8),
        first_report=np.zeros(sessions, np.int64),
        waiting=np.zeros(sessions, np.int64),
        filled=np.full(sessions, HEAD_BYTES, np.int64),
        out=np.zeros((sessions, limits.session_out_bytes), np.uint8),
        dirty=np.zeros(sessions + 1, np.int32),
        last_in_ns=np.zeros(sessions, np.int64),
        last_out_ns=np.zeros(sessions, np.int64),
        promise_ns=np.zeros(sessions, np.int64),
        last_time_ns=np.zeros(sessions, np.int64),
        tokens=np.zeros(sessions, np.float64),
        rate=np.zeros(sessions, np.float64),
        staged=staged,
        staged_bytes=staged.view(np.uint8),
        clock=np.zeros(8, np.int64),
        message=np.zeros(limits.message_bytes_max, np.uint8),
        scratch=np.zeros(64, np.uint8),
        zmq_message=np.zeros(8, np.int64),
        handle=np.zeros(0, np.int64),
    )
    gate.counter[PENDING_SESSION] = -1
    gate.counter[BULK_ROWS_MAX] = limits.bulk_rows_max
    gate.counter[DUE] = NEVER
    return bound(gate)
