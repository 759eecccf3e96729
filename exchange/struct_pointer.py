"""A NamedTuple of arrays as one pointer in compiled code.

numba passes a tuple of two dozen arrays as two hundred numbers in every call, and LLVM spends most of its time on them. Here compiled code gets the
address of the tuple's last field, `handle`: two words for the owner's use, then the address and the shape of each array.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import from_dtype, typeof, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import make_array, populate_array
from numpy.typing import ArrayLike

Arrays = TypeVar("Arrays", bound=tuple[Any, ...])

WORDS = 4
"""Words per array in the handle: its address and up to three sizes."""
OWN_WORDS = 2
"""Words at the start of the handle, for the owner's use."""
WORD = ir.IntType(64)


def with_handle(arrays: Arrays, own: ArrayLike = (0, 0)) -> Arrays:
    """The tuple with a handle to its current arrays and the owner's words. Call it again whenever an array is replaced."""
    *fields, handle = arrays._fields  # pyrefly: ignore[missing-attribute]
    assert handle == "handle"
    words = np.zeros(OWN_WORDS + WORDS * len(fields), np.int64)
    words[:OWN_WORDS] = own
    for place, name in enumerate(fields):
        array = getattr(arrays, name)
        assert array.flags.c_contiguous, name
        at = OWN_WORDS + WORDS * place
        words[at] = array.ctypes.data
        words[at + 1 : at + 1 + array.ndim] = array.shape
    return arrays._replace(handle=words)  # pyrefly: ignore[missing-attribute]


class StructPointer(types.Type):
    """The numba type of a NamedTuple of arrays."""

    def __init__(self, name: str, names: tuple[str, ...], kinds: tuple[Any, ...]) -> None:
        self.names, self.kinds = names, kinds
        super().__init__(name)  # a short name, because it becomes part of every function's name

    @property
    def key(self) -> Any:
        """Distinguishes types."""
        return self.name, self.names, self.kinds


register_model(StructPointer)(models.OpaqueModel)


def passed_by_pointer(cls: type[Arrays] | None = None, /, **records: np.dtype[np.void]) -> Any:
    """Decorates a NamedTuple of arrays, the last one `handle`: compiled code sees it through a pointer.

    `records`: fields whose last axis is one record. Compiled code sees them as an array of those records, or as the record itself if that axis
    is the only one.
    """

    def decorate(cls: type[Arrays]) -> type[Arrays]:
        @typeof_impl.register(cls)
        def typeof_arrays(value: Any, context: Any) -> Any:
            kinds = dict(zip(value._fields, map(typeof, value), strict=True))
            for name, dtype in records.items():
                record, axes = from_dtype(dtype), kinds[name].ndim - 1
                kinds[name] = types.Array(record, axes, "C") if axes else record
            return StructPointer(cls.__name__, value._fields, tuple(kinds.values()))

        return cls

    return decorate if cls is None else decorate(cls)


@infer_getattr
class _Fields(AttributeTemplate):
    key = StructPointer

    def generic_resolve(self, kind: Any, name: str) -> Any:
        return kind.kinds[kind.names.index(name)] if name in kind.names else None


@unbox(StructPointer)
def _unbox(kind: Any, value: Any, context: Any) -> Any:
    """The address of the handle, which Python's tuple keeps alive."""
    handle = context.pyapi.tuple_getitem(value, len(kind.names) - 1)
    words = context.unbox(kind.kinds[-1], handle)
    array = make_array(kind.kinds[-1])(context.context, context.builder, words.value)
    address = context.builder.bitcast(array.data, context.context.get_value_type(kind))
    return NativeValue(address, is_error=words.is_error, cleanup=words.cleanup)


@lower_getattr_generic(StructPointer)
def _field(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    place = kind.names.index(name)
    array = kind.kinds[place]
    if name == "handle":
        size = ir.Constant(WORD, OWN_WORDS + WORDS * (len(kind.names) - 1))
        return array_at(context, builder, array, builder.ptrtoint(value, WORD), [size])
    words = builder.bitcast(value, WORD.as_pointer())

    def word(at: int) -> Any:
        loaded = builder.load(builder.gep(words, [ir.Constant(WORD, at)]), align=8)
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))  # a handle is never written to
        return loaded

    at = OWN_WORDS + WORDS * place
    if isinstance(array, types.Record):
        return builder.inttoptr(word(at), context.get_value_type(array))
    return array_at(context, builder, array, word(at), [word(at + 1 + axis) for axis in range(array.ndim)])


def struct_at(kind: Callable[[], Any]) -> Any:
    """A compiled function that returns the tuple whose handle is at an address. kind: creates the numba type of the tuple."""

    @intrinsic
    def at(typing_context: Any, address: Any) -> Any:
        arrays = kind()

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(arrays))

        return arrays(types.int64), generate

    return at


def array_at(context: Any, builder: Any, kind: Any, address: Any, shape: list[Any]) -> Any:
    """An array over memory that it does not own."""
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
