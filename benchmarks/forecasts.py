"""Whether forecasts help the execution agent: PPO with and without them, on the same orders of held-out hours.

The GOOG and AMZN days of LOBSTER, each on its own. A forecaster is trained from 10:00 to 11:15, so that from 11:15 to 12:30, where the agents are
trained, its forecasts are as good as later. Agents: PPO in the replay (settings `replay`, but orders of two minutes with a decision each two seconds),
with SEEDS seeds, once with the forecasts and once without, nothing else different. ORDERS orders from 13:00 to 15:55, the same for all.

pa_bps: mean PA of an arm's seeds. gain: PA with forecasts minus PA without, of the same order and seed, in bps; its 97.5 % interval (this is the second
such test on these hours) is a bootstrap of seeds and of blocks of two minutes. by_seed: the gains of the seeds.
"""

import dataclasses
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.replay import FOLDER, SAMPLES
from serl.agents.learning.environments import Scenario
from serl.agents.learning.evaluation import BOOTSTRAPS, Contender, bootstrap_clusters, evaluate
from serl.agents.learning.market_config import MarketConfig, with_overrides
from serl.agents.learning.policy import load_policy
from serl.agents.learning.training import POLICY, Training, TrainingConfig, load_config
from serl.agents.realism.days import day_origin, parse_window
from serl.agents.signals.grid import build_grid
from serl.agents.signals.samples import cut_samples
from serl.agents.signals.training import train_forecaster
from serl.agents.students_t import effective_freedom, expanded
from serl.history.day import Day
from serl.history.importing import import_day

FORECAST_HOURS, AGENT_HOURS, TEST_HOURS = "10:00-11:15", "11:15-12:30", "13:00-15:55"
DURATION_S, INTERVAL_S, HORIZONS_S = 120.0, 2.0, (1.0, 10.0, 60.0)
SEEDS, STEPS, ORDERS, ORDER_SEED = 6, 300_000, 512, 1
CONFIDENCE = 0.975
WITH, WITHOUT = "with", "without"


@dataclasses.dataclass(frozen=True)
class Study:
    """What is compared; smaller ones try the command out."""

    seeds: int = SEEDS
    steps: int = STEPS
    orders: int = ORDERS
    agent_hours: str = AGENT_HOURS
    test_hours: str = TEST_HOURS


def settings(study: Study, market: MarketConfig, seed: int) -> TrainingConfig:
    """Those of `replay`, in a market of the study."""
    shipped = load_config(Path("replay"))
    ppo = shipped.ppo.model_copy(update={"steps": study.steps, "seed": seed})
    return shipped.model_copy(update={"market": market, "ppo": ppo})


def market_of(path: Path, forecaster: Path | None, hours: str, part: str) -> MarketConfig:
    """The market of `replay` with the orders of the study."""
    changes = {"data": [path], "hours": hours, "part": part, "duration_s": DURATION_S, "interval_s": INTERVAL_S}
    return with_overrides(load_config(Path("replay")).market, changes | {"forecaster": forecaster})


def trained(study: Study, path: Path, day: Day, forecaster: Path | None, folder: Path) -> list[Any]:
    """A policy of each seed."""
    market, policies = market_of(path, forecaster, study.agent_hours, "train"), []
    for seed in range(study.seeds):
        scenario, place = Scenario(market, [day]), folder / f"{'with' if forecaster else 'without'}-{seed}"
        place.mkdir()
        Training(settings(study, market, seed), [scenario.env(scenario.fit_scales())], place).run()
        policies.append(load_policy(place / POLICY))
    return policies


def gain_interval(gains: Any, clusters: Any, confidence: float = 0.95) -> tuple[float, float]:
    """An interval of the mean of (seeds, orders) gains, both seeds and clusters of orders (orders,) drawn with replacement: expanded for their number."""
    random, members = (
        np.random.default_rng(ORDER_SEED),
        [np.flatnonzero(clusters == one) for one in np.unique(clusters)],
    )
    means = []
    for _ in range(BOOTSTRAPS):
        drawn = np.concatenate([members[one] for one in random.integers(len(members), size=len(members))])
        seeds = random.integers(len(gains), size=len(gains))
        means.append(np.nanmean(gains[seeds][:, drawn]))
    low, high = np.quantile(means, expanded(independent_values(gains, members), confidence))
    return float(low), float(high)


def independent_values(gains: Any, members: Sequence[Any]) -> int:
    """How many independent values have as much spread: seeds where they differ most, else clusters."""
    means = np.nanmean(gains, axis=1), np.array([np.nanmean(gains[:, own]) for own in members])
    parts = [(float(own.var(ddof=1)) / len(own), len(own) - 1) for own in means if len(own) > 1]
    freedom = effective_freedom(parts)
    return len(members) if freedom is None else 1 + int(freedom)


def write_forecaster(day: Day, path: Path) -> None:
    """As `serl signals train` does."""
    grid, window = build_grid(day), parse_window(FORECAST_HOURS)
    samples = cut_samples(grid, window, HORIZONS_S)
    train_forecaster(samples, grid.symbol, HORIZONS_S, window, [day_origin(day)], 1).write(path)


def compared(path: Path, study: Study = Study()) -> dict[str, Any]:
    """The comparison on one day."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as name:
        folder, day = Path(name), import_day(path)
        forecaster = folder / f"{path.stem}.signals"
        write_forecaster(day, forecaster)
        arms = {WITH: forecaster, WITHOUT: None}
        contenders = [
            Contender(f"{arm} {seed}", policy, policy.modes[0])
            for arm, file in arms.items()
            for seed, policy in enumerate(trained(study, path, day, file, folder))
        ]
        scenario = Scenario(market_of(path, forecaster, study.test_hours, "test"), [day])
        table = evaluate(scenario, contenders, study.orders, ORDER_SEED)
        orders = scenario.sampler.sample(np.random.Generator(np.random.PCG64(ORDER_SEED)), study.orders)
    clusters, unit = bootstrap_clusters(orders, scenario.source.dates(orders["day"]))
    advantage = {
        arm: np.stack([row.columns["pa"] for row in table.rows if row.name.startswith(f"{arm} ")]) for arm in arms
    }
    gains = advantage[WITH] - advantage[WITHOUT]
    low, high = gain_interval(gains, clusters, CONFIDENCE)
    return {
        "orders": study.orders, "seeds": study.seeds, "clusters": f"{len(np.unique(clusters))} {unit}",
        "twap_pa_bps": table.rows[0].estimates["PA"].value, "patience_pa_bps": table.rows[1].estimates["PA"].value,
        **{f"{arm}_pa_bps": float(np.nanmean(values)) for arm, values in advantage.items()},
        "gain_bps": float(np.nanmean(gains)), "gain_low_bps": low, "gain_high_bps": high,
        "gain_by_seed_bps": ", ".join(f"{one:.3f}" for one in np.nanmean(gains, axis=1)),
        "processor_s": time.process_time() - began,
    }  # fmt: skip


def run() -> dict[str, Any]:
    """All figures; says so where there are no sample files."""
    days = {name: FOLDER / SAMPLES[name] for name in ("goog", "amzn")}
    if missing := [path.name for path in days.values() if not path.exists()]:
        return {"skipped": f"no {missing[0]} in ../shared/data/lobster"}
    return {name: compared(path) for name, path in days.items()}
