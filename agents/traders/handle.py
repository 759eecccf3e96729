"""A population's arrays behind one address, for compiled code that many markets share or that takes addresses."""

from typing import Any

import numpy as np
from numba import typeof

from serl.agents.traders.records import AGENT, FLOW_ROWS, LEG, NODE, REQUESTS, VIEW, Traders
from serl.exchange.records import COMMAND
from serl.exchange.struct_pointer import struct_at


def _kind() -> Any:
    """The numba type of Traders."""
    ints, items = np.zeros(1, np.int64), np.zeros(1, np.int32)
    return typeof(
        Traders(
            counter=ints, agents=np.zeros(1, AGENT), market_view=np.zeros(1, VIEW), requests=np.zeros(1, REQUESTS), wake_key=ints,
            wake_item=items, in_flight=np.zeros(1, COMMAND), in_flight_key=ints, in_flight_item=items, in_flight_next=items,
            nodes=np.zeros(1, NODE), order_table=ints, slab=items, slab_free=items, flow=np.zeros((1, FLOW_ROWS, 4), np.int64),
            public_totals=np.zeros((1, 6), np.int64), value=np.zeros((1, 1)), times=ints, legs=np.zeros(1, LEG),
            forecast_board=np.zeros((1, 1)), fees=np.zeros((1, 6), np.int64), handle=ints,
        )
    )  # fmt: skip


traders_at = struct_at(_kind)
"""The Traders of the handle at an address."""
