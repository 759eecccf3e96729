"""The methods of `python -m benchmarks.headline` that learn: their settings in each market, and their training."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import Progress, TaskID

from benchmarks.headline_researcher import SERL, researched, researcher_config
from serl.agents.learning import training
from serl.agents.learning.baseline_training import build_training
from serl.agents.learning.early_stopping import StoppingConfig
from serl.agents.learning.market_config import with_overrides
from serl.agents.learning.training import POLICY, TrainingConfig, load_config

SETTINGS = {"nasdaq": "bars", "cn": "bars-15min", "replay": "replay", "dynamic": "dynamic"}
"""Shipped settings of training, by market."""
METHODS: dict[str, dict[str, Any]] = {
    "PPO": {},
    "PPO limit": {"actions": "limit", "reward": "price"},
    "HALOP-style": {"actions": "limit", "offset_ticks": 20, "offset_bps": 0},
    "MacMic-style": {"actions": "hybrid", "offset_ticks": 20, "offset_bps": 0},
    "OPD": {"actions": "market"},
}
"""Learners: what each changes in the settings of a market."""
ALGORITHMS = {"HALOP-style": "halop", "MacMic-style": "macmic", "OPD": "opd"}
LEARNT = (*METHODS, SERL)
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
    methods: tuple[str, ...] = LEARNT
    """Which of them."""
    fills: str | None = None
    """Of bars, instead of those of the shipped settings."""
    environments: int | None = None
    fit_orders: int | None = None
    """Training and validation orders on which rules are fitted and training stops."""

    def orders_of(self, market: str) -> int:
        """Test orders in a market."""
        return self.orders if market in ("nasdaq", "cn") else self.book_orders

    def market_changes(self, data: list[str]) -> dict[str, Any]:
        """Overrides of the settings of a market; None where they stay."""
        return {"data": data, "environments": self.environments, "fills": self.fills}


QUICK = Budget(orders=48, book_orders=6, seeds=1, baseline_seeds=1, steps=960, environments=8, fit_orders=16)


def config_of(market: str, method: str, data: list[str], seed: int, budget: Budget) -> TrainingConfig:
    """Settings of a learner in a market."""
    base = load_config(Path(SETTINGS[market]))
    changes = METHODS[method] | budget.market_changes(data)
    algorithm = ALGORITHMS.get(method, "ppo")
    learner = _learner(base, algorithm, seed, budget)
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


def _learner(base: TrainingConfig, algorithm: str, seed: int, budget: Budget) -> Any:
    """Settings of the algorithm: shipped, with the seed, limited steps, and for MacMic intervals that divide the window."""
    source = base if algorithm == "ppo" else load_config(Path(algorithm))
    changes: dict[str, Any] = {"seed": seed}
    if algorithm == "macmic":
        decisions = round(base.market.duration_s / base.market.interval_s)
        changes["interval_steps"] = _divisor(decisions, source.macmic.interval_steps)
    if budget.steps:
        changes["steps"] = min(budget.steps, source.learner.steps)
    if budget.steps and algorithm == "halop":  # it refuses to learn nothing
        changes["warm_up"] = min(changes["steps"] // 2, source.halop.warm_up)
    return source.learner.model_copy(update=changes)


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


def learners(
    market: str, data: list[str], budget: Budget, folder: Path, progress: Progress
) -> Iterator[tuple[str, Path]]:
    """(method, policy file) of every policy that is learnt in a market."""
    for method in budget.methods:
        for seed in range(budget.seeds if method in ("PPO", "PPO limit") else budget.baseline_seeds):
            task = progress.add_task(f"{market} {method} {seed}", total=1)
            place = folder / market / f"{method.replace(' ', '-').lower()}-{seed}"
            if method == SERL:
                base = with_overrides(load_config(Path(SETTINGS[market])).market, budget.market_changes(data))
                yield method, researched(researcher_config(market, base, seed, budget.fit_orders is not None), place)
            else:
                config = config_of(market, method, data, seed, budget)
                yield method, trained(config, place, partial(_advance, progress, task))
            progress.remove_task(task)


def _advance(progress: Progress, task: TaskID, done: int, total: int) -> None:
    progress.update(task, completed=done, total=total)
