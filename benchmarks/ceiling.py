"""The ceiling of a task: how far above the default anything gets.

    python -m benchmarks.ceiling thin trending --trials 300 --seeds 8 --output runs/ceiling

For each task: the default retrained with several seeds; simple rules; a search (tree-structured Parzen estimator) over rules without training, and
one over the settings of training, whose best is retrained with as many seeds; rules that know the future. Searches use validation days; on
fresh orders of validation days the ceiling is chosen; the numbers are those of test days. All work the same orders, so differences to the
default are paired; days and training seeds both count in the standard error. A task stays in the ladder if its ceiling is at least
5 standard errors above the default. Ctrl-C stops it; --resume continues without repeating what was measured.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.ceiling_orders import paired
from benchmarks.ceiling_study import DEFAULT, FRESH, TEST, Options, Study
from benchmarks.endings import one_line_endings
from serl.exchange.atomic_file import write_json
from serl.exchange.errors import ConfigError
from serl.researcher.inner.worker import abandon
from serl.researcher.tasks import load_task, task_names

ERRORS_MIN = 5.0
ROW = "row.json"
"""The figures of a finished study, in its folder."""
QUICK = Options(trials=2, trainings=1, seeds=2, orders=6, search_orders=4, steps_share=0.002)


def row_of(study: Study) -> dict[str, Any]:
    """The figures of a finished study."""
    test, fresh = study.orders(TEST), study.orders(FRESH)

    def gain(name: str, which: tuple[str, int]) -> Any:
        return paired(
            study.values(name, which), study.values(DEFAULT, which), (test if which == TEST else fresh).clusters
        )

    ceiling = max(study.methods, key=lambda name: gain(name, FRESH).bps)
    found = gain(ceiling, TEST)
    default, options = study.values(DEFAULT, TEST), study.options
    errors = found.bps / found.se_bps if found.se_bps else 0.0
    return {
        "task": study.task.name, "version": study.task.version, "orders": options.orders, "days": found.days, "seeds": len(default),
        "trials": options.trials, "trainings": options.trainings, "training_steps": study.budget.static_steps + study.budget.dynamic_steps,
        "default_pa_bps": float(default.mean()), "default_seed_std_bps": float(default.mean(1).std(ddof=1)) if len(default) > 1 else None,
        "gains_bps": {name: [round(gain(name, TEST).bps, 3), round(gain(name, TEST).se_bps, 3)] for name in [*study.methods, *study.bounds]},
        "ceiling": ceiling, "gain_bps": found.bps, "paired_se_bps": found.se_bps, "errors": errors, "best_rule": study.best_rule,
        "kept": bool(errors >= ERRORS_MIN),
    }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown: PA of the default, then differences to it with standard errors."""
    names = list(dict.fromkeys(name for row in rows for name in row["gains_bps"]))
    heads = ["task", "default", *names, "ceiling", "paired_se_bps", "errors", "holds 5"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in rows:
        gains = [
            f"{row['gains_bps'][name][0]:+.2f} ± {row['gains_bps'][name][1]:.2f}" if name in row["gains_bps"] else ""
            for name in names
        ]
        cells = [f"{row['task']} v{row['version']}", f"{row['default_pa_bps']:+.2f}", *gains, row["ceiling"], f"{row['paired_se_bps']:.3f}",
                 f"{row['errors']:.1f}", "yes" if row["kept"] else "no"]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    first = rows[0]
    lines += ["", f"Bps on test days, ± standard error. {first['orders']} orders, {', '.join(str(row['days']) for row in rows)} days, {first['seeds']} "
              f"training seeds, {first['trials']} rules and {first['trainings']} trainings searched."]  # fmt: skip
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The command line parser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ceiling", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    default = Options()
    parser.add_argument("tasks", nargs="+", metavar="TASK", help=f"{', '.join(task_names())}, or a YAML file")
    parser.add_argument("--data", action="append", default=[], metavar="TASK=FILE", help="data that a task expects; may be repeated")  # fmt: skip
    parser.add_argument("--trials", type=int, default=default.trials, help="rules searched")
    parser.add_argument("--trainings", type=int, default=default.trainings, help="settings of training searched; 0: none")  # fmt: skip
    parser.add_argument("--seeds", type=int, default=default.seeds, help="of the default and of the best settings")
    parser.add_argument("--orders", type=int, default=default.orders)
    parser.add_argument("--search-orders", type=int, default=default.search_orders)
    parser.add_argument("--steps-share", type=float, default=default.steps_share, help="of the steps of a training")
    parser.add_argument("--workers", type=int, default=default.workers, help="trainings at a time")
    parser.add_argument("--output", type=Path, default=Path("runs/ceiling"))
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--quick", action="store_true", help="tiny, to see that it runs")
    parser.add_argument("--json", action="store_true", help="one JSON list instead of a table")
    return parser


def studied(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each task. ConfigError for a bad option."""
    names = "trials", "trainings", "seeds", "orders", "search_orders", "workers", "steps_share"
    options = QUICK if arguments.quick else Options(**{name: getattr(arguments, name) for name in names})
    if (
        min(options.trials, options.seeds, options.workers) < 1
        or min(options.orders, options.search_orders) < 2
        or options.trainings < 0
    ):
        raise ConfigError("expected at least 1 trial, seed and worker, 2 orders and 0 trainings; correct the option")
    data: dict[str, list[Path]] = {}
    for text in arguments.data:
        name, separator, path = text.partition("=")
        if not separator:
            raise ConfigError(f"--data: expected TASK=FILE, got {text}; name the task")
        data.setdefault(name, []).append(Path(path))
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    rows = []
    with Progress(*columns, console=Console(stderr=True)) as progress:
        for source in arguments.tasks:
            task = load_task(source)
            folder = arguments.output / task.name
            if folder.exists() and not arguments.resume:
                raise ConfigError(
                    f"{folder}: expected no folder, got one; continue it with --resume, or use another --output"
                )
            shown = progress.add_task(source, total=None)

            def report(what: str, done: int, total: int, name: str = source, shown: Any = shown) -> None:
                progress.update(shown, description=f"{name}: {what}", completed=done, total=total)

            study = Study(task, data.get(task.name, []), options, folder, report)
            path = folder / ROW
            if not path.exists():
                study.run()
                write_json(path, row_of(study))
            rows.append(json.loads(path.read_text()))
    return rows


def main() -> None:
    """Run the studies and print their table."""
    arguments = parser().parse_args()
    with one_line_endings("continue with the same options and --resume"):
        try:
            rows = studied(arguments)
        except KeyboardInterrupt:
            abandon()
            raise
    print(json.dumps(rows) if arguments.json else table(rows))


if __name__ == "__main__":
    main()
