"""Reading what a job left in its folder. Its author is an enemy: links, pipes, giants and half files are the normal case."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.researcher.sandbox.boot import ANSWER
from serl.researcher.sandbox.errors import ReturnedError
from serl.researcher.sandbox.job_result import Outcome

JSON_BYTES_MAX = 2**20
TENSOR_BYTES_MAX = 64 * 2**20
TENSORS_MAX = 256
CLAIMS = {each.value: each for each in (Outcome.OK, Outcome.CRASHED, Outcome.MEMORY, Outcome.THREADS)}
"""What a job can say about itself."""


def read_bytes(folder: Path, name: str, bytes_max: int) -> bytes:
    """A regular file directly in the folder; ReturnedError for anything else, and if it is larger."""
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise ReturnedError(f"{name!r}: the name of a file directly in the folder is due")
    try:
        here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
        finally:
            os.close(here)
    except OSError as error:
        raise ReturnedError(f"{name}: a regular file is due, it cannot be opened ({error.strerror})") from None
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
            raise ReturnedError(f"{name}: a regular file with one name is due")
        with os.fdopen(os.dup(file), "rb") as opened:
            content = opened.read(bytes_max + 1)
    finally:
        os.close(file)
    if len(content) > bytes_max:
        raise ReturnedError(f"{name}: at most {bytes_max:,} bytes are due")
    return content


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a number of JSON")


def read_json(folder: Path, name: str, bytes_max: int = JSON_BYTES_MAX) -> Any:
    """Strict JSON (no NaN, no infinity) from a file in the folder; ReturnedError if it is none."""
    try:
        return json.loads(read_bytes(folder, name, bytes_max), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        if isinstance(error, ReturnedError):
            raise
        raise ReturnedError(f"{name}: JSON is due ({error})") from None


def read_claim(folder: Path) -> tuple[Outcome, str, Any]:
    """What a job says about itself, why, and its answer; ReturnedError if it left nothing of that form."""
    try:
        answer = read_json(folder, ANSWER)
        return CLAIMS[answer["outcome"]], str(answer["text"]), answer.get("value")
    except (KeyError, TypeError, AttributeError) as error:
        raise ReturnedError(str(error)) from None


def read_tensors(folder: Path, name: str, bytes_max: int = TENSOR_BYTES_MAX) -> dict[str, NDArray[Any]]:
    """Finite numbers by name from a safetensors file in the folder; ReturnedError if it is none or holds others."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    content = read_bytes(folder, name, bytes_max)
    try:
        tensors = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ReturnedError(f"{name}: a safetensors file is due ({str(error)[:200]})") from None
    if len(tensors) > TENSORS_MAX:
        raise ReturnedError(f"{name}: at most {TENSORS_MAX} tensors are due, got {len(tensors)}")
    for key, values in tensors.items():
        if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
            raise ReturnedError(f"{name}: {key[:100]!r} must hold finite numbers, got {values.dtype}")
    return tensors
