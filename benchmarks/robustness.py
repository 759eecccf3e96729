"""Whether an adversary makes an executor robust: PPO in one market, in its variants with equal weights, and against an adversary that weighs them.

Market, variants and learner: the settings `adversarial`, on simulated days that no setting was chosen on. All arms train for the same steps; `one` has
all environments in the first variant, the others the same number in each. Every policy works the same orders of the test days of each variant.

pa_bps: mean PA of an arm's seeds, by variant. worst_bps: the smallest of these means. gain: that of the adversary minus that of another arm, with the
95 % interval of a bootstrap of seeds and of test days, which finds the worst variant anew in each draw; expanded for their number.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.forecasts import independent_values
from benchmarks.study import try_out
from serl.agents.learning.environments import Scenario
from serl.agents.learning.evaluation import BOOTSTRAPS, Contender, evaluate
from serl.agents.learning.market_config import MarketConfig, with_overrides
from serl.agents.learning.policy import Policy
from serl.agents.learning.training import Training, TrainingConfig, environments, load_config
from serl.agents.students_t import expanded

ONE, EQUAL, ADVERSARY = "one", "equal", "adversary"
SETTINGS = load_config(Path("adversarial"))
FIRST_DAY = 40_000
"""Simulated days that no setting was chosen on."""
EQUAL_TEMPERATURE_BPS = 1e9


@dataclass(frozen=True)
class Study:
    """What is compared; smaller ones try the command out."""

    seeds: int = 6
    steps: int = 200_000
    test_orders: int = 256
    order_seed: int = 1


def settings_of(arm: str, study: Study, seed: int) -> TrainingConfig:
    """Of an arm's training."""
    assert SETTINGS.adversary
    market = with_overrides(SETTINGS.market, {"first_day": FIRST_DAY})
    ppo = SETTINGS.ppo.model_copy(update={"steps": study.steps, "seed": seed})
    temperatures = {"first_temperature_bps": EQUAL_TEMPERATURE_BPS, "last_temperature_bps": EQUAL_TEMPERATURE_BPS}
    adversary = {
        ONE: None, EQUAL: SETTINGS.adversary.model_copy(update=temperatures), ADVERSARY: SETTINGS.adversary,
    }[arm]  # fmt: skip
    return SETTINGS.model_copy(update={"market": market, "ppo": ppo, "adversary": adversary})


def trained(arm: str, study: Study, seed: int) -> Policy:
    """The policy of an arm and seed."""
    config = settings_of(arm, study, seed)
    envs, _ = environments(config)
    with tempfile.TemporaryDirectory() as folder:
        return Training(config, envs, Path(folder)).run()


def variants() -> dict[str, MarketConfig]:
    """The test market of each variant."""
    assert SETTINGS.adversary
    test = {"first_day": FIRST_DAY, "part": "test"}
    return {
        name: with_overrides(SETTINGS.market, test | {"population_changes": changes})
        for name, changes in SETTINGS.adversary.variants.items()
    }


def worst(advantage: NDArray[np.float64]) -> float:
    """The smallest mean over seeds and orders of (variants, seeds, orders)."""
    return float(np.nanmean(advantage, axis=(1, 2)).min())


def gain(first: NDArray[np.float64], second: NDArray[np.float64], days: NDArray[np.int64]) -> dict[str, float]:
    """Of (variants, seeds, orders) of an arm and another, the orders being of the days (orders,)."""
    random, found = np.random.default_rng(0), []
    members = [np.flatnonzero(days == one) for one in np.unique(days)]
    for _ in range(BOOTSTRAPS):
        orders = np.concatenate([members[one] for one in random.integers(len(members), size=len(members))])
        drawn = [arm[:, random.integers(arm.shape[1], size=arm.shape[1])][:, :, orders] for arm in (first, second)]
        found.append(worst(drawn[0]) - worst(drawn[1]))
    own, other = (arm[int(np.nanmean(arm, axis=(1, 2)).argmin())] for arm in (first, second))
    low, high = np.quantile(found, expanded(independent_values(own - other, members)))
    return {"bps": worst(first) - worst(second), "low_bps": float(low), "high_bps": float(high)}


def compared(study: Study = Study()) -> dict[str, Any]:
    """All figures."""
    policies: dict[str, list[Policy]] = {ONE: [], EQUAL: [], ADVERSARY: []}
    for seed in range(study.seeds):
        for arm, found in policies.items():
            found.append(trained(arm, study, seed))
        print(f"trained seed {seed}", file=sys.stderr, flush=True)
    contenders = [
        Contender(f"{arm} {seed}", policy, policy.modes[0])
        for arm, found in policies.items()
        for seed, policy in enumerate(found)
    ]
    advantage: dict[str, list[Any]] = {arm: [] for arm in ("TWAP", *policies)}
    for market in variants().values():
        scenario = Scenario(market)
        rows = evaluate(scenario, contenders, study.test_orders, study.order_seed).rows
        orders = scenario.sampler.sample(np.random.Generator(np.random.PCG64(study.order_seed)), study.test_orders)
        for arm, values in advantage.items():
            values.append([row.columns["pa"] for row in rows if row.name.partition(" ")[0] == arm])
    arrays = {arm: np.array(values) for arm, values in advantage.items()}
    return {
        "seeds": study.seeds, "steps": study.steps, "test_orders": study.test_orders, "days": len(np.unique(orders["day"])),
        **{f"{arm}_pa_bps": dict(zip(variants(), np.nanmean(found, axis=(1, 2)).tolist(), strict=True)) for arm, found in arrays.items()},
        **{f"{arm}_worst_bps": worst(found) for arm, found in arrays.items()},
        **{f"gain_over_{arm}": gain(arrays[ADVERSARY], arrays[arm], orders["day"]) for arm in (ONE, EQUAL)},
    }  # fmt: skip


def run() -> dict[str, Any]:
    """All figures."""
    return compared()


def main() -> None:
    """A smaller study, to try the command out: `python -m benchmarks.robustness --seeds 2 --steps 4800`."""
    try_out(Study, compared, __doc__)


if __name__ == "__main__":
    main()
