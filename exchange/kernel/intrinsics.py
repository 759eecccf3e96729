"""Machine instructions that Python has no name for."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """Zero bits below the lowest set bit of a uint64; 64 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def leading_zeros(typing_context: Any, word: Any) -> Any:
    """Zero bits above the highest set bit of a uint64; 64 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


def _calls(count: int) -> Any:
    """The typing and code of a call with `count` int64."""
    word = ir.IntType(64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(word, [word] * count).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], kind), arguments[1:])

    return types.int64(*[types.int64] * (count + 1)), generate


@intrinsic
def call(typing_context: Any, address: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any) -> Any:
    """Calls the function at `address` with seven int64; its int64."""
    return _calls(7)


@intrinsic
def call_with_two(typing_context: Any, address: Any, a: Any, b: Any) -> Any:
    """Calls the function at `address` with two int64; its int64."""
    return _calls(2)


@intrinsic
def call_with_four(typing_context: Any, address: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Calls the function at `address` with four int64; its int64."""
    return _calls(4)


@intrinsic
def prefetch(typing_context: Any, address: Any) -> Any:
    """Asks for the cache line at an address that will be needed soon; any address will do."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte_pointer], ir.FunctionType(ir.VoidType(), [byte_pointer, word, word, word])
        )
        pointer = builder.inttoptr(arguments[0], byte_pointer)
        builder.call(function, [pointer, word(1), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(types.intp), generate


@intrinsic
def store_big_endian(typing_context: Any, address: Any, word: Any) -> Any:
    """Writes an int64 to eight bytes at an address, aligned or not, the highest byte first."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        builder.store(builder.bswap(arguments[1]), target, align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate
