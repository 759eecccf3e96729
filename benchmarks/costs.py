"""`python -m benchmarks.costs DAY`: what execution costs in hours of a day, replayed and answering, and in populations
(docs/calibration.md).

Pairs of a buy and a sell of .5 to 5 % of the volume in ten minutes; 95 % intervals over blocks of the day, and over simulated days.
"""

import argparse
from pathlib import Path

from benchmarks.endings import one_line_endings
from serl.agents.calibration.calibrate import COST_DAYS, SCORE_SEED
from serl.agents.calibration.costs import COSTS, SCORE_PAIRS, ExecutionCosts, day_costs, day_orders, population_costs
from serl.agents.execution.answering.model import NONE, SQUARE_ROOT
from serl.agents.realism.days import load_day, parse_window
from serl.agents.traders.population import load_population


def line(name: str, found: ExecutionCosts) -> str:
    """A row of the table."""
    estimates = [found.estimates[cost.name] for cost in COSTS]
    return f"{name:<24}" + "".join(f"{f'{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]':>24}" for one in estimates)


def main() -> None:
    """Print the table row by row."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("day", type=Path)
    parser.add_argument("--populations", nargs="+", default=["amzn"])
    parser.add_argument("--hours", default="13:00-16:00")
    parser.add_argument("--seeds", type=int, default=COST_DAYS)
    with one_line_endings("the command begins again"):
        show(parser.parse_args())


def show(arguments: argparse.Namespace) -> None:
    """The table. Raises RealismError for hours that are none."""
    start_ns, end_ns = parse_window(arguments.hours, "--hours")
    day = load_day(arguments.day)
    print(" " * 24 + "".join(f"{cost.name + ', bps':>24}" for cost in COSTS))
    for answers, name in ((NONE, "replayed"), (SQUARE_ROOT, "answering")):
        print(line(f"{arguments.hours}, {name}", day_costs([day], start_ns, end_ns, answers)), flush=True)
    orders = day_orders(day, start_ns, end_ns, SCORE_PAIRS)
    for name in arguments.populations:
        population = load_population(name)
        seeds = [SCORE_SEED + 100 + number for number in range(arguments.seeds)]
        print(line(Path(name).name, population_costs(population, seeds, orders)), flush=True)


if __name__ == "__main__":
    main()
