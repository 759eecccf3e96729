"""Small runs: an endpoint that answers as told, and an evaluation that is arithmetic on the reward's specification."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from serl.researcher.candidates import Candidate, Result, Score
from serl.researcher.llm.settings import Endpoint
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.example import example
from serl.researcher.outer.config import OuterConfig, parse_config
from serl.researcher.outer.database import Database

REWARD = example(Kind.REWARD, "spec")


def config_of(**changes: Any) -> OuterConfig:
    values = {
        "iterations": 3, "candidates": 2, "kinds": ["reward"], "convergence": {"iterations_min": 99}, "proposer": "random", **changes,
    }  # fmt: skip
    return parse_config(values, "test")


def endpoint_of(url: str, **changes: Any) -> dict[str, Any]:
    return Endpoint(base_url=url, model="fake", attempts_max=2, backoff_s=0.0, **changes).model_dump(mode="json")


def score_of(pa_bps: float) -> Score:
    return Score(pa_bps, pa_bps - 1, pa_bps + 1, pa_bps, 8, 2.0, 0.25, 0.5, (pa_bps,) * 8)


def pa_of(candidate: Candidate) -> float:
    """Sum of the weights of a reward's terms, in percent / 10: negative as often as not."""
    module = candidate.modules.get(Kind.REWARD)
    terms = json.loads(module.text)["terms"] if module else []
    return float(sum(term["weight_percent"] for term in terms)) / 10


class Arithmetic:
    """Remembers which candidates it was asked about."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, candidates: Sequence[Candidate], folder: Path) -> list[Result]:
        self.asked += [candidate.key for candidate in candidates]
        return [Result("done", "", score_of(pa_of(candidate)), None, {}) for candidate in candidates]


def content(database: Database) -> list[Any]:
    """What a run has found; equal where two runs went the same way."""
    tables = ("modules", "candidates", "verdicts", "instructions")
    rows = [tuple(row) for table in tables for row in database.rows(f"SELECT * FROM {table} ORDER BY rowid")]
    times = [tuple(row)[:5] for row in database.rows("SELECT * FROM iterations ORDER BY iteration")]
    return [*rows, *times]
