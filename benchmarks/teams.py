"""`python -m benchmarks.teams`: does it help two agents that share a parent order to send each other messages?

Three algorithms are trained with the same seeds and execute the same orders on a served exchange: one agent; two agents with silent messages; and
two with the example module of kind `communicate`. Differences are paired by order, with errors clustered by day and training seed; p-values are
Holm's. Settings are those of `serl researcher start` without data. Ctrl-C stops it; the same command with --resume continues. `--quick` checks
that it runs.
"""

import argparse
import itertools
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.endings import one_line_endings
from serl.agents.students_t import holm, tail
from serl.exchange.atomic_file import write_json
from serl.exchange.errors import ConfigError, SerlError
from serl.researcher.candidates import Candidate, Module, Paired, Score
from serl.researcher.inner.contender import Contender
from serl.researcher.inner.evaluate import ignore_stage
from serl.researcher.inner.executors import trainer
from serl.researcher.inner.paired import freedom, paired
from serl.researcher.inner.worker import abandon
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.example import example
from serl.researcher.outer.config import load_config
from serl.researcher.outer.history import with_history
from serl.signals import unwind_on_signals

SILENT = """
from torch import Tensor

def communicate(observations: Tensor) -> Tensor:
    return 0.0 * observations[:, [0, 1]]
"""
SINGLE, MUTE, TALKING = "one agent", "two, silent", "two, messages"
ARMS = {
    SINGLE: Candidate({}),
    MUTE: Candidate({Kind.COMMUNICATE: Module("code", SILENT)}),
    TALKING: Candidate({Kind.COMMUNICATE: Module("spec", example(Kind.COMMUNICATE, "spec"))}),
}
CONTRASTS = (TALKING, MUTE), (TALKING, SINGLE)
SETTINGS, TABLE = "settings.json", "teams.json"


@dataclass(frozen=True)
class Options:
    """How much is trained and measured."""

    seeds: int = 8
    orders: int = 24
    steps_share: float = 1.0
    """Of the default budget."""


QUICK = Options(seeds=2, orders=4, steps_share=0.005)


def trained(options: Options, folder: Path, workers: int) -> dict[str, Contender]:
    """Train and score each algorithm with each seed. What is in the folder is not done again. SerlError if one has no score."""
    config = load_config(Path("default"))
    settings = with_history(config.inner, folder).model_copy(update={"orders": options.orders})
    share = options.steps_share
    steps = {name: round(share * getattr(config.budget, name)) for name in ("static_steps", "dynamic_steps")}
    budget, train = replace(config.budget, **steps), trainer("local")
    field = {
        name: Contender(one, settings, budget, folder / one.key, ignore_stage, train) for name, one in ARMS.items()
    }
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress, ThreadPoolExecutor(workers) as pool:
        shown = progress.add_task("trainings", total=options.seeds * len(field))

        def run(seed: int, one: Contender) -> None:
            one.run(1.0, seed)
            progress.advance(shown)

        try:
            list(pool.map(lambda each: run(*each), itertools.product(range(options.seeds), field.values())))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            abandon()
            raise
    for name, one in field.items():
        if one.failure:
            raise SerlError(f"{name}: expected a trained policy, got: {one.failure.reason}")
    return field


def compared(field: dict[str, Contender], options: Options) -> list[dict[str, Any]]:
    """A row for each algorithm and each contrast."""
    scores = {name: [trial.score for trial in one.at(1.0, options.seeds)] for name, one in field.items()}
    found = [paired(scores[first], scores[second], 1.0) for first, second in CONTRASTS]
    corrected = holm([_p_value(one, scores[TALKING]) for one in found])
    rows = [
        {"algorithm": name, "pa_bps": sum(one.pa_bps for one in each) / len(each), "unfilled": sum(one.unfilled for one in each) / len(each)}
        for name, each in scores.items()
    ]  # fmt: skip
    return [
        *rows,
        *({"contrast": f"{first} - {second}", **asdict(one), "p_holm": p}
          for (first, second), one, p in zip(CONTRASTS, found, corrected, strict=True)),
    ]  # fmt: skip


def _p_value(found: Paired, scores: Sequence[Score]) -> float:
    """Two-sided, with the degrees of freedom of the interval: those of the days of the orders, where they are fewer than the seeds."""
    if not found.se_bps:
        return 1.0
    days = np.concatenate([one.clusters for one in scores])
    seeds = np.repeat(np.arange(len(scores)), [len(one.clusters) for one in scores])
    return min(
        1.0, 2 * tail(abs(found.difference_bps) / found.se_bps, freedom(days, seeds, controls=int(found.controlled)))
    )


def text(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| algorithm | PA in bps | completed by force |", "|---|---|---|"]
    lines += [f"| {row['algorithm']} | {row['pa_bps']:+.2f} | {row['unfilled']:.1%} |" for row in rows if "algorithm" in row]  # fmt: skip
    lines += ["", "| difference | bps | p (Holm) |", "|---|---|---|"]
    for row in rows:
        if "contrast" in row:
            interval = f"{row['difference_bps']:+.2f} [{row['low_bps']:+.2f}, {row['high_bps']:+.2f}]"
            lines.append(f"| {row['contrast']} | {interval} | {row['p_holm']:.3f} |")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The command line parser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.teams", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--seeds", type=int, default=Options.seeds, help="trainings of each algorithm [default: 8]")
    parser.add_argument("--orders", type=int, default=Options.orders, help="orders of a score [default: 24]")
    parser.add_argument("--workers", type=int, default=1, help="trainings at a time")
    parser.add_argument("--output", type=Path, default=Path("runs/teams"))
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser


def study(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Train what is missing; the rows. ConfigError for a bad option."""
    options = QUICK if arguments.quick else Options(arguments.seeds, arguments.orders)
    if options.seeds < 2 or options.orders < 2 or arguments.workers < 1:
        raise ConfigError("expected at least 2 seeds, 2 orders and 1 worker; correct the option")
    path = arguments.output / SETTINGS
    if path.exists() and not arguments.resume:
        raise ConfigError(
            f"{arguments.output}: expected no study, got one; continue with --resume, or use another --output"
        )
    if path.exists() and json.loads(path.read_text()) != asdict(options):
        raise ConfigError(f"{arguments.output}: expected a study with these options, got another; use another --output")
    arguments.output.mkdir(parents=True, exist_ok=True)
    write_json(path, asdict(options))
    rows = compared(trained(options, arguments.output, arguments.workers), options)
    write_json(arguments.output / TABLE, rows)
    return rows


def main() -> None:
    """Run the study and print its tables."""
    arguments = parser().parse_args()
    unwind_on_signals()
    with one_line_endings("continue with the same command and --resume"):
        rows = study(arguments)
    print(json.dumps(rows) if arguments.json else text(rows))


if __name__ == "__main__":
    main()
