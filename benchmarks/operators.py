"""Operators without a model against uniform draws, on policies that need no training.

    python -m benchmarks.operators --evaluations 60 --seeds 6

Each seed runs both with the same number of evaluations on the same orders. The best of a run, by the scores that it saw, is scored again on
fresh days, which no run sees. Days are simulated, so the test part stays closed.
"""

import argparse
import json
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.proof_methods import FRESH_DAYS
from serl.agents.execution.data import TRAIN
from serl.agents.learning.policy import load_policy
from serl.agents.learning.rule_policy import RulePolicy
from serl.agents.students_t import student
from serl.researcher.inner.score import score
from serl.researcher.inner.settings import Settings
from serl.researcher.outer import report, run
from serl.researcher.outer.config import OuterConfig, parse_config

METHODS = ("random", "search")
PER_ITERATION = 6
FRESH_SEED = 77


def settings(method: str, seed: int, evaluations: int, orders: int) -> OuterConfig:
    """A run on the task `policy` in a market that reacts, without early ends."""
    market = {
        "kind": "dynamic", "population": "liquid", "hours": "09:35-10:35", "simulated_days": 8, "environments": 4,
        "duration_s": 300, "interval_s": 10,
    }  # fmt: skip
    iterations = evaluations // PER_ITERATION
    values = {
        "name": f"{method}-{seed}", "proposer": method, "kinds": ["policy"], "seed": seed, "candidates": PER_ITERATION,
        "iterations": iterations, "empty_iterations_max": iterations + 1, "convergence": {"tolerance_bps": 0}, "workers": 1,
        "budget": {"static_steps": 0, "dynamic_steps": 0},
        "inner": {"market": market, "scored_in": "market", "orders": orders, "rungs": [1.0]},
    }  # fmt: skip
    return parse_config(values, method)


def best_of_run(config: OuterConfig, folder: Path, fresh_orders: int) -> dict[str, float]:
    """PA of a run's best candidate: as the run saw it, and on fresh orders."""
    database = run.begin(folder, config, "python -m benchmarks.operators", resume=False)
    run.research(config, folder, database)
    found = report.best(database)
    count = database.one("SELECT count(DISTINCT key) FROM candidates WHERE stage = 'done'")
    database.close()
    assert found is not None, "the run has no score"
    policy = load_policy(Path(found["policy"]))
    assert isinstance(policy, RulePolicy)
    measured = score(policy, fresh(config.inner, fresh_orders), TRAIN)
    return {"seen": found["score"]["pa_bps"], "fresh": measured.pa_bps, "evaluated": float(count)}


def fresh(inner: Settings, orders: int) -> Settings:
    """The same market with other orders on other days: runs score folds of the training days, and look for signals in them."""
    market = inner.market.model_copy(update={"first_day": FRESH_DAYS})
    return inner.model_copy(update={"market": market, "orders": orders, "score_seed": FRESH_SEED})


def interval(values: list[float]) -> tuple[float, float, float]:
    """Mean and 95 % t-interval."""
    mean, half = fmean(values), student(len(values) - 1) * stdev(values) / len(values) ** 0.5
    return mean, mean - half, mean + half


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=6, choices=range(2, 13))
    parser.add_argument("--orders", type=int, default=48)
    parser.add_argument("--fresh-orders", type=int, default=192)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: dict[str, list[dict[str, Any]]] = {method: [] for method in METHODS}
    with TemporaryDirectory() as folder:
        for seed in range(options.seeds):
            for method in METHODS:
                config = settings(method, seed, options.evaluations, options.orders)
                rows[method].append(best_of_run(config, Path(folder) / config.name, options.fresh_orders))
                if not options.json:
                    print(f"{config.name}: {rows[method][-1]}", flush=True)
    if options.json:
        print(json.dumps(rows))
        return
    print("method    seen, bps             fresh, bps")
    for method, found in rows.items():
        seen, new = (interval([row[name] for row in found]) for name in ("seen", "fresh"))
        print(
            f"{method:8}  {seen[0]:+.2f} [{seen[1]:+.2f}, {seen[2]:+.2f}]  {new[0]:+.2f} [{new[1]:+.2f}, {new[2]:+.2f}]"
        )
    gaps = [one["fresh"] - other["fresh"] for one, other in zip(rows["search"], rows["random"], strict=True)]
    print("search - random, fresh, paired by seed: {:+.2f} [{:+.2f}, {:+.2f}] bps".format(*interval(gaps)))


if __name__ == "__main__":
    main()
