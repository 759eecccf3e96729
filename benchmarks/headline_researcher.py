"""SE-RL in `python -m benchmarks.headline`: the researcher's full method, on the training days of a market."""

from pathlib import Path
from typing import Any

from benchmarks.proof_methods import DRAWN_FIRST, LOW_LEVEL
from serl.agents.execution.data import TRAIN
from serl.agents.learning.market_config import MarketConfig
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer import report, run
from serl.researcher.outer.config import OuterConfig, parse_config

SERL = "SE-RL"
COMMAND = "python -m benchmarks.headline"
ITERATIONS, CANDIDATES, BATCHES = 13, 8, 12
"""Those of `python -m benchmarks.proof`: 104 candidates, and batches of orders of an iteration."""
ORDERS = {"nasdaq": 400, "cn": 400, "replay": 100, "dynamic": 50}
"""Of a batch. An order in bars says less."""


def researcher_config(market: str, trained_in: MarketConfig, seed: int, quick: bool) -> OuterConfig:
    """The full method of the proof, which searches for rules (kind `policy`) on folds of the training days."""
    candidates = 2 if quick else CANDIDATES
    values: dict[str, Any] = {
        "name": f"{market}-{seed}", "proposer": "dek", "kinds": [Kind.POLICY.value], "seed": seed, "search": DRAWN_FIRST, "low_level": LOW_LEVEL,
        "iterations": 1 if quick else ITERATIONS, "candidates": candidates, "workers": 1, "empty_iterations_max": 10_000,
        "convergence": {"iterations_min": 10_000}, "budget": {"static_steps": 0, "dynamic_steps": 0},
        "inner": {
            "scored_in": "bars" if trained_in.kind == "static" else "market", "orders": 6 if quick else ORDERS[market],
            "race": {"trainings": candidates if quick else BATCHES, "at_once": candidates},
            "market": trained_in.model_copy(update={"part": TRAIN}).model_dump(mode="json"),
        },
    }  # fmt: skip
    return parse_config(values, SERL)


def researched(config: OuterConfig, folder: Path) -> Path:
    """The best policy of a run in a folder, which is begun, continued or finished already."""
    database = run.begin(folder, config, COMMAND, resume=(folder / run.DATABASE).exists())
    try:
        run.research(config, folder, database)
        found = report.best(database)
        if found is None:
            raise RuntimeError(f"{folder}: expected a candidate with a score, got none; see {folder / run.DATABASE}")
        return Path(found["policy"])
    finally:
        database.close()
