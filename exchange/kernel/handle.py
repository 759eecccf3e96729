"""A market's arrays behind one address, for compiled code that is called through a pointer."""

from typing import Any

from numba import from_dtype, typeof, types
from numba.extending import intrinsic

from serl.exchange.kernel.state import new_state
from serl.exchange.records import COMMAND, EVENT
from serl.exchange.struct_pointer import array_at, struct_at

state_at = struct_at(lambda: typeof(new_state(symbols=1, participants=1, window=128, capacity=32, far=8)))
"""The State of the handle at an address."""


def rows_at(dtype: Any) -> Any:
    """A compiled function of an address and a count: the rows of `dtype` that lie there."""

    @intrinsic
    def at(typing_context: Any, address: Any, count: Any) -> Any:
        kind = types.Array(from_dtype(dtype), 1, "C")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return array_at(context, builder, kind, arguments[0], [arguments[1]])

        return kind(types.int64, types.int64), generate

    return at


commands_at, events_at = rows_at(COMMAND), rows_at(EVENT)
"""COMMAND and EVENT rows at an address: how many there are is the second argument."""
