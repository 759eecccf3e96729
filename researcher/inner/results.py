"""Results on disk, written atomically, so that finished work is never repeated."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from serl.exchange.atomic_file import write_json
from serl.researcher.candidates import Result, Score, current_stage


def write(result: Result, path: Path) -> None:
    """Write a result atomically. The policy file next to it is stored by name, because folders may move."""
    name = None if result.policy is None else Path(result.policy).name
    write_json(path, dataclasses.asdict(result) | {"policy": name})


def read(path: Path) -> Result | None:
    """Read a result; None if the file does not exist."""
    if not path.exists():
        return None
    values: dict[str, Any] = json.loads(path.read_text())
    score = values.pop("score")
    if score is not None:
        score = Score(**score | {"advantages_bps": tuple(score["advantages_bps"])})
    name = values.pop("policy")
    values["stage"] = current_stage(values["stage"])
    return Result(**values, score=score, policy=None if name is None else str(path.parent / name))
