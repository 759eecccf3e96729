"""Imitation, then reinforcement: PPO that starts from a cloned policy, beside PPO that starts from new weights.

Market and learner: the settings `imitation`. Data: 256 orders of training days, worked by the same policies as in `offline`. For each seed the best 20 %
of the episodes are cloned, and PPO continues; in its first steps only the critic learns. Beside it: the clone; PPO that continues without such steps; and
PPO from new weights, which has as many steps more as the data have decisions. All work the same orders of test days.

pa_bps: mean PA of an arm's seeds. gain: PA of the first arm minus PA of the other, of the same order and seed, in bps; its 95 % interval is a bootstrap
of seeds and of test days. by_seed: the gains of the seeds.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.forecasts import gain_interval
from benchmarks.offline import RECORDED, recorded
from benchmarks.study import try_out
from serl.agents.learning.cloning import CloneConfig, clone
from serl.agents.learning.environments import Scenario
from serl.agents.learning.evaluation import Contender, bootstrap_clusters, evaluate
from serl.agents.learning.market_config import MarketConfig, with_overrides
from serl.agents.learning.minari_files import Episodes
from serl.agents.learning.policy import Policy
from serl.agents.learning.training import POLICY, Training, TrainingConfig, load_config

CONTINUED, AT_ONCE, NEW, CLONE = "continued", "at_once", "new", "clone"
SETTINGS = load_config(Path("imitation"))
FIRST_DAY = 30_000
"""Simulated days that no setting was chosen on."""


@dataclass(frozen=True)
class Study:
    """What is compared; smaller ones try the command out."""

    seeds: int = 6
    steps: int = 100_000
    orders: int = 256
    test_orders: int = 512
    order_seed: int = 1


def market_of(**changes: Any) -> MarketConfig:
    """The market of the settings on other days."""
    return with_overrides(SETTINGS.market, {"first_day": FIRST_DAY, **changes})


def settings(steps: int, seed: int, **changes: int) -> TrainingConfig:
    """Those of `imitation` on other days."""
    ppo = SETTINGS.ppo.model_copy(update={"steps": steps, "seed": seed, **changes})
    return SETTINGS.model_copy(update={"market": market_of(), "ppo": ppo})


def trained(config: TrainingConfig, start: Path | None = None) -> Policy:
    """A policy after training, from the weights of a file or new ones."""
    scenario = Scenario(config.market)
    with tempfile.TemporaryDirectory() as folder:
        run = Training(config, [scenario.env(scenario.fit_scales())], Path(folder))
        if start:
            run.start_from(start)
        return run.run()


def policies_of(study: Study, episodes: Episodes, seed: int) -> dict[str, Policy]:
    """The policies of all arms of a seed."""
    cloned = clone(episodes, CloneConfig(seed=seed), SETTINGS.network)
    decisions = len(RECORDED) * study.orders * round(SETTINGS.market.duration_s / SETTINGS.market.interval_s)
    with tempfile.TemporaryDirectory() as folder:
        start = Path(folder) / POLICY
        cloned.save(start)
        return {
            CONTINUED: trained(settings(study.steps, seed), start),
            AT_ONCE: trained(settings(study.steps, seed, critic_first_steps=0), start),
            NEW: trained(settings(study.steps + decisions, seed, critic_first_steps=0)),
            CLONE: cloned,
        }


def compared(study: Study = Study()) -> dict[str, Any]:
    """All figures."""
    episodes = recorded(market_of(), study.orders)
    contenders = []
    for seed in range(study.seeds):
        for arm, policy in policies_of(study, episodes, seed).items():
            contenders.append(Contender(f"{arm} {seed}", policy, policy.modes[0]))
        print(f"trained seed {seed}", file=sys.stderr, flush=True)
    scenario = Scenario(market_of(part="test"))
    rows = evaluate(scenario, contenders, study.test_orders, study.order_seed).rows
    orders = scenario.sampler.sample(np.random.Generator(np.random.PCG64(study.order_seed)), study.test_orders)
    clusters, unit = bootstrap_clusters(orders, scenario.source.dates(orders["day"]))
    advantage = {
        arm: np.stack([row.columns["pa"] for row in rows if row.name.startswith(f"{arm} ")])
        for arm in (CONTINUED, AT_ONCE, NEW, CLONE)
    }
    return {
        "seeds": study.seeds, "steps": study.steps, "test_orders": study.test_orders, "clusters": f"{len(np.unique(clusters))} {unit}",
        "twap_pa_bps": rows[0].estimates["PA"].value,
        **{f"{arm}_pa_bps": float(np.nanmean(values)) for arm, values in advantage.items()},
        **{f"gain_over_{arm}": gain(advantage[CONTINUED] - advantage[arm], clusters) for arm in (NEW, CLONE, AT_ONCE)},
    }  # fmt: skip


def gain(gains: Any, clusters: Any) -> dict[str, Any]:
    """Mean and interval of (seeds, orders) gains."""
    low, high = gain_interval(gains, clusters)
    by_seed = ", ".join(f"{one:.2f}" for one in np.nanmean(gains, axis=1))
    return {"bps": float(np.nanmean(gains)), "low_bps": low, "high_bps": high, "by_seed_bps": by_seed}


def run() -> dict[str, Any]:
    """All figures."""
    return compared()


def main() -> None:
    """A smaller study, to try the command out: `python -m benchmarks.imitation --seeds 2 --steps 4000`."""
    try_out(Study, compared, __doc__)


if __name__ == "__main__":
    main()
