"""`python -m benchmarks.reaction DAY`: the effect of latency on the fit of a calibrated population.

The population is simulated with each latency and scored on the day's hours as `serl calibrate` scores (mean L1 over 21 scores; 0 is the same).
Mean over seeds 1, 2, ... with its 95 % interval (Student's t).
"""

import argparse
from pathlib import Path

from benchmarks.endings import one_line_endings
from serl.agents.calibration.objective import Window
from serl.agents.calibration.score import HeldOutScores, score
from serl.agents.realism.days import load_day, parse_window
from serl.agents.realism.tape import build_tape
from serl.agents.traders.population import PopulationConfig, load_population

DEPTH = 5


def late(population: PopulationConfig, latency_us: float) -> PopulationConfig:
    """The population with this latency for all traders."""
    groups = [group.model_copy(update={"latency_us": latency_us}) for group in population.groups]
    return population.model_copy(update={"groups": groups})


def window_of(path: Path, hours: str) -> Window:
    """A window of a day, from hours like 10:00-13:00."""
    start_ns, end_ns = parse_window(hours, "--hours")
    return Window(build_tape(load_day(path), DEPTH).window(start_ns, end_ns), start_ns, end_ns)


def line(latency_us: float, scored: HeldOutScores) -> str:
    """A row of the table."""
    low, high = scored.mean_l1.interval
    messages = round(sum(scored.messages) / len(scored.messages))
    return f"{latency_us:>12,.0f}  {scored.mean_l1.mean:.3f} [{low:.3f}, {high:.3f}]  {messages:>10,}"


def main() -> None:
    """Print the table row by row."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reaction", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("day", type=Path)
    parser.add_argument("--population", default="amzn")
    parser.add_argument("--hours", default="10:00-13:00")
    parser.add_argument("--latencies-us", type=float, nargs="+", default=[1, 20_000, 100_000])
    parser.add_argument("--seeds", type=int, default=3)
    with one_line_endings("the command begins again"):
        show(parser.parse_args())


def show(arguments: argparse.Namespace) -> None:
    """The table. Raises RealismError for hours that are none."""
    window, population = window_of(arguments.day, arguments.hours), load_population(arguments.population)
    print(
        f"{arguments.population}, {arguments.hours} of {arguments.day.name}: {len(window.tape):,} messages, {arguments.seeds} seeds"
    )
    print("  latency_us  mean L1                 messages")
    for latency_us in arguments.latencies_us:
        (found,) = score(late(population, latency_us), [*range(1, arguments.seeds + 1)], [window])
        print(line(latency_us, found), flush=True)


if __name__ == "__main__":
    main()
