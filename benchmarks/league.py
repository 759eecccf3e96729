"""`python -m benchmarks.league`: executors against market makers in one simulated market, as a cross table.

Rows: TWAP, passive, the patience rule, and PPO; columns: a maker at a constant distance from the mid, Avellaneda-Stoikov, and PPO. PPO learns by
self-play, in rounds: an executor against all makers so far, then a maker against all executors so far. Cells: the executor's PA in bps | the maker's
profit in ticks a lot of a quote, in the same windows of simulated test days; ±: half of the 95 % interval over days (Student's t). Learners are
trained with `--seeds` seeds, which do not meet each other, and their windows averaged.
"""

import argparse
import json
import sys
from typing import Any

from rich.console import Console
from rich.progress import Progress

from serl.agents.execution.policies.policy import Policy
from serl.agents.execution.policies.reactive import Passive, Patience
from serl.agents.execution.policies.schedules import Twap
from serl.agents.league.config import LeagueConfig
from serl.agents.league.league import Cell, League, pooled
from serl.agents.league.players import EXECUTOR, MAKER, self_play
from serl.agents.making.makers import AvellanedaStoikov, Maker, MarketParameters, Symmetric

TRAINING_DAYS = [0, 1, 2]
QUICK = {"windows": 4, "executor_steps": 960, "maker_steps": 3200, "seeds": 1, "rounds": 1}
Cells = dict[tuple[str, str], Cell]


def played(config: LeagueConfig, options: argparse.Namespace, progress: Progress) -> Cells:
    """All cells, by the names of executor and maker."""
    league, parameters = League(config), MarketParameters.measure(config.population, TRAINING_DAYS)
    executors: list[Policy] = [Twap(), Passive(), Patience()]
    makers: list[Maker] = [Symmetric(1.0), AvellanedaStoikov(parameters, 0.01)]
    found: dict[tuple[str, str], list[Cell]] = {}
    rules = len(executors) * len(makers)
    learnt = (len(executors) + options.rounds) * (len(makers) + options.rounds) - rules
    task = progress.add_task("league", total=rules + options.seeds * (learnt + 1))

    def meet(policy: Policy, maker: Maker) -> None:
        cell = league.meet(policy, maker, options.windows, options.seed)
        found.setdefault((cell.executor, cell.maker), []).append(cell)
        progress.advance(task)

    for policy in executors:
        for maker in makers:
            meet(policy, maker)
    for seed in range(options.seeds):
        steps = {"steps": options.executor_steps, "seed": seed}, {"steps": options.maker_steps, "seed": seed}
        settings = [base.model_copy(update=one) for base, one in zip((EXECUTOR, MAKER), steps, strict=True)]
        policies, quoting = self_play(league, executors, makers, options.rounds, *settings)
        progress.advance(task)
        for policy in (*executors, *policies):
            for maker in quoting if policy in executors else (*makers, *quoting):
                meet(policy, maker)
    league.close()
    return {names: pooled(cells) for names, cells in found.items()}


def markdown(cells: Cells) -> str:
    """The cross table."""
    rows, columns = (list(dict.fromkeys(names[side] for names in cells)) for side in (0, 1))
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row in rows:
        parts = []
        for column in columns:
            (advantage, half), (profit, profit_half) = cells[row, column].means()
            parts.append(f"{advantage:.2f} ± {half:.2f}; {profit:.1f} ± {profit_half:.1f}")
        lines.append(f"| {row} | {' | '.join(parts)} |")
    return "\n".join(lines)


def as_json(cells: Cells) -> list[dict[str, Any]]:
    """Cells with means and halves of intervals."""
    found = []
    for cell in cells.values():
        (advantage, half), (profit, profit_half) = cell.means()
        found.append({
            "executor": cell.executor, "maker": cell.maker, "pa_bps": advantage, "pa_interval_bps": half, "profit_ticks": profit,
            "profit_interval_ticks": profit_half, "windows": len(cell.days),
        })  # fmt: skip
    return found


def parser() -> argparse.ArgumentParser:
    """Options of the command."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.league", description=__doc__)
    made.add_argument("--population", default="liquid", help="a shipped population or a YAML file")
    made.add_argument("--windows", type=int, default=256, help="of five minutes, for each cell")
    made.add_argument("--seed", type=int, default=1, help="of the windows")
    made.add_argument("--rounds", type=int, default=2, help="of self-play")
    made.add_argument("--seeds", type=int, default=3, help="with which learners are trained")
    made.add_argument("--executor-steps", type=int, default=60_000, help="decisions of a learning executor in a round")
    made.add_argument("--maker-steps", type=int, default=300_000, help="decisions of a learning maker in a round")
    made.add_argument("--quick", action="store_true", help="tries the command out")
    made.add_argument("--json", action="store_true")
    return made


def main(words: list[str] | None = None) -> None:
    """The command."""
    options = parser().parse_args(words)
    if options.quick:
        vars(options).update(QUICK)
    config = LeagueConfig(population=options.population, simulated_days=2 if options.quick else 16)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        cells = played(config, options, progress)
    sys.stdout.write((json.dumps(as_json(cells)) if options.json else markdown(cells)) + "\n")


if __name__ == "__main__":
    main()
