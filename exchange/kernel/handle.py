"""A market's arrays behind one address, for compiled code that is called through a pointer."""

from typing import Any

from numba import from_dtype, typeof, types
from numba.extending import intrinsic

from serl.exchange.kernel.state import new_state
from serl.exchange.pointed import array_at
from serl.exchange.records import COMMAND, EVENT


@intrinsic
def state_at(typing_context: Any, address: Any) -> Any:
    """The State of the handle at an address."""
    state = typeof(new_state(symbols=1, participants=1, window=128, capacity=32, far=8))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(state))

    return state(types.int64), generate


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
