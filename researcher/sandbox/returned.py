"""Read files that a job left in its folder. They may be hostile: expect links, pipes, huge and truncated files."""

import json
import math
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
CLAIMS = {each.value: each for each in (Outcome.OK, Outcome.CRASHED, Outcome.MEMORY, Outcome.THREADS, Outcome.FOLDER)}
"""Outcomes that a job may claim for itself."""


def read_bytes(folder: Path, name: str, bytes_max: int) -> bytes:
    """The bytes of a regular file directly in the folder. ReturnedError for anything else, or if it is larger than `bytes_max`."""
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise ReturnedError(f"expected the name of a file directly in the folder, got {name!r}")
    try:
        folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
        finally:
            os.close(folder_fd)
    except OSError as error:
        raise ReturnedError(f"{name}: expected a regular file, cannot open it ({error.strerror})") from None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise ReturnedError(
                f"{name}: expected a regular file with one name, got another type of file or a hard link"
            )
        with os.fdopen(os.dup(file), "rb") as opened:
            content = opened.read(bytes_max + 1)
    finally:
        os.close(file)
    if len(content) > bytes_max:
        raise ReturnedError(f"{name}: expected at most {bytes_max:,} bytes, got more")
    return content


DIGITS_MAX = 18
"""Most digits of an integer, so that it fits into 64 bits."""


def _reject_constant(word: str) -> Any:
    raise ValueError(f"{word} is not valid JSON")


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > DIGITS_MAX:
        raise ValueError(f"an integer has more than {DIGITS_MAX} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not finite")
    return number


def read_json(folder: Path, name: str, bytes_max: int = JSON_BYTES_MAX) -> Any:
    """Strict JSON from a file in the folder: finite numbers, integers of 64 bits, text that is Unicode (no lone surrogates). ReturnedError if it
    is invalid."""
    content = read_bytes(folder, name, bytes_max)
    try:
        value = json.loads(content, parse_constant=_reject_constant, parse_int=_integer, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode()  # fails for lone surrogates
        return value
    except (ValueError, RecursionError) as error:
        raise ReturnedError(f"{name}: expected JSON ({error})") from None


def read_claim(folder: Path) -> tuple[Outcome, str, Any]:
    """The outcome, text and answer that a job claims. ReturnedError if its answer file is missing or malformed."""
    try:
        answer = read_json(folder, ANSWER)
        outcome, text, value = CLAIMS[answer["outcome"]], answer["text"], answer.get("value")
    except (KeyError, TypeError, AttributeError) as error:
        raise ReturnedError(str(error)) from None
    if not isinstance(text, str):
        raise ReturnedError(f"expected a text, got {type(text).__name__}")
    return outcome, text, value


def read_tensors(folder: Path, name: str, bytes_max: int = TENSOR_BYTES_MAX) -> dict[str, NDArray[Any]]:
    """Tensors of finite numbers from a safetensors file in the folder. ReturnedError if it is invalid."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    content = read_bytes(folder, name, bytes_max)
    try:
        tensors = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ReturnedError(f"{name}: expected a safetensors file ({str(error)[:200]})") from None
    if len(tensors) > TENSORS_MAX:
        raise ReturnedError(f"{name}: expected at most {TENSORS_MAX} tensors, got {len(tensors)}")
    for key, values in tensors.items():
        if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
            raise ReturnedError(f"{name}: expected finite numbers in {key[:100]!r}, got {values.dtype}")
    return tensors
