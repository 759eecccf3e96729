"""Participants of recorded commands under other numbers."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import CommandKind, Rows

OF_OTHERS = (CommandKind.ACCOUNT, CommandKind.PURGE)
"""Commands whose order_id is a participant."""


def renumber(commands: Rows, change: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> None:
    """Puts the numbers that `change` makes, (n,) of (n,), in the place of the participants of COMMAND rows, wherever one is named."""
    of_others = np.isin(commands["kind"], OF_OTHERS)
    commands["participant"] = change(commands["participant"].astype(np.int64))
    commands["order_id"][of_others] = change(commands["order_id"][of_others])
