"""A population's arrays behind one address, so that a call from Python takes one integer instead of unpacking two dozen arrays."""

from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from serl.agents.traders.records import AGENT, FLOW_ROWS, LEG, NODE, REQUESTS, VIEW, Traders
from serl.exchange.pointed import bound, pointed
from serl.exchange.records import COMMAND


@pointed
class PointedTraders(NamedTuple):
    """The arrays of `Traders`, which compiled code sees through a pointer."""

    counter: NDArray[np.int64]
    agents: NDArray[np.void]
    market_view: NDArray[np.void]
    requests: NDArray[np.void]
    wake_key: NDArray[np.int64]
    wake_item: NDArray[np.int32]
    in_flight: NDArray[np.void]
    in_flight_key: NDArray[np.int64]
    in_flight_item: NDArray[np.int32]
    in_flight_next: NDArray[np.int32]
    nodes: NDArray[np.void]
    order_table: NDArray[np.int64]
    slab: NDArray[np.int32]
    slab_free: NDArray[np.int32]
    flow: NDArray[np.int64]
    public_totals: NDArray[np.int64]
    value: NDArray[np.float64]
    times: NDArray[np.int64]
    legs: NDArray[np.void]
    fees: NDArray[np.int64]
    handle: NDArray[np.int64]


assert PointedTraders._fields == (*Traders._fields, "handle"), "the same arrays in the same order"


def point_to(traders: Traders) -> PointedTraders:
    """The same arrays with a handle; anew whenever one of them was replaced."""
    return bound(PointedTraders(*traders, handle=np.zeros(1, np.int64)))


def _kinds() -> Any:
    """The numba type of PointedTraders."""
    ints, items = np.zeros(1, np.int64), np.zeros(1, np.int32)
    return typeof(
        PointedTraders(
            counter=ints, agents=np.zeros(1, AGENT), market_view=np.zeros(1, VIEW), requests=np.zeros(1, REQUESTS), wake_key=ints,
            wake_item=items, in_flight=np.zeros(1, COMMAND), in_flight_key=ints, in_flight_item=items, in_flight_next=items,
            nodes=np.zeros(1, NODE), order_table=ints, slab=items, slab_free=items, flow=np.zeros((1, FLOW_ROWS, 4), np.int64),
            public_totals=np.zeros((1, 4), np.int64), value=np.zeros((1, 1)), times=ints, legs=np.zeros(1, LEG),
            fees=np.zeros((1, 6), np.int64), handle=ints,
        )
    )  # fmt: skip


@intrinsic
def traders_at(typing_context: Any, address: Any) -> Any:
    """The PointedTraders of the handle at an address."""
    traders = _kinds()

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(traders))

    return traders(types.int64), generate
