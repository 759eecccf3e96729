"""Results on disk: complete or not there, so that what is finished is never done again."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from serl.exchange.atomic_file import write_json
from serl.researcher.candidates import Result, Score


def write(result: Result, path: Path) -> None:
    """The file appears complete. The policy lies beside it, and is kept by its name, because folders are moved."""
    name = None if result.policy is None else Path(result.policy).name
    write_json(path, dataclasses.asdict(result) | {"policy": name})


def read(path: Path) -> Result | None:
    """None if there is none."""
    if not path.exists():
        return None
    values: dict[str, Any] = json.loads(path.read_text())
    score = values.pop("score")
    if score is not None:
        score = Score(**score | {"advantages_bps": tuple(score["advantages_bps"])})
    name = values.pop("policy")
    return Result(**values, score=score, policy=None if name is None else str(path.parent / name))
