"""The experience of runs: scored modules in a file of JSON lines, from which later runs learn too. Files may be concatenated."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from serl.exchange.atomic_file import atomic_file
from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.experience import Experience
from serl.researcher.tuning.pool import Scored
from serl.researcher.tuning.rewards import Measurement


def write_experience(path: Path, rows: Sequence[Scored], model_sha256: str) -> None:
    """Write the file atomically. Grammars are stored as hashes: they follow from the kind."""
    lines = [json.dumps({"model": model_sha256, **asdict(row), "grammar": _hash(row.module.grammar)}) for row in rows]
    with atomic_file(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())


def read_experience(path: Path, model_sha256: str, grammars: Mapping[str, str | None]) -> list[Scored]:
    """The rows of a file, none of them fresh. `grammars` are the present grammars by kind. TuningError if the file is not one of experience, or if a
    row belongs to another model, to a kind that this run does not design, or to an older schema."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TuningError(
            f"{path}: expected a file of experience, which a run writes to tuning/experience.jsonl ({error})"
        ) from None
    return [
        _row(line, f"{path}, line {number}", model_sha256, grammars) for number, line in enumerate(lines, 1) if line
    ]


def _row(line: str, place: str, model_sha256: str, grammars: Mapping[str, str | None]) -> Scored:
    try:
        found: dict[str, Any] = json.loads(line)
        model, kind, grammar = found.pop("model"), found["kind"], found.pop("grammar")
        module, score = found.pop("module"), found.pop("score")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TuningError(f"{place}: expected a scored module ({type(error).__name__}: {error})") from None
    if model != model_sha256:
        raise TuningError(f"{place}: expected experience of the model {model_sha256[:12]}, got {model[:12]}; tokens differ between models: use the model of that run")  # fmt: skip
    if kind not in grammars:
        raise TuningError(
            f"{place}: expected one of the kinds {', '.join(grammars)}, got {kind}; add it to kinds, or leave its lines out"
        )
    if grammar != _hash(grammars[kind]):
        raise TuningError(
            f"{place}: expected the present form and schema of {kind}, got another; leave out lines of older versions"
        )
    try:
        inputs: dict[str, Any] = {name: tuple(module[name]) for name in ("prompt_ids", "token_ids")}
        inputs["grammar"] = grammars[kind]
        made: dict[str, Any] = {
            "module": Experience(**{**module, **inputs}),
            "score": Measurement(**score) if score else None,
            "fresh": False,
        }
        return Scored(**{**found, **made})
    except (KeyError, TypeError) as error:
        raise TuningError(f"{place}: expected a scored module ({type(error).__name__}: {error})") from None


def _hash(grammar: str | None) -> str | None:
    return None if grammar is None else hashlib.sha256(grammar.encode()).hexdigest()[:16]
