"""`python -m benchmarks.headline --nasdaq FILE --cn FILE --book DAY --output FOLDER`: one table of all methods in all markets.

Rows: TWAP, VWAP, Almgren-Chriss, the patience rule, PPO, limit-price PPO, HALOP-style, MacMic-style, OPD and SE-RL (the best rule of a run of the
researcher on the market's training days; needs `serl llm fetch tiny`). Columns: PA as traded and at mids, PA minus the rule's on the same order, PA-std, WR, GLR, AFI, IS. Markets: bars (later days,
of stocks seen and unseen), the replay of books, simulated traders. Learners are trained with `--seeds` seeds (`--baseline-seeds` for the baselines and SE-RL) and
their orders pooled; brackets are 95 % bootstrap intervals over clusters of orders (dates, where there are enough) that hold all seeds, and `by seed`
the mean PA_rule of each.

Every training and every market's table is a file in the output folder: started again with the same options, the command continues. `--steps` limits
each training; `--quick` checks the command with a few orders and steps.
"""

import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from benchmarks.endings import one_line_endings
from benchmarks.headline_methods import LEARNT, QUICK, SETTINGS, Budget, learners
from benchmarks.headline_table import markdown, rows_of
from serl.agents.execution.environment.bars import FILLS
from serl.agents.execution.policies.volume import Vwap
from serl.agents.learning.cli_evaluate import provenance
from serl.agents.learning.environments import Scenario
from serl.agents.learning.evaluation import (
    Contender,
    evaluate,
)  # fmt: skip
from serl.agents.learning.fitted_rules import fit_almgren_chriss, fit_patience, training_score
from serl.agents.learning.market_config import with_overrides
from serl.agents.learning.policy import load_policy
from serl.agents.learning.training import load_config
from serl.exchange.atomic_file import write_json
from serl.exchange.errors import ConfigError

PARTS = {"nasdaq": ("test", "unseen"), "cn": ("test", "unseen"), "replay": ("test",), "dynamic": ("test",)}


def fitted_rules(scenario: Scenario, orders: int | None) -> tuple[Contender, list[Contender]]:
    """The patience rule and the schedules, fitted on the training part; VWAP where whole training days are known."""
    curve = scenario.source.volume_curve()
    schedules = [Contender("VWAP", Vwap(curve), "market")] if curve else []
    schedules.append(Contender("AC", fit_almgren_chriss(scenario), "market"))
    return Contender("patience", fit_patience(training_score(scenario, orders)), "hybrid"), schedules


def section(market: str, part: str, data: list[str], policies: list[tuple[str, Path]], budget: Budget, seed: int) -> dict[str, Any]:  # fmt: skip
    """The table of one part of one market, as JSON."""
    shipped = load_config(Path(SETTINGS[market])).market
    scenario = Scenario(with_overrides(shipped, {"part": part} | budget.market_changes(data)))
    rule, schedules = fitted_rules(scenario, budget.fit_orders)
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


def headline(data: dict[str, list[str]], budget: Budget, folder: Path, seed: int, progress: Progress) -> list[dict[str, Any]]:  # fmt: skip
    """Every section, from its file where it is there."""
    sections = []
    for market, files in data.items():
        policies: list[tuple[str, Path]] | None = None
        for part in PARTS[market]:
            path = folder / f"{market}-{part}.json"
            if not path.exists():
                policies = policies or list(learners(market, files, budget, folder, progress))
                task = progress.add_task(f"{market} {part}: test orders", total=None)
                write_json(path, section(market, part, files, policies, budget, seed), indent=1)
                progress.remove_task(task)
            sections.append(json.loads(path.read_text()))
    return sections


def parser() -> argparse.ArgumentParser:
    """The command line parser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.headline", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--nasdaq", type=Path, help="file of one-minute bars")
    parser.add_argument("--cn", type=Path, help="file of 15-minute bars")
    parser.add_argument("--book", type=Path, action="append", default=[], help="day with a book; may be repeated")
    parser.add_argument("--no-dynamic", action="store_true", help="leave out the simulated traders")
    parser.add_argument("--orders", type=int, default=Budget.orders, help="test orders in bars")
    parser.add_argument("--book-orders", type=int, default=Budget.book_orders, help="in books and among traders")
    parser.add_argument("--seeds", type=int, default=Budget.seeds, help="of PPO")
    parser.add_argument(
        "--baseline-seeds", type=int, default=Budget.baseline_seeds, help="of HALOP-style, MacMic-style, OPD and SE-RL"
    )
    parser.add_argument("--methods", nargs="+", choices=LEARNT, default=list(LEARNT), help="that learn; default: all")
    parser.add_argument("--fills", choices=FILLS, help="of bars, instead of strict")
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
    write_json(path, settings, indent=1)


def _budget(arguments: argparse.Namespace) -> Budget:
    chosen = {"methods": tuple(arguments.methods), "fills": arguments.fills}
    if arguments.quick:
        return replace(QUICK, **chosen)
    names = ("orders", "book_orders", "seeds", "baseline_seeds", "steps")
    counts = {name: getattr(arguments, name) for name in names}
    for name, count in counts.items():
        if count is not None and count < 1:  # else found out only after hours of training
            raise ConfigError(f"--{name.replace('_', '-')}: expected at least 1, got {count}; correct the option")
    if arguments.seed < 0:
        raise ConfigError(f"--seed: expected 0 or more, got {arguments.seed}; correct the option")
    return Budget(**chosen, **counts)


def main() -> None:
    """Train, test, print the tables."""
    arguments = parser().parse_args()
    with one_line_endings("continue with the same command"):
        text = tables(arguments)
    (arguments.output / ("headline.json" if arguments.json else "headline.md")).write_text(text)
    sys.stdout.write(text + "\n")


def tables(arguments: argparse.Namespace) -> str:
    """Trains and tests what is missing; the tables. ConfigError for a bad option."""
    given = {"nasdaq": [arguments.nasdaq], "cn": [arguments.cn], "replay": arguments.book}
    data = {market: [str(path) for path in files if path] for market, files in given.items() if any(files)}
    data |= {} if arguments.no_dynamic else {"dynamic": []}
    if not data:
        raise ConfigError("expected a market, got none; give --nasdaq, --cn or --book, or leave out --no-dynamic")
    budget = _budget(arguments)
    begin(arguments.output, {"data": data, "seed": arguments.seed, **asdict(budget)})
    with Progress(console=Console(stderr=True), transient=True) as progress:
        sections = headline(data, budget, arguments.output, arguments.seed, progress)
    return json.dumps(sections) if arguments.json else "\n".join(map(markdown, sections))


if __name__ == "__main__":
    main()
