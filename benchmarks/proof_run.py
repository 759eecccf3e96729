"""The runs of one task and seed: every method searches on the same days, and what it found is measured on the same fresh days.

Days are simulated, and a seed has days of its own, so the test part stays closed and seeds are independent of each other.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.proof_methods import CEILING, DEFAULT, TPE, Options, config_of, default_config
from serl.agents.execution.data import VALIDATION
from serl.agents.learning.baseline import BaselinePolicy
from serl.agents.learning.policy import load_policy
from serl.exchange.atomic_file import write_json
from serl.exchange.errors import ConfigError
from serl.researcher.candidates import Candidate
from serl.researcher.inner.contender import Contender
from serl.researcher.inner.evaluate import ignore_stage
from serl.researcher.inner.executors import trainer
from serl.researcher.inner.score import score
from serl.researcher.inner.settings import Settings
from serl.researcher.outer import report, run

FRESH_SEED = 77
"""Of the fresh orders."""
COMMAND = "python -m benchmarks.proof"


def unit_folder(output: Path, task: str, seed: int) -> Path:
    """Where the runs of a task and seed are."""
    return output / Path(task).stem / f"seed-{seed}"


def run_unit(output: Path, task: str, seed: int, methods: Sequence[str], options: Options) -> None:
    """Run each method that has no figures yet, and write them."""
    folder = unit_folder(output, task, seed)
    for method in methods:
        path = folder / f"{method}.json"
        if not path.exists():
            began = time.process_time()
            found = (
                _default(task, seed, folder, options)
                if method == DEFAULT
                else _search(task, method, seed, folder, options)
            )
            write_json(path, found | {"process_s": time.process_time() - began})


def _search(task: str, method: str, seed: int, folder: Path, options: Options) -> dict[str, Any]:
    """Run a method to its end; the figures of its best candidate. A killed run continues."""
    config = config_of(task, method, seed, options)
    place = folder / (TPE if method == CEILING else method)
    database = run.begin(place, config, COMMAND, resume=(place / run.DATABASE).exists())
    try:
        if (done := database.one("SELECT count(*) FROM iterations")) > config.iterations:
            raise ConfigError(
                f"{place}: expected at most {config.iterations} iterations of {method}, got {done}; name {TPE} before {CEILING}"
            )
        run.research(config, place, database)
        found, summary = report.best(database), report.summary(database, config)
        if found is None:
            raise RuntimeError(f"{place}: expected a candidate with a score, got none; see {place / run.DATABASE}")
        valid = summary["valid"]
        return {
            "key": found["key"], "seen_bps": found["score"]["pa_bps"], "fresh_bps": _fresh(Path(found["policy"]), config.inner, seed, options),
            "modules": found["modules"], "candidates": database.one("SELECT count(*) FROM candidates WHERE slot < ?", config.candidates),
            "scored": database.one("SELECT count(DISTINCT key) FROM candidates WHERE pa_bps IS NOT NULL"),
            "valid": [valid[0]["valid_at_once"], valid[-1]["valid_at_once"]] if valid else None,
            "seconds": sum(row["seconds"] for row in summary["iterations"]),
        }  # fmt: skip
    finally:
        database.close()


def _default(task: str, seed: int, folder: Path, options: Options) -> dict[str, Any]:
    """Train the default algorithm, and measure the training that is best on the days of the search."""
    config = default_config(task, seed, options)
    place, began = folder / DEFAULT, time.monotonic()
    one = Contender(Candidate({}), config.inner, config.budget, place, ignore_stage, trainer("local"))
    for number in range(options.trainings):
        one.run(1.0, number)
    if one.failure:
        raise RuntimeError(f"{place}: expected a trained default, got: {one.failure.reason}")
    best = max(one.trials.values(), key=lambda trial: trial.score.pa_bps)
    fresh_bps = [
        _fresh(place / f"seed-{number}" / "policy.safetensors", config.inner, seed, options)
        for number in range(options.trainings)
    ]
    return {
        "key": one.key, "seen_bps": best.score.pa_bps, "fresh_bps": fresh_bps[best.seed], "trainings_bps": fresh_bps,
        "candidates": options.trainings, "scored": options.trainings, "valid": None, "seconds": time.monotonic() - began,
    }  # fmt: skip


def _fresh(policy: Path, settings: Settings, seed: int, options: Options) -> float:
    """PA of a policy on the fresh orders of a seed, in bps."""
    market = settings.market.model_copy(update=options.market(seed, fresh=True))
    fresh = settings.model_copy(update={"market": market, "orders": options.fresh_orders, "score_seed": FRESH_SEED})
    found = load_policy(policy)
    assert not isinstance(found, BaselinePolicy), "the researcher and training save no other kind"
    return score(found, fresh, VALIDATION).pa_bps


def figures(output: Path, task: str, seed: int, method: str) -> dict[str, Any] | None:
    """The figures of a finished run; None if it is not finished."""
    path = unit_folder(output, task, seed) / f"{method}.json"
    return json.loads(path.read_text()) if path.exists() else None
