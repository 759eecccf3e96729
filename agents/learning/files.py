"""Files of tensors and facts: safetensors whose header holds JSON; nothing in them can run."""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from serl.agents.learning.errors import PolicyFileError
from serl.exchange.atomic_file import atomic_file

KEY = "serl"
VERSION = 1


def write(path: Path, kind: str, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """The file appears complete or not at all. UnwritableFileError if the folder cannot be written to."""
    text = json.dumps({"kind": kind, "version": VERSION, **facts})
    with atomic_file(path) as file:
        file.write(save({name: tensor.contiguous() for name, tensor in tensors.items()}, {KEY: text}))


def read(path: Path, *kinds: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and facts of a file of one of the kinds; PolicyFileError if it is none."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {}).get(KEY, "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise PolicyFileError(f"{path}: cannot be read as a {kinds[0]} ({error})") from None
    if facts.get("kind") not in kinds or facts.get("version") != VERSION:
        found = f"{facts.get('kind', 'no file of serl')}, version {facts.get('version')}"
        raise PolicyFileError(f"{path}: a {kinds[0]}, version {VERSION}, is due, got {found}")
    return tensors, facts
