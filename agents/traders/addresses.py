"""Compiled code that reads and writes memory and calls functions by address, because numba has no arrays of arrays."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_BYTES = ir.IntType(8).as_pointer()


def _load(word: Any, result: Any) -> Any:
    @intrinsic
    def load(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load(builder.inttoptr(arguments[0], word.as_pointer()))

        return result(types.intp), generate

    return load


load_int64 = _load(ir.IntType(64), types.int64)
load_int32 = _load(ir.IntType(32), types.int32)
load_float64 = _load(ir.DoubleType(), types.float64)


@intrinsic
def store_float64(typing_context: Any, address: Any, value: Any) -> Any:
    """Writes a float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], ir.DoubleType().as_pointer()))
        return context.get_dummy_value()

    return types.void(types.intp, types.float64), generate


@intrinsic
def call_trader(typing_context: Any, function: Any, agent: Any, profile: Any, view: Any, requests: Any) -> Any:
    """Calls a trader's function with the addresses of its four arguments. Takes about 3 ns."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_BYTES] * 4).as_pointer()
        callee = builder.inttoptr(arguments[0], kind)
        builder.call(callee, [builder.inttoptr(argument, _BYTES) for argument in arguments[1:]])
        return context.get_dummy_value()

    return types.void(*[types.intp] * 5), generate
