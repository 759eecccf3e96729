"""Ablations of the researcher: proposal methods with equal budgets and seeds, compared by best PA so far.

    python -m benchmarks.proof --iterations 5 --candidates 8 --seeds 3 --output runs/proof

Full DEK; without its low level; without its high level; neither; Eureka-style best of n with reflection; random specifications; the hand-written default.
The default is trained as often as the others' candidates, each time with another seed, so its best of n is selection from noise.
A long run: (variants x seeds x iterations x candidates) trainings. Started again, it resumes. At the end, the candidate that is best on
validation is scored on the test part, once per run.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from serl.researcher.outer import report, run
from serl.researcher.outer.config import OuterConfig, load_config, parse_config
from serl.researcher.outer.database import Database
from serl.researcher.outer.final import score_test
from serl.researcher.outer.records import Evaluator

VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "no-low": {"low_level": False},
    "no-high": {"high_level": None},
    "neither": {"high_level": None, "low_level": False},
    "eureka": {"proposer": "eureka", "low_level": False},
    "random": {"proposer": "random", "form": "spec"},
    "default": {"proposer": "default"},
}
SEED_STEP = 1000
"""Distance between training seeds of the default."""

Tester = Callable[[Database, OuterConfig], None]


def settings(base: OuterConfig, variant: str, seed: int) -> OuterConfig:
    """Settings of a run without early ends, so all runs have the same budget. Training and proposals share the seed."""
    values = base.model_dump(mode="json") | VARIANTS[variant] | {"name": f"{variant}-{seed}", "seed": seed}
    values["budget"] |= {"seed": seed}
    values["convergence"] |= {"iterations_min": base.iterations + 1}
    values["empty_iterations_max"] = base.iterations + 1
    return parse_config(values, variant)


def run_variant(
    base: OuterConfig, variant: str, seed: int, folder: Path, evaluator: Evaluator | None, tester: Tester | None
) -> dict[str, Any]:
    """Run or resume one run to its end and return its figures. Without a tester, the test part is not scored."""
    config = settings(base, variant, seed)
    resume = (folder / run.DATABASE).exists()
    database = run.begin(folder, config, "python -m benchmarks.proof", resume=resume)
    try:
        run.research(config, folder, database, evaluator)
        if tester and database.fact("test") is None and report.best(database):
            tester(database, config)
        return report.summary(database, config) | {"scored": scored(database)}
    finally:
        database.close()


def retrained(
    base: OuterConfig, seed: int, folder: Path, evaluator: Evaluator | None, tester: Tester
) -> dict[str, Any]:
    """Train the default with as many seeds as other variants have candidates. Returns the figures of `run_variant` that `row_of` needs."""
    single = base.model_copy(update={"iterations": 1, "candidates": 1})
    seeds = [seed + SEED_STEP * place for place in range(base.iterations * base.candidates)]
    found = [run_variant(single, "default", each, folder / str(each), evaluator, None) for each in seeds]
    scores = [each["best"]["score"]["pa_bps"] if each["best"] else -np.inf for each in found]
    best = int(np.argmax(scores))
    test = run_variant(single, "default", seeds[best], folder / str(seeds[best]), evaluator, tester)["test"]
    seconds = sum(row["seconds"] for each in found for row in each["iterations"]) / base.iterations
    ends = range(base.candidates, len(scores) + 1, base.candidates)
    iterations = [{"best_so_far_bps": max(scores[:end]), "seconds": seconds} for end in ends]
    return {
        "best": found[best]["best"],
        "test": test,
        "scored": [pa_bps for pa_bps in scores if np.isfinite(pa_bps)],
        "valid": [],
        "iterations": iterations,
    }


def scored(database: Database) -> list[float]:
    """PA on validation of all scored candidates of a run, in bps."""
    return [
        row["pa_bps"]
        for row in database.rows("SELECT pa_bps FROM candidates WHERE stage = 'done' ORDER BY iteration, slot")
    ]


def proof(base: OuterConfig, variants: Sequence[str], seeds: int, folder: Path, evaluator: Evaluator | None = None, tester: Tester = score_test) -> list[dict[str, Any]]:  # fmt: skip
    """A row per variant: means over seeds with 95 % intervals. All variants finish a seed before the next begins."""
    found: dict[str, list[dict[str, Any]]] = {variant: [] for variant in variants}
    for seed in range(seeds):
        for variant in variants:
            place = folder / f"{variant}-{seed}"
            found[variant].append(
                retrained(base, seed, place, evaluator, tester)
                if variant == "default"
                else run_variant(base, variant, seed, place, evaluator, tester)
            )
    return [row_of(variant, each) for variant, each in found.items()]


def row_of(variant: str, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A row of the table from the figures of a variant's runs."""
    best = [one["best"]["score"]["pa_bps"] for one in found if one["best"]]
    test = [one["test"]["score"]["pa_bps"] for one in found if one["test"]]
    return {
        "variant": variant, "seeds": len(found), "scored": len(best),
        "validation": interval(best), "test": interval(test), "test_by_seed": test,
        "single": spread([pa_bps for one in found for pa_bps in one["scored"]]),
        "best_so_far": [interval(column) for column in _columns(found)],
        "valid_first": interval([one["valid"][0]["valid_at_once"] for one in found if one["valid"]]),
        "valid_last": interval([one["valid"][-1]["valid_at_once"] for one in found if one["valid"]]),
        "hours": sum(row["seconds"] for one in found for row in one["iterations"]) / 3600,
    }  # fmt: skip


def _columns(found: Sequence[dict[str, Any]]) -> list[list[float]]:
    """Best so far after each iteration, over seeds."""
    length = min(len(one["iterations"]) for one in found)
    values = [[one["iterations"][place]["best_so_far_bps"] for one in found] for place in range(length)]
    return [[value for value in column if value is not None] for column in values]


def interval(values: Sequence[float]) -> list[float] | None:
    """Mean and its 95 % bootstrap interval (10,000 draws); None without values."""
    if not values:
        return None
    draws = np.random.default_rng(0).choice(values, (10_000, len(values))).mean(1)
    return [float(np.mean(values)), *map(float, np.quantile(draws, [0.025, 0.975]))]


def spread(values: Sequence[float]) -> list[float] | None:
    """Mean and standard deviation; None for fewer than two values."""
    return [float(np.mean(values)), float(np.std(values, ddof=1))] if len(values) > 1 else None


def text(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a table. `one candidate`: mean and standard deviation of PA on validation over all candidates of a variant."""
    lines = [
        f"{'variant':8} seeds  {'best on validation, bps':22} {'its test, bps':22} {'by seed':19} {'one candidate':14} valid: untuned, last  hours"
    ]
    for row in rows:
        by_seed = " ".join(f"{pa_bps:+.2f}" for pa_bps in row["test_by_seed"])
        single = "none" if row["single"] is None else "{:+.2f}, {:.2f}".format(*row["single"])
        lines.append(
            f"{row['variant']:8} {row['scored']:2}/{row['seeds']:<2}  {_shown(row['validation']):22} {_shown(row['test']):22} "
            f"{by_seed:19} {single:14} {_share(row['valid_first'])}, {_share(row['valid_last']):14} {row['hours']:.2f}"
        )
    return "\n".join(lines)


def _shown(found: list[float] | None) -> str:
    return "none" if found is None else f"{found[0]:+.2f} [{found[1]:+.2f}, {found[2]:+.2f}]"


def _share(found: list[float] | None) -> str:
    return "none" if found is None else f"{found[0]:.0%}"


def parser() -> argparse.ArgumentParser:
    """The command line parser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proof", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--config", type=Path, default=Path("default"))
    parser.add_argument("--market", type=Path, nargs="*", default=[], help="a file of bars, or days with a book")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("runs/proof"))
    return parser


def main() -> None:
    """Run the comparison and print its table."""
    arguments = parser().parse_args()
    base = load_config(arguments.config, arguments.market)
    base = base.model_copy(update={"iterations": arguments.iterations, "candidates": arguments.candidates})
    rows = proof(base, arguments.variants, arguments.seeds, arguments.output)
    (arguments.output / "proof.json").write_text(json.dumps(rows, indent=1))
    print(text(rows))


if __name__ == "__main__":
    main()
