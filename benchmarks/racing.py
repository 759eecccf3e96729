"""The parts of a race, on two cores: trainings of 200,000 steps in bars, paired scores of 1,000 orders, and rules in a market that reacts.

Bars are a random walk, so there is nothing to learn in them: they show speed, and the standard error of a paired score, not a gain. Targets:
policy_evaluations_per_min 30 (64 orders each in `liquid`), trainings_per_hour 300.
"""

import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.environments import BARS, random_bars
from serl.agents.learning.market_config import MarketConfig
from serl.researcher.candidates import Budget, Candidate, Module
from serl.researcher.inner.contender import Contender
from serl.researcher.inner.evaluate import ignore_stage
from serl.researcher.inner.executors import trainer
from serl.researcher.inner.paired import paired
from serl.researcher.inner.score import scoring_set
from serl.researcher.inner.settings import Settings
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.example import example
from serl.researcher.outer import uniform
from serl.researcher.outer.config import load_config

WORKERS, SEEDS, RULES, ORDERS = 2, 2, 12, 64
STOCKS, DATES = 5, 40


def write_bars(path: Path) -> Path:
    """A file of bars: STOCKS random walks of DATES days."""
    values = random_bars().values[: STOCKS * DATES].reshape(-1, 6)
    day = np.repeat(np.arange(STOCKS * DATES), BARS)
    minutes = np.tile(np.arange(BARS), STOCKS * DATES) + 9 * 60 + 30
    columns = dict(zip(("open", "high", "low", "close"), values[:, :4].T / 100, strict=True))
    pq.write_table(pa.table({
        "symbol": [f"S{number // DATES}" for number in day], "date": [f"2020-{1 + number % DATES // 28:02}-{1 + number % DATES % 28:02}" for number in day],
        "ToD": [f"{minute // 60:02}:{minute % 60:02}:00" for minute in minutes], **columns, "volume": values[:, 5],
    }), path)  # fmt: skip
    return path


def timed(contenders: Sequence[Contender], seeds: int) -> float:
    """Seconds in which WORKERS threads run these trainings."""
    began, tickets = time.perf_counter(), [(one, seed) for seed in range(seeds) for one in contenders]
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda ticket: ticket[0].run(1.0, ticket[1]), tickets))
    for one in contenders:
        assert not one.failure, one.failure.reason
    return time.perf_counter() - began


def bars_contenders(folder: Path, on: str = "local") -> list[Contender]:
    """Two candidates for bars, ready to be timed: everything is compiled, workers run, scoring sets are there."""
    config = load_config(Path("bars"), [write_bars(folder / "walk.parquet")])
    drawn = uniform.draw(Kind.REWARD, np.random.default_rng(0))  # the example trains the same policy as the default
    candidates = Candidate({}), Candidate({Kind.REWARD: Module("spec", drawn)})
    short = [
        Contender(one, config.inner, Budget(2000, 0), folder / "short" / one.key, ignore_stage, trainer(on))
        for one in candidates
    ]
    timed(short, SEEDS)
    return [
        Contender(one, config.inner, Budget(200_000, 0), folder / "full" / one.key, ignore_stage, trainer(on))
        for one in candidates
    ]


def _bars(folder: Path) -> dict[str, float]:
    found = bars_contenders(folder)
    seconds = timed(found, SEEDS)
    own, theirs = ([trial.score for trial in one.top()] for one in reversed(found))
    errors = [paired([mine], [other], 1.0).se_bps for mine, other in zip(own, theirs, strict=True)]
    assert min(errors) > 0, "expected two policies that differ"
    alone = float(np.mean([score.pa_std_bps / np.sqrt(score.orders) for score in own]))
    return {
        "trainings_per_hour": 3600 * len(found) * SEEDS / seconds, "paired_se_bps": float(np.mean(errors)), "unpaired_se_bps": alone,
    }  # fmt: skip


def _rules(folder: Path) -> dict[str, float]:
    market = MarketConfig(kind="dynamic", population="liquid", hours="09:35-11:30", simulated_days=16)
    settings = Settings(market=market, scored_in="market", orders=ORDERS)
    random = np.random.default_rng(0)
    texts = [example(Kind.POLICY, "spec"), *(uniform.draw(Kind.POLICY, random) for _ in range(RULES))]
    first, *others = [Candidate({Kind.POLICY: Module("spec", text)}) for text in texts]
    made = [
        Contender(one, settings, Budget(), folder / one.key, ignore_stage, trainer("local")) for one in (first, *others)
    ]
    made[0].run(1.0, 0)
    scoring_set(settings.of_seed(0))
    began = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda one: (one.validate(), one.run(1.0, 0)), made[1:]))
    return {"policy_evaluations_per_min": 60 * RULES / (time.perf_counter() - began)}


def figures() -> dict[str, float]:
    """Counts per hour and minute, bps."""
    with tempfile.TemporaryDirectory() as name:
        return _rules(Path(name) / "rules") | _bars(Path(name))


if __name__ == "__main__":
    print(figures())
