"""The proof: does the researcher find better rules than what it is compared with?

    python -m benchmarks.proof liquid trending informed closing slow --seeds 10 --workers 4 --output runs/proof

Every method searches for a rule of kind `policy` with the same number of candidates, in the same race, on the same simulated days: the full
method; without its low level, its high level, any model, racing, or (and any model) signals; Eureka-style best of n; uniform specifications; a (1+1) climb; a
tree-structured Parzen estimator, and the same with three times the candidates (the ceiling). `default` trains the default algorithm.
`no-policy` and the kinds alone search among algorithms that are trained instead of among rules.
Each seed has days of its own. What a run found is measured on fresh days that no run has seen. docs/results.md holds what was registered
before. Ctrl-C stops it; the same command with --resume continues, and repeats no finished run. The table is printed only when all runs are done.
"""

import argparse
import dataclasses
import json
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import proof_table
from benchmarks.endings import one_line_endings
from benchmarks.proof_methods import METHODS, Options
from benchmarks.proof_run import figures, run_unit
from serl.clients.parent_watch import exit_with_parent
from serl.exchange.atomic_file import write_json
from serl.exchange.errors import ConfigError, SerlError
from serl.researcher.tasks import load_task, task_names
from serl.signals import unwind_on_signals

SETTINGS, TABLE = "settings.json", "proof.json"
POLL_S = 5.0
QUICK = Options(
    iterations=2, candidates=2, orders=6, batches=4, days=4, fresh_orders=6, fresh_days=4, steps_share=0.002
)


class ProofError(SerlError):
    """Runs have failed."""


@dataclasses.dataclass(frozen=True)
class Proof:
    """What is run."""

    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: range
    options: Options
    output: Path

    @property
    def units(self) -> Iterator[tuple[str, int]]:
        """(task, seed): all tasks of a seed before the next seed."""
        return ((task, seed) for seed in self.seeds for task in self.tasks)

    @property
    def done(self) -> int:
        """Finished runs."""
        return sum(figures(self.output, *unit, method) is not None for unit in self.units for method in self.methods)

    @property
    def missing(self) -> list[tuple[str, int]]:
        """Units with runs to do."""
        return [unit for unit in self.units if any(figures(self.output, *unit, one) is None for one in self.methods)]

    def found(self) -> dict[tuple[str, str], list[float]]:
        """PA on fresh days by method and task, a value for each seed."""
        return {
            (method, task): [figures(self.output, task, seed, method)["fresh_bps"] for seed in self.seeds]  # pyrefly: ignore[unsupported-operation]
            for method in self.methods
            for task in self.tasks
        }


def begin(proof: Proof, *, resume: bool) -> None:
    """Prepare the folder. ConfigError if a task or method is named twice (its seeds would count twice), if the folder holds runs already and `resume`
    is false, or runs with other options."""
    for what, names in (("task", [Path(task).stem for task in proof.tasks]), ("method", proof.methods)):
        if twice := [name for place, name in enumerate(names) if name in names[:place]]:
            raise ConfigError(
                f"{what}s: expected each {what} once, got {', '.join(twice)} more often; leave it out, or rename its file"
            )
    for task in proof.tasks:
        if load_task(task).expects:
            raise ConfigError(f"{task}: expected a task with simulated days, got one on data; choose others")
    path, options = proof.output / SETTINGS, dataclasses.asdict(proof.options)
    if path.exists() and not resume:
        raise ConfigError(
            f"{proof.output}: expected no runs, got some; continue with --resume, or use another --output"
        )
    if path.exists() and (before := json.loads(path.read_text())) != options:
        changed = ", ".join(name for name in options if options[name] != before.get(name))
        raise ConfigError(
            f"{proof.output}: expected runs with these options, got other {changed}; use another --output"
        )
    proof.output.mkdir(parents=True, exist_ok=True)
    write_json(path, options)


def run_all(proof: Proof, workers: int) -> None:
    """Run what is missing, each unit in a process of its own, which frees the memory of its days at its end."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress, ThreadPoolExecutor(workers) as pool:
        shown = progress.add_task("runs", total=len(list(proof.units)) * len(proof.methods), completed=proof.done)
        waiting = {pool.submit(_in_process, proof, *unit) for unit in proof.missing}
        try:
            while waiting:
                ended, waiting = wait(waiting, POLL_S, FIRST_COMPLETED)
                for one in ended:
                    one.result()
                progress.update(shown, completed=proof.done)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _in_process(proof: Proof, task: str, seed: int) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=_run_unit, args=(os.getpid(), proof.output, task, seed, proof.methods, proof.options)
    )
    process.start()
    process.join()
    if process.exitcode:
        raise ProofError(f"the runs of {task}, seed {seed}, ended with {process.exitcode}; its message is above")


def _run_unit(parent: int, *arguments: Any) -> None:
    """In a process of its own, which ends what it started when it is stopped, and does not outlive its parent."""
    unwind_on_signals()
    exit_with_parent(parent)
    run_unit(*arguments)


def parser() -> argparse.ArgumentParser:
    """The command line parser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proof", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("tasks", nargs="+", metavar="TASK", help=f"{', '.join(task_names())}, or a YAML file")
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, default=list(METHODS), help="the first is compared with each other"
    )
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds [default: 10]")
    parser.add_argument("--first-seed", type=int, default=0, help="[default: 0]")
    for field in dataclasses.fields(Options):
        name = field.name.replace("_", "-")
        parser.add_argument(
            f"--{name}", type=type(field.default), default=field.default, help=f"[default: {field.default}]"
        )
    parser.add_argument("--workers", type=int, default=2, help="runs at a time")
    parser.add_argument("--output", type=Path, default=Path("runs/proof"))
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--quick", action="store_true", help="tiny, to see that it runs")
    parser.add_argument("--json", action="store_true")
    return parser


def proven(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs what is missing and returns the figures. ConfigError for a bad option."""
    given = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(Options)}
    options = QUICK if arguments.quick else Options(**given)
    counts = [value for name, value in dataclasses.asdict(options).items() if name not in ("first_day", "steps_share")]
    first, count = arguments.first_seed, arguments.seeds
    if (
        min(*counts, arguments.workers) < 1
        or count < 2
        or options.steps_share <= 0
        or min(options.first_day, first) < 0
    ):
        raise ConfigError("expected at least 2 seeds and 1 of everything else; correct the option")
    seeds = range(first, first + count)
    proof = Proof(tuple(arguments.tasks), tuple(arguments.methods), seeds, options, arguments.output)
    begin(proof, resume=arguments.resume)
    run_all(proof, arguments.workers)
    found = proof_table.summary(proof.found(), proof.methods, proof.tasks) | {"options": dataclasses.asdict(options)}
    write_json(proof.output / TABLE, found)
    return found


def main() -> None:
    """Run the comparison and print its tables."""
    arguments = parser().parse_args()
    unwind_on_signals()
    with one_line_endings("continue with the same command and --resume"):
        found = proven(arguments)
    print(json.dumps(found) if arguments.json else proof_table.text(found))


if __name__ == "__main__":
    main()
