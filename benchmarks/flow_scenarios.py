"""`python -m benchmarks.flow_scenarios FLOW DAY`: scenarios of a trained flow in hours of a day that it was not trained on (docs/generated-flow.md).

Continued: mean L1 of five minutes to the real ones, of the flow that continues the day from their start, and of the flow that has run since the open; a start each
quarter of an hour, five seeds each. The difference is paired by start. Volatility: of the mid's moves in a minute with --volatility 2, as a multiple of that without, by
seed. Path: the flow follows the day's own mid, second by second; distance of its mid in spreads of the day, correlation of the moves in a minute, mean L1. Intervals:
95 %, Student's t over starts or seeds.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.calibration.flow.continuing import continued
from serl.agents.calibration.flow.population import in_scenario
from serl.agents.calibration.objective import Window, simulated_window
from serl.agents.calibration.score import SeedSample
from serl.agents.realism.benchmark import compare
from serl.agents.realism.days import load_day, parse_window
from serl.agents.realism.tape import MINUTE_NS, SECOND_NS, Floats, Tape, build_tape
from serl.agents.traders.population import PopulationConfig, load_population
from serl.agents.traders.simulate import Simulation
from serl.history.day import Day

START_EVERY_NS, LENGTH_NS = 15 * MINUTE_NS, 5 * MINUTE_NS
VOLATILITY, VALUE_LEANS = 2.0, (0.0, 0.5, 2.0)
FIRST_SEED = 1


def mean_l1(real: Tape, simulated: Tape) -> float:
    """Over the unconditional scores."""
    return compare(real, simulated, bootstraps=0, seed=1).summary()["l1"]["mean"].value


def continuing(flow: PopulationConfig, day: Day, tape: Tape, hours: tuple[int, int], seeds: int) -> dict[str, Any]:
    """Mean L1 right after each start, and what continuing the day gains."""
    rows: list[list[float]] = []
    for start_ns in range(hours[0], hours[1] - LENGTH_NS + 1, START_EVERY_NS):
        window = Window(tape.window(start_ns, start_ns + LENGTH_NS), start_ns, start_ns + LENGTH_NS)
        going_on = continued(flow, day, start_ns, "continued")
        rows.append(
            [
                float(np.mean([mean_l1(window.tape, simulated_window(one, FIRST_SEED + seed, window.span)) for seed in range(seeds)]))
                for one in (going_on, flow)
            ]
        )  # fmt: skip
    found = np.array(rows)
    return {
        "starts": len(found), "l1_continued": estimate(found[:, 0]), "l1_fresh": estimate(found[:, 1]),
        "l1_gain": estimate(found[:, 1] - found[:, 0]),
    }  # fmt: skip


def minute_moves(tape: Tape, hours: tuple[int, int]) -> Floats:
    """Moves of the mid in each minute, ticks."""
    return np.diff(mids_at(tape, np.arange(hours[0], hours[1] + 1, MINUTE_NS)))


def mids_at(tape: Tape, times_ns: Any) -> Floats:
    """The mid at these times, of a two-sided book."""
    known = np.flatnonzero(tape.two_sided[1:])
    mids = 0.5 * (tape.bid + tape.ask)[1:][known]
    return mids[np.clip(np.searchsorted(tape.time_ns[known], times_ns, side="right") - 1, 0, None)]


def simulated(
    population: PopulationConfig, seed: int, levels: int, until_ns: int, prepare: Callable[[Simulation], None] | None = None
) -> Tape:  # fmt: skip
    """The tape of a simulated day."""
    simulation = Simulation(population, seed)
    if prepare is not None:
        prepare(simulation)
    simulation.advance(until_ns)
    return build_tape(simulation.day(), levels)


def volatility(flow: PopulationConfig, levels: int, hours: tuple[int, int], seeds: int) -> dict[str, Any]:
    """The ratio of volatilities."""
    ratios = []
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        plain, faster = (
            minute_moves(simulated(in_scenario(flow, times, 0.0, "flow"), seed, levels, hours[1]), hours).std()
            for times in (1.0, VOLATILITY)
        )
        ratios.append(faster / plain)
    return {"asked": VOLATILITY, "found": estimate(np.array(ratios))}


def following(flow: PopulationConfig, tape: Tape, hours: tuple[int, int], seeds: int) -> dict[str, Any]:
    """How the flow follows the day's mid, by value_lean."""
    real, step_ns = tape.window(*hours), round(flow.value.step_s * SECOND_NS)
    spread = float(np.median((real.ask - real.bid)[real.two_sided]))
    times = np.arange(hours[0], hours[1], SECOND_NS)
    path, moves = mids_at(tape, times), minute_moves(tape, hours)

    def follow(simulation: Simulation) -> None:
        values = simulation.crowd.traders.value
        values[:] = mids_at(tape, flow.open_ns + step_ns * np.arange(values.shape[1]))

    found = {}
    for value_lean in VALUE_LEANS:
        rows = []
        for seed in range(FIRST_SEED, FIRST_SEED + seeds):
            one = simulated(in_scenario(flow, 1.0, value_lean, "flow"), seed, tape.levels, hours[1], follow)
            rows.append(
                [
                    float(np.abs(mids_at(one, times) - path).mean() / spread),
                    float(np.corrcoef(minute_moves(one, hours), moves)[0, 1]), mean_l1(real, one.window(*hours)),
                ]
            )  # fmt: skip
        names = ("distance_spreads", "correlation", "mean_l1")
        found[f"{value_lean:g}"] = dict(zip(names, map(estimate, np.array(rows).T), strict=True))
    return found


def estimate(values: Floats) -> str:
    """The mean with its interval."""
    sample = SeedSample(values)
    return f"{sample.mean:.3f} [{sample.interval[0]:.3f}, {sample.interval[1]:.3f}]"


def parser() -> argparse.ArgumentParser:
    """The command line parser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flow_scenarios", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("flow", type=Path)
    parser.add_argument("day", type=Path)
    parser.add_argument("--hours", default="13:00-16:00")
    parser.add_argument("--seeds", type=int, default=5)
    return parser


def main() -> None:
    """Print the figures as JSON."""
    arguments = parser().parse_args()
    flow, day, hours = load_population(arguments.flow), load_day(arguments.day), parse_window(arguments.hours)
    tape = build_tape(day)
    figures = {
        "continued": continuing(flow, day, tape, hours, arguments.seeds),
        "volatility": volatility(flow, tape.levels, hours, arguments.seeds),
        "path": following(flow, tape, hours, arguments.seeds),
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
