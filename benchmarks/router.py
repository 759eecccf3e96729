"""Learnt positions: PPO, a DQN, and a router over DQNs that learnt in windows of one kind each, beside the momentum rule.

Market: `trending`, the only shipped population in which a rule of `python -m benchmarks directional` earns more than it pays. All learners have the same
environment steps in training days: the router 100,000 for each of six sub-policies and 200,000 of its own, PPO (continuous positions) and the DQN their
sum. Then each works the same 256 windows of ten minutes on 16 test days.

profit_ticks: mean over seeds and windows, in ticks per lot of the largest position. gain: the router's profit minus another's in the same windows; 95 %
interval of a bootstrap of seeds and of test days.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.forecasts import gain_interval
from benchmarks.study import try_out
from serl.agents.directional.config import directional_settings
from serl.agents.directional.environment import DirectionalVectorEnv
from serl.agents.directional.evaluate import evaluate
from serl.agents.directional.learners.dqn import DQNConfig, Greedy
from serl.agents.directional.learners.ppo import PPOPositions, train_ppo
from serl.agents.directional.learners.router import RouterConfig, train_dqn, train_router
from serl.agents.directional.rules import Flat, Momentum
from serl.agents.positions.config import position_market, windows
from serl.agents.positions.evaluate import Score
from serl.agents.positions.targets import Rule

POPULATION, ENVIRONMENTS = "trending", 64
MOMENTUM_TICKS = 2.0
ROUTER, DQN, PPO = "router", "dqn", "ppo"


@dataclass(frozen=True)
class Study:
    """What is compared; smaller ones try the command out."""

    seeds: int = 6
    part_steps: int = 100_000
    router_steps: int = 200_000
    labelled: int = 768
    test_windows: int = 256


def env_of(**changes: Any) -> DirectionalVectorEnv:
    """The training environment."""
    config = directional_settings(population=POPULATION, **changes)
    return DirectionalVectorEnv(position_market(config, ENVIRONMENTS), windows(config), config)


def learnt(study: Study, seed: int) -> dict[str, Rule[DirectionalVectorEnv]]:
    """The agents of a seed."""
    total = 6 * study.part_steps + study.router_steps
    settings = RouterConfig(
        part=DQNConfig(steps=study.part_steps), router=DQNConfig(steps=study.router_steps), windows=study.labelled
    )
    return {
        ROUTER: Greedy(
            train_router(directional_settings(population=POPULATION), settings, ENVIRONMENTS, seed), f"{ROUTER} {seed}"
        ),
        DQN: Greedy(train_dqn(env_of(), DQNConfig(steps=total, seed=seed)), f"{DQN} {seed}"),
        PPO: PPOPositions(train_ppo(env_of(actions="continuous"), total, seed), f"{PPO} {seed}"),
    }


def scores(rules: list[Any], study: Study, actions: str) -> list[Score]:
    """On test days."""
    config = directional_settings(population=POPULATION, part="test", actions=actions)
    return evaluate(rules, config, study.test_windows)


def compared(study: Study = Study()) -> dict[str, Any]:
    """All figures."""
    agents: dict[str, list[Any]] = {ROUTER: [], DQN: [], PPO: []}
    for seed in range(study.seeds):
        for name, agent in learnt(study, seed).items():
            agents[name].append(agent)
        print(f"trained seed {seed}", file=sys.stderr, flush=True)
    discrete = scores([Flat(), Momentum(MOMENTUM_TICKS), *agents[ROUTER], *agents[DQN]], study, "discrete")
    found = [*discrete, *scores(agents[PPO], study, "continuous")]
    lots, days = directional_settings().inventory_lots_max, found[0].days
    profits = {
        name: np.stack(
            [one.values["profit"] / lots for one in found if one.name.split(" ")[0].rstrip(",").lower() == name]
        )
        for name in ("momentum", ROUTER, DQN, PPO)
    }
    turnover = {
        name: float(np.mean([one.mean("turnover_lots")[0] for one in found if one.name.startswith(name)])) / lots
        for name in (ROUTER, DQN, PPO)
    }
    return {
        "seeds": study.seeds, "test_windows": study.test_windows, "days": len(np.unique(days)),
        **{f"{name}_profit_ticks": float(values.mean()) for name, values in profits.items()},
        **{f"{name}_by_seed_ticks": ", ".join(f"{one:.1f}" for one in values.mean(1)) for name, values in profits.items() if name != "momentum"},
        **{f"{name}_turnover": value for name, value in turnover.items()},
        **{f"gain_over_{name}": gain(profits[ROUTER] - profits[name], days) for name in ("momentum", DQN, PPO)},
    }  # fmt: skip


def gain(gains: Any, days: Any) -> dict[str, float]:
    """Mean and interval of (seeds, windows) gains."""
    low, high = gain_interval(gains, days)
    return {"ticks": float(gains.mean()), "low_ticks": low, "high_ticks": high}


def run() -> dict[str, Any]:
    """All figures."""
    return compared()


def main() -> None:
    """A smaller study, to try the command out: `python -m benchmarks.router --seeds 1 --part-steps 6400`."""
    try_out(Study, compared, __doc__)


if __name__ == "__main__":
    main()
