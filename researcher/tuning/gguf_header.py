"""The header of a GGUF file: its fields, and where each tensor is. The package gguf's own reader makes an array for every word, which takes 5 s.

Format: github.com/ggml-org/ggml, docs/gguf.md, versions 2 and 3, little-endian.
"""

import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from serl.researcher.llm.models import GGUF_MAGIC
from serl.researcher.tuning.errors import TuningError

VERSIONS = 2, 3
SCALARS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
"""Format characters of `struct` by type number of GGUF."""
STRING, ARRAY = 8, 9
ALIGNMENT_BYTES = 32


@dataclass(frozen=True)
class TensorPlace:
    """A tensor in a GGUF file."""

    offset: int
    """In bytes, from the start of the file."""
    n_bytes: int
    n_elements: int


@dataclass(frozen=True)
class GGUFHeader:
    """The header of a GGUF file."""

    values: dict[str, Any]
    """The fields, except arrays."""
    tensors: dict[str, TensorPlace]


def read_header(path: Path) -> GGUFHeader:
    """Read the header of a GGUF file. TuningError if the file is not one."""
    with path.open("rb") as file:
        try:
            if file.read(4) != GGUF_MAGIC or _scalar(file, "I") not in VERSIONS:
                raise TuningError(
                    f"{path}: expected a GGUF file of version 2 or 3, got another; convert the model again"
                )
            return _header(file)
        except (struct.error, ValueError, KeyError, OverflowError, MemoryError) as error:
            raise TuningError(
                f"{path}: expected a whole GGUF file, got one that is cut off or damaged ({error}); download it again"
            ) from None


def _header(file: BinaryIO) -> GGUFHeader:
    """What follows the version."""
    n_tensors, n_fields = _scalar(file, "Q"), _scalar(file, "Q")
    fields = {_string(file): _value(file, _scalar(file, "I")) for _ in range(n_fields)}
    values = {name: value for name, value in fields.items() if value is not None}
    found = [_tensor(file) for _ in range(n_tensors)]
    alignment = values.get("general.alignment", ALIGNMENT_BYTES)
    begin = -(-file.tell() // alignment) * alignment
    places = {name: TensorPlace(begin + offset, n_bytes, n) for name, offset, n_bytes, n in found}
    return GGUFHeader(values, places)


def _scalar(file: BinaryIO, code: str) -> Any:
    return struct.unpack(f"<{code}", file.read(struct.calcsize(code)))[0]


def _string(file: BinaryIO) -> str:
    return file.read(_scalar(file, "Q")).decode()


def _value(file: BinaryIO, kind: int) -> Any:
    """The value of a field; None for an array, which is skipped."""
    if kind == STRING:
        return _string(file)
    if kind != ARRAY:
        return _scalar(file, SCALARS[kind])
    inner, n = _scalar(file, "I"), _scalar(file, "Q")
    if inner in SCALARS:
        file.seek(n * struct.calcsize(SCALARS[inner]), 1)
        return None
    for _ in range(n):
        _value(file, inner)
    return None


def _tensor(file: BinaryIO) -> tuple[str, int, int, int]:
    """(name, offset from the first tensor, number of bytes, number of elements)."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    name = _string(file)
    n = prod(_scalar(file, "Q") for _ in range(_scalar(file, "I")))
    block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(_scalar(file, "I"))]
    return name, _scalar(file, "Q"), n // block * block_bytes, n
