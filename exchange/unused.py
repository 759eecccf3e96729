"""Participants that logged in and did nothing."""

from typing import Any

import numpy as np

from serl.exchange.gateway.state import FREE, GatewayState


def unused_participants(state: Any, gateway: GatewayState, count: int) -> list[int]:
    """Those of the first `count` that never sent or received anything, have no session, no account settings, and are no operators."""
    used = (state.last_command_id[:count] != 0) | (state.report[:count] != 0) | (gateway.last_sent_id[:count] != 0)
    used |= state.accounts[:count].any(axis=1) | (state.operator[:count] != 0)
    used[gateway.participant[gateway.status != FREE]] = True
    return [int(number) for number in np.flatnonzero(~used)]
