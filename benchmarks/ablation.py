"""`python -m benchmarks.ablation --market DAY [--seeds 3]`: the effect of training in two markets.

The rules of hybrid training (static market alone, dynamic alone, half and half, adaptive) with equal steps, each from several seeds;
every policy executes the same validation orders in the static, the replay and the dynamic market. Means over seeds with 95 % intervals (Student's
t); where those of two rules overlap, there is no evidence of a difference.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.endings import one_line_endings
from serl.agents.learning.environments import Scenario
from serl.agents.learning.evaluation import Contender, evaluate
from serl.agents.learning.market_config import with_overrides
from serl.agents.learning.training import Training, TrainingConfig, environments, load_config
from serl.agents.students_t import student

RULES = ("static", "dynamic", "fixed", "adaptive")
SHOWN = ("PA", "PA_twap", "IS", "AFI")
CONFIG = Path(__file__).parents[1] / "configs" / "training" / "hybrid.yaml"


def config_of(base: TrainingConfig, rule: str, seed: int) -> TrainingConfig:
    """The base settings with this rule and seed."""
    changes = {"rule": rule}
    return base.model_copy(
        update={"hybrid": base.hybrid.model_copy(update=changes), "ppo": base.ppo.model_copy(update={"seed": seed})}
    )


def scenarios(base: TrainingConfig) -> dict[str, Scenario]:
    """Validation orders in the three markets."""
    assert base.dynamic is not None
    held = {"part": "validation"}
    return {
        "static": Scenario(with_overrides(base.market, held)),
        "replay": Scenario(with_overrides(base.market, held | {"kind": "replay"})),
        "dynamic": Scenario(with_overrides(base.dynamic, held)),
    }


def scores(base: TrainingConfig, rule: str, seed: int, markets: dict[str, Scenario], episodes: int) -> Any:
    """(markets, SHOWN) estimates of one trained policy, or of TWAP for the rule 'TWAP'."""
    contenders = []
    if rule != "TWAP":
        config = config_of(base, rule, seed)
        envs, facts = environments(config)
        with tempfile.TemporaryDirectory() as folder:
            policy = Training(config, envs, Path(folder), facts).run()
        contenders = [Contender(rule, policy, policy.modes[0])]
    tables = [evaluate(market, contenders, episodes, seed=1).rows for market in markets.values()]
    rows = [next(row for row in table if row.name == rule) for table in tables]
    return [[row.estimates[name].value for name in SHOWN] for row in rows]


def head() -> str:
    """The first lines of the table, as Markdown."""
    return f"| rule | market | seeds | {' | '.join(SHOWN)} |\n" + "|" + "---|" * (3 + len(SHOWN))


def lines(rule: str, values: Any, markets: Sequence[str]) -> str:
    """The lines of a rule; values: (seeds, markets, SHOWN)."""
    seeds, found = len(values), []
    for place, market in enumerate(markets):
        means = values[:, place].mean(axis=0)
        half = student(seeds - 1) * values[:, place].std(axis=0, ddof=1) / seeds**0.5 if seeds > 1 else means * 0
        cells = [
            f"{mean:.2f} ± {width:.2f}" if seeds > 1 else f"{mean:.2f}" for mean, width in zip(means, half, strict=True)
        ]
        found.append(f"| {rule} | {market} | {seeds} | {' | '.join(cells)} |")
    return "\n".join(found)


def parser() -> argparse.ArgumentParser:
    """The command line parser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation", description=__doc__)
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--market", action="append", required=True, help="day with a book; may be repeated")
    parser.add_argument("--seeds", type=int, default=3, choices=(2, 3, 5))
    parser.add_argument("--steps", type=int)
    parser.add_argument("--episodes", type=int, default=512)
    return parser


def main() -> None:
    """Train, evaluate, print the lines of each rule once they are known."""
    arguments = parser().parse_args()
    with one_line_endings("of the rules above everything is measured; the command begins again"):
        _compare(arguments)


def _compare(arguments: argparse.Namespace) -> None:
    base = load_config(arguments.config)
    base = base.model_copy(update={"market": with_overrides(base.market, {"data": arguments.market})})
    if arguments.steps:
        base = base.model_copy(update={"ppo": base.ppo.model_copy(update={"steps": arguments.steps})})
    markets = scenarios(base)
    print(head(), flush=True)
    for rule in ("TWAP", *RULES):
        found = []
        for seed in range(arguments.seeds if rule != "TWAP" else 1):
            with Console(stderr=True).status(f"{rule}, seed {seed}"):
                found.append(scores(base, rule, seed, markets, arguments.episodes))
        print(lines(rule, np.array(found), list(markets)), flush=True)
    print(
        f"\n{base.ppo.steps:,} steps each, {arguments.episodes} validation orders, PA, PA_twap and IS in bps; "
        + "; ".join(f"{name}: {market.source.describe()['data']}" for name, market in markets.items())
    )


if __name__ == "__main__":
    main()
