"""Safetensors files with JSON metadata in the header. They cannot contain code."""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from serl.agents.learning.errors import PolicyFileError
from serl.exchange.atomic_file import atomic_file

KEY = "serl"
VERSION = 2
RENAMED_SINCE_1 = {
    "policy": {"free": "log_std"},
    "checkpoint": {"network.free": "network.log_std"},
    "halop": {"queue": "dqn"},
}
"""By kind of file: prefixes of tensor names in version 1, and their current names."""


def write(path: Path, kind: str, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    """Writes the file atomically. Raises UnwritableFileError if the folder is not writable."""
    text = json.dumps({"kind": kind, "version": VERSION, **metadata})
    with atomic_file(path) as file:
        file.write(save({name: tensor.contiguous() for name, tensor in tensors.items()}, {KEY: text}))


def read(path: Path, *kinds: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Reads (tensors, metadata) of a file of one of the kinds, with the tensor names of this version. Raises PolicyFileError for any other file."""
    if path.is_dir():
        raise PolicyFileError(f"{path}: expected a {kinds[0]} file, got a folder; give the file in it")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = dict(json.loads((file.metadata() or {}).get(KEY, "{}")))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, TypeError, RecursionError) as error:
        raise PolicyFileError(f"{path}: cannot be read as a {kinds[0]} file ({error})") from None
    kind, version = metadata.get("kind"), metadata.get("version")
    if kind not in kinds or version not in range(1, VERSION + 1):
        found = "a file that serl did not write" if kind is None else f"a {kind} of version {version}"
        raise PolicyFileError(f"{path}: expected a {kinds[0]} of version 1 to {VERSION}, got {found}")
    renamed = RENAMED_SINCE_1.get(kind, {}) if version == 1 else {}
    return {_current_name(name, renamed): tensor for name, tensor in tensors.items()}, metadata


def _current_name(name: str, renamed: dict[str, str]) -> str:
    for old, new in renamed.items():
        if name == old or name.startswith(f"{old}."):
            return new + name.removeprefix(old)
    return name
