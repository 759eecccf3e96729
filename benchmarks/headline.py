"""`python -m benchmarks.headline --nasdaq FILE --cn FILE --book DAY --output FOLDER`: one table of all methods in all markets.

Rows: TWAP, VWAP, Almgren-Chriss, the patience rule, PPO, limit-price PPO, HALOP-style, MacMic-style, OPD and SE-RL (`--researcher RUN`, the best policy
of a researcher's run). Columns: PA as traded and at mids, PA minus the rule's on the same order, PA-std, WR, GLR, AFI, IS. Markets: bars (later days,
of stocks seen and unseen), the replay of books, simulated traders. Learners are trained with `--seeds` seeds (`--baseline-seeds` for the baselines) and
their orders pooled; brackets are 95 % bootstrap intervals over clusters of orders (dates, where there are enough) that hold all seeds, and `by seed`
the mean PA_rule of each.

Every training and every market's table is a file in the output folder: started again with the same options, the command continues. `--steps` limits
each training; `--quick` checks the command with a few orders and steps.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress, TaskID

from serl.agents.execution.policies.volume import Vwap
from serl.agents.learning import training
from serl.agents.learning.baseline_training import build_training
from serl.agents.learning.cli_evaluate import provenance
from serl.agents.learning.early_stopping import StoppingConfig
from serl.agents.learning.environments import Scenario
from serl.agents.learning.evaluation import (
    CONFIDENCE,
    Contender,
    Evaluation,
    Row,
    bootstrap_clusters,
    bootstrap_estimates,
    evaluate,
)  # fmt: skip
from serl.agents.learning.incumbents import fit_almgren_chriss, fit_patience, training_score
from serl.agents.learning.market_config import MarketConfig, with_overrides
from serl.agents.learning.policy import load_policy
from serl.agents.learning.training import POLICY, TrainingConfig, load_config
from serl.exchange.errors import ConfigError
from serl.researcher.outer.report import winner

COLUMNS = ("PA", "PA_mid", "PA_rule", "PA-std", "WR", "GLR", "AFI", "IS")
SETTINGS = {"nasdaq": "bars", "cn": "bars-15min", "replay": "replay", "dynamic": "dynamic"}
"""Shipped settings of training, by market."""
PARTS = {"nasdaq": ("test", "unseen"), "cn": ("test", "unseen"), "replay": ("test",), "dynamic": ("test",)}
METHODS: dict[str, dict[str, Any]] = {
    "PPO": {},
    "PPO limit": {"actions": "limit", "reward": "price"},
    "HALOP-style": {"actions": "limit", "offset_ticks": 20, "offset_bps": 0},
    "MacMic-style": {"actions": "hybrid", "offset_ticks": 20, "offset_bps": 0},
    "OPD": {"actions": "market"},
}
"""Learners: what each changes in the settings of a market."""
ALGORITHMS = {"HALOP-style": "halop", "MacMic-style": "macmic", "OPD": "opd"}
SERL = "SE-RL"
BOOK_STOPPING = StoppingConfig(orders=256, patience=6)
"""Early stopping of limit-price PPO in books, whose validation part is short."""


@dataclass(frozen=True)
class Budget:
    """How much is trained and measured."""

    orders: int = 4000
    book_orders: int = 512
    seeds: int = 3
    baseline_seeds: int = 1
    steps: int | None = None
    """Most steps of one training; None for those of the shipped settings."""
    environments: int | None = None
    fit_orders: int | None = None
    """Training and validation orders on which rules are fitted and training stops."""

    def orders_of(self, market: str) -> int:
        """Test orders in a market."""
        return self.orders if market in ("nasdaq", "cn") else self.book_orders


QUICK = Budget(orders=48, book_orders=6, seeds=1, baseline_seeds=1, steps=64, environments=8, fit_orders=16)


def config_of(market: str, method: str, data: list[str], seed: int, budget: Budget) -> TrainingConfig:
    """Settings of a learner in a market."""
    base = load_config(Path(SETTINGS[market]))
    changes = METHODS[method] | {"data": data}
    if budget.environments:
        changes["environments"] = budget.environments
    algorithm = ALGORITHMS.get(method, "ppo")
    source = base if algorithm == "ppo" else load_config(Path(algorithm))
    learner = source.learner.model_copy(update={"seed": seed})
    if algorithm == "macmic":
        steps = round(base.market.duration_s / base.market.interval_s)
        learner = learner.model_copy(update={"interval_steps": _divisor(steps, learner.interval_steps)})
    if budget.steps:
        learner = learner.model_copy(update={"steps": min(budget.steps, learner.steps)})
    if method == "PPO limit" and base.early_stopping is None:
        base = base.model_copy(update={"early_stopping": BOOK_STOPPING})
    if base.early_stopping and budget.fit_orders:
        stopping = base.early_stopping.model_copy(update={"orders": budget.fit_orders})
        base = base.model_copy(update={"early_stopping": stopping})
    return base.model_copy(
        update={
            "name": f"{market}-{seed}",
            "algorithm": algorithm,
            algorithm: learner,
            "market": with_overrides(base.market, changes),
        }
    )


def _divisor(number: int, most: int) -> int:
    """The largest divisor up to `most`."""
    return next(each for each in range(most, 0, -1) if number % each == 0)


def trained(config: TrainingConfig, folder: Path, report: Callable[[int, int], None]) -> Path:
    """The policy of the run in a folder, trained unless it is there. PPO continues from its checkpoint; the baselines begin again."""
    policy, done = folder / POLICY, folder / "done"
    if done.exists():
        return policy
    envs, metadata = training.environments(config)
    folder.mkdir(parents=True, exist_ok=True)
    run = build_training(config, envs, folder, metadata)
    if (folder / training.CHECKPOINT).exists():
        run.resume()
    training.save_config(config, folder)
    run.run(lambda statistics: report(statistics["steps"], config.learner.steps))
    done.touch()
    return policy


def incumbents(scenario: Scenario, orders: int | None) -> tuple[Contender, list[Contender]]:
    """The patience rule and the schedules, fitted on the training part; VWAP where whole training days are known."""
    curve = scenario.source.volume_curve()
    schedules = [Contender("VWAP", Vwap(curve), "market")] if curve else []
    schedules.append(Contender("AC", fit_almgren_chriss(scenario), "market"))
    return Contender("patience", fit_patience(training_score(scenario, orders)), "hybrid"), schedules


def learners(
    market: str, data: list[str], budget: Budget, folder: Path, progress: Progress
) -> Iterator[tuple[str, Path]]:
    """(method, policy file) of every trained policy of a market."""
    for method in METHODS:
        for seed in range(budget.baseline_seeds if method in ALGORITHMS else budget.seeds):
            task = progress.add_task(f"{market} {method} {seed}", total=1)
            config = config_of(market, method, data, seed, budget)
            name = f"{method.replace(' ', '-').lower()}-{seed}"
            yield method, trained(config, folder / market / name, partial(_advance, progress, task))
            progress.remove_task(task)


def _advance(progress: Progress, task: TaskID, done: int, total: int) -> None:
    progress.update(task, completed=done, total=total)


def rows_of(evaluation: Evaluation, methods: list[str], episodes: Any, dates: Any) -> list[dict[str, Any]]:
    """JSON rows: the seeds of a method pooled. methods: of the rows after TWAP and the rule."""
    clusters = bootstrap_clusters(episodes, dates)[0]
    grouped: dict[str, list[Row]] = {}
    for name, row in zip(["TWAP", "patience", *methods], evaluation.rows, strict=True):
        grouped.setdefault(name, []).append(row)
    table = []
    for name, rows in grouped.items():
        pooled = {column: np.concatenate([row.columns[column] for row in rows]) for column in rows[0].columns}
        found = bootstrap_estimates(pooled, np.tile(clusters, len(rows)), evaluation.seed)
        by_seed = [float(np.nanmean(row.columns["pa_rule"])) for row in rows]
        estimates = {column: [found[column].value, found[column].low, found[column].high] for column in COLUMNS}
        table.append({"policy": name, "seeds": len(rows), "by_seed": by_seed, **estimates})
    return table


def section(market: str, part: str, data: list[str], policies: list[tuple[str, Path]], budget: Budget, seed: int) -> dict[str, Any]:  # fmt: skip
    """The table of one part of one market, as JSON."""
    changes: dict[str, Any] = {"part": part, "data": data, "environments": budget.environments}
    scenario = Scenario(with_overrides(_market(market), changes))
    rule, schedules = incumbents(scenario, budget.fit_orders)
    loaded = [(method, load_policy(path)) for method, path in policies]
    contenders = [
        *schedules,
        *(Contender(f"{method} {index}", policy, policy.modes[0]) for index, (method, policy) in enumerate(loaded)),
    ]
    orders = budget.orders_of(market)
    evaluation = evaluate(scenario, contenders, orders, seed, rule=rule)
    episodes = scenario.sampler.sample(np.random.Generator(np.random.PCG64(seed)), orders)
    methods = [*(one.name for one in schedules), *(method for method, _ in loaded)]
    steps: dict[str, list[int]] = {}
    for method, policy in loaded:
        steps.setdefault(method, []).append(int(policy.metadata.get("steps", 0)))
    return {
        "market": market, "part": part, "title": f"{market}, {part}: {evaluation.market}", "orders": orders, "seed": seed,
        "without_trades": evaluation.without_trades, "clusters": evaluation.clusters, "unit": evaluation.unit, "steps": steps,
        "facts": provenance(scenario, [rule, *schedules]), "rows": rows_of(evaluation, methods, episodes, scenario.source.dates(episodes["day"])),
    }  # fmt: skip


def _market(market: str) -> MarketConfig:
    return load_config(Path(SETTINGS[market])).market


def headline(data: dict[str, list[str]], budget: Budget, folder: Path, researcher: Path | None, seed: int, progress: Progress) -> list[dict[str, Any]]:  # fmt: skip
    """Every section, from its file where it is there."""
    sections = []
    for market, files in data.items():
        policies: list[tuple[str, Path]] | None = None
        for part in PARTS[market]:
            path = folder / f"{market}-{part}.json"
            if not path.exists():
                policies = policies or [
                    *learners(market, files, budget, folder, progress),
                    *_researched(researcher, market),
                ]
                task = progress.add_task(f"{market} {part}: test orders", total=None)
                path.write_text(json.dumps(section(market, part, files, policies, budget, seed), indent=1))
                progress.remove_task(task)
            sections.append(json.loads(path.read_text()))
    return sections


def _researched(run: Path | None, market: str) -> list[tuple[str, Path]]:
    """The best policy of a researcher's run, in the markets that have its kind of data: bars for a run on bars, else books and traders."""
    found = winner(run) if run else None
    if found is None:
        return []
    bars = any(str(one.get("data", "")).endswith(".parquet") for one in load_policy(found).metadata.get("data", []))
    return [(SERL, found)] if bars == (market in ("nasdaq", "cn")) else []


def markdown(one: dict[str, Any]) -> str:
    """The table of a section."""
    headers = ("policy", "seeds", *COLUMNS, "PA_rule by seed")
    lines = [f"### {one['title']}", "", f"| {' | '.join(headers)} |", "|" + "---|" * len(headers)]
    for row in one["rows"]:
        cells = [
            "{:.2f} [{:.2f}, {:.2f}]".format(*row[name])
            if name in ("PA", "PA_mid", "PA_rule")
            else f"{row[name][0]:.2f}"
            for name in COLUMNS
        ]
        by_seed = " ".join(f"{value:.2f}" for value in row["by_seed"]) if row["policy"] in one["steps"] else ""
        lines.append(f"| {row['policy']} | {row['seeds'] if by_seed else ''} | {' | '.join(cells)} | {by_seed} |")
    if SERL not in one["steps"]:
        lines.append(
            f"| {SERL} | none: train one with `serl researcher start`, then `--researcher RUN` | "
            + "| " * len(COLUMNS)
            + "|"
        )
    steps = "; ".join(f"{method} {', '.join(f'{each:,}' for each in found)}" for method, found in one["steps"].items())
    note = (
        f"{one['orders']:,} orders, seed {one['seed']}; brackets: {CONFIDENCE:.0%} bootstrap over {one['clusters']} {one['unit']}; "
        f"{one['without_trades']} orders without PA. PA: with spread, impact and fees; PA_mid: at mids. {one['facts']} Steps: {steps or 'none'}."
    )
    return "\n".join([*lines, "", note, ""])


def parser() -> argparse.ArgumentParser:
    """The command line parser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.headline", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--nasdaq", type=Path, help="file of one-minute bars")
    parser.add_argument("--cn", type=Path, help="file of 15-minute bars")
    parser.add_argument("--book", type=Path, action="append", default=[], help="day with a book; may be repeated")
    parser.add_argument("--no-dynamic", action="store_true", help="leave out the simulated traders")
    parser.add_argument("--researcher", type=Path, help="folder of a researcher's run, for the row SE-RL")
    parser.add_argument("--orders", type=int, default=Budget.orders, help="test orders in bars")
    parser.add_argument("--book-orders", type=int, default=Budget.book_orders, help="in books and among traders")
    parser.add_argument("--seeds", type=int, default=Budget.seeds, help="of PPO")
    parser.add_argument(
        "--baseline-seeds", type=int, default=Budget.baseline_seeds, help="of HALOP-style, MacMic-style and OPD"
    )
    parser.add_argument("--steps", type=int, help="most steps of one training")
    parser.add_argument("--seed", type=int, default=1, help="of the test orders")
    parser.add_argument(
        "--quick", action="store_true", help="a few orders and steps: checks the command, measures nothing"
    )
    parser.add_argument("--output", type=Path, default=Path("runs/headline"))
    parser.add_argument("--json", action="store_true", help="JSON instead of Markdown")
    return parser


def begin(folder: Path, settings: dict[str, Any]) -> None:
    """Creates the output folder, or continues in it. ConfigError if it belongs to other settings."""
    path, text = folder / "settings.json", json.dumps(settings, indent=1)
    folder.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.read_text() != text:
        raise ConfigError(f"{folder}: expected the settings in {path}, got other options; choose another --output")
    path.write_text(text)


def main() -> None:
    """Train, test, print the tables."""
    arguments = parser().parse_args()
    given = {"nasdaq": [arguments.nasdaq], "cn": [arguments.cn], "replay": arguments.book}
    data = {market: [str(path) for path in files if path] for market, files in given.items() if any(files)}
    data |= {} if arguments.no_dynamic else {"dynamic": []}
    budget = (
        QUICK
        if arguments.quick
        else Budget(arguments.orders, arguments.book_orders, arguments.seeds, arguments.baseline_seeds, arguments.steps)
    )
    researcher = str(arguments.researcher) if arguments.researcher else None
    begin(arguments.output, {"data": data, "seed": arguments.seed, "researcher": researcher, **asdict(budget)})
    with Progress(console=Console(stderr=True), transient=True) as progress:
        sections = headline(data, budget, arguments.output, arguments.researcher, arguments.seed, progress)
    text = json.dumps(sections) if arguments.json else "\n".join(map(markdown, sections))
    (arguments.output / ("headline.json" if arguments.json else "headline.md")).write_text(text)
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
