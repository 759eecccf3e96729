"""Renumbering of the participants in recorded commands."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import CommandKind, Rows

PARTICIPANT_COMMANDS = (CommandKind.ACCOUNT, CommandKind.PURGE, CommandKind.DEPOSIT)
"""Commands whose `order_id` is a participant number."""


def renumber(commands: Rows, change: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> None:
    """Applies `change`, which maps numbers (n,) to numbers (n,), to every participant number in COMMAND rows."""
    names_participant = np.isin(commands["kind"], PARTICIPANT_COMMANDS)
    commands["participant"] = change(commands["participant"].astype(np.int64))
    commands["order_id"][names_participant] = change(commands["order_id"][names_participant])
