"""A market's arrays behind one address, for compiled code that is called through a pointer."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from serl.exchange.kernel.state import State, new_state
from serl.exchange.records import COMMAND, EVENT

WORDS = 4
"""Of an array in the handle: address, and up to three sizes."""
FIELDS = [name for name in State._fields if name != "handle"]
WORD = ir.IntType(64)


def bind(state: State, function: int) -> State:
    """The state with a handle of its arrays as they are now, and of the function that the plain rule book calls."""
    handle = np.zeros(1 + WORDS * len(FIELDS), np.int64)
    handle[0] = function
    for place, name in enumerate(FIELDS):
        array = getattr(state, name)
        assert array.flags.c_contiguous, name
        at = 1 + WORDS * place
        handle[at] = array.ctypes.data
        handle[at + 1 : at + 1 + array.ndim] = array.shape
    return state._replace(handle=handle)


def _kinds() -> list[Any]:
    """The numba type of each array of a State."""
    arrays = new_state(symbols=1, participants=1, window=128, capacity=32, far=8)
    return [types.Array(from_dtype(array.dtype), array.ndim, "C") for array in arrays]


def _array(context: Any, builder: Any, kind: Any, address: Any, shape: list[Any]) -> Any:
    """An array over memory that somebody else keeps."""
    array = make_array(kind)(context, builder)
    item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides: list[Any] = []
    step = ir.Constant(WORD, item)
    for size in reversed(shape):
        strides.insert(0, step)
        step = builder.mul(step, size)
    data = builder.inttoptr(address, array.data.type)
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=ir.Constant(WORD, item), meminfo=None)
    return array._getvalue()


@intrinsic
def state_at(typing_context: Any, address: Any) -> Any:
    """The State of the handle at an address."""
    kinds = _kinds()
    state = types.NamedTuple(tuple(kinds), State)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = builder.inttoptr(arguments[0], WORD.as_pointer())

        def word(at: int) -> Any:
            return builder.load(builder.gep(words, [ir.Constant(WORD, at)]))

        arrays = []
        for place, kind in enumerate(kinds[:-1]):
            at = 1 + WORDS * place
            shape = [word(at + 1 + axis) for axis in range(kind.ndim)]
            arrays.append(_array(context, builder, kind, word(at), shape))
        size = ir.Constant(WORD, 1 + WORDS * len(FIELDS))
        arrays.append(_array(context, builder, kinds[-1], arguments[0], [size]))
        return context.make_tuple(builder, state, arrays)

    return state(types.int64), generate


def rows_at(dtype: Any) -> Any:
    """A compiled function of an address and a count: the rows of `dtype` that lie there."""

    @intrinsic
    def at(typing_context: Any, address: Any, count: Any) -> Any:
        kind = types.Array(from_dtype(dtype), 1, "C")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _array(context, builder, kind, arguments[0], [arguments[1]])

        return kind(types.int64, types.int64), generate

    return at


commands_at, events_at = rows_at(COMMAND), rows_at(EVENT)
"""COMMAND and EVENT rows at an address: how many there are is the second argument."""
