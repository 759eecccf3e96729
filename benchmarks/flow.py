"""`python -m benchmarks.flow DAY`: a generated flow trained on a LOBSTER day, beside a calibrated population (docs/generated-flow.md).

Trained on 10:00-13:00 and scored on 13:00-16:00 by five simulations: mean L1 with its 95 % interval over them. Training time includes the choice
among the networks; the speed is that of simulated days, on one core.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from serl.agents.calibration.calibrate import SCORE_SEED
from serl.agents.calibration.days import NamedDay
from serl.agents.calibration.flow.train import FlowPlan, train_flow
from serl.agents.calibration.score import HeldOutScores, score
from serl.agents.realism.days import load_day, parse_window
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import simulate

SIMULATED = 3


def figures(path: Path, population: str | None, seed: int) -> dict[str, Any]:
    """The figures of a day."""
    plan = FlowPlan("flow", parse_window("10:00-13:00"), parse_window("13:00-16:00"), seed)
    scoring = [0.0]
    began = time.process_time()
    found = train_flow(
        [NamedDay(path.name, load_day(path))], plan, on_score=lambda name: scoring.append(time.process_time())
    )
    scored = found.scored()
    flow = found.population
    simulate(flow, 0, plan.train[0])  # compiles
    started = time.process_time()
    commands = sum(len(simulate(flow, number, plan.held_out[1]).commands) for number in range(1, 1 + SIMULATED))
    rates = {"train_s": scoring[-2] - began, "events_per_s": commands / (time.process_time() - started)}
    shown = {name: _mean(one) for name, one in scored.items()}
    if population:
        seeds = [SCORE_SEED + 100 * seed + number for number in range(plan.score_seeds)]
        windows = [one.held_out for one in found.days]
        shown["population"] = _mean(score(load_population(population), seeds, windows)[0])
    return (
        rates | {"l1_training_hours": found.best.simulated_l1} | {f"l1_{name}": value for name, value in shown.items()}
    )


def _mean(one: HeldOutScores) -> str:
    low, high = one.mean_l1.interval
    return f"{one.mean_l1.mean:.3f}" + (f" [{low:.3f}, {high:.3f}]" if low == low else "")


def parser() -> argparse.ArgumentParser:
    """The command line parser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flow", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("day", type=Path)
    parser.add_argument("--population", help="name or file of a population to score beside")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    return parser


def main() -> None:
    """Train, simulate and print."""
    arguments = parser().parse_args()
    found = figures(arguments.day, arguments.population, arguments.seed)
    if arguments.json:
        print(json.dumps(found))
    else:
        print(
            "\n".join(
                f"{name:<20} {value if isinstance(value, str) else f'{value:,.3g}'}" for name, value in found.items()
            )
        )


if __name__ == "__main__":
    main()
