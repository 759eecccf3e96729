"""Runs seeds: `python -m tests.sim --seeds 0:200`. A failing seed prints its last steps; `--seed N` replays it exactly.

`--bugs` plants one bug after the other and prints the first seed that finds it. Example: python -m tests.sim --seeds 0:1000 --json result.json
"""

from tests.sim import install

del install

import argparse  # noqa: E402 - the simulated clock and sockets come first
import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
from collections import Counter  # noqa: E402
from collections.abc import Iterable  # noqa: E402
from pathlib import Path  # noqa: E402

from rich.console import Console  # noqa: E402

from tests.sim.bugs import BUGS  # noqa: E402
from tests.sim.clock import perf_counter  # noqa: E402
from tests.sim.planting import planted  # noqa: E402
from tests.sim.seed import Outcome, simulate  # noqa: E402

PROGRESS_SEEDS = 100
BUG_SEEDS = 2000
FAILURES_SHOWN = 5
STALE = ("AttributeError", "NameError", "TypeError")
"""Failures of a planted bug that does not fit the code any more: they find nothing."""


def main() -> int:
    """Runs what the options say. Returns the exit status: 1 if a seed failed, or a planted bug was not found."""
    options = _options()
    console = Console(highlight=False, soft_wrap=True)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="serl-sim-", dir=memory if memory.is_dir() else None) as folder:
        if options.bugs:
            return _find_bugs(console, Path(folder) / "journal", options.only or list(BUGS), options.seeds)
        return _run(console, Path(folder) / "journal", options.seeds, options.verbose, options.json)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=_seeds, help="FIRST:STOP")
    parser.add_argument("--seed", type=int, help="replay one seed and print all of its steps")
    parser.add_argument(
        "--verbose", action="store_true", help="print the history's hash and the last steps of every seed"
    )
    parser.add_argument(
        "--json", type=Path, help="write seeds, times, faults and the hashes of the histories to this file"
    )
    parser.add_argument("--bugs", action="store_true", help="plant bugs, and print the first seed that finds each")
    parser.add_argument("--only", action="append", choices=list(BUGS), metavar="BUG", help="this planted bug alone")
    options = parser.parse_args()
    if options.seed is not None:
        options.seeds, options.verbose = range(options.seed, options.seed + 1), True
    if options.seeds is None:
        options.seeds = range(BUG_SEEDS if options.bugs else 200)
    return options


def _seeds(text: str) -> range:
    first, _, stop = text.rpartition(":")
    return range(int(first or 0), int(stop))


def _run(console: Console, folder: Path, seeds: Iterable[int], verbose: bool, target: Path | None) -> int:
    began_s = perf_counter()
    faults: Counter[str] = Counter()
    failures: list[Outcome] = []
    histories: dict[int, str] = {}
    simulated_s, done = 0.0, 0
    for outcome in (simulate(seed, folder) for seed in seeds):
        done += 1
        histories[outcome.seed] = outcome.digest
        simulated_s += outcome.simulated_s
        faults += outcome.counts
        if outcome.failure:
            failures.append(outcome)
        if verbose or (outcome.failure and len(failures) <= FAILURES_SHOWN):
            _print(console, outcome)
        if done % PROGRESS_SEEDS == 0:
            rate = done / (perf_counter() - began_s)
            console.print(f"{done:6,} seeds, {rate:.1f} a second, {len(failures)} failed", style="dim")
    elapsed_s = perf_counter() - began_s
    console.print(
        f"{done:,} seeds in {elapsed_s:,.1f} s ({done / elapsed_s:.1f} a second), {simulated_s / 3600:.2f} simulated hours, "
        f"{sum(faults.values()):,} faults; {len(failures)} failed"
    )
    if target is not None:
        result = {
            "seeds": done,
            "seconds": elapsed_s,
            "simulated_hours": simulated_s / 3600,
            "faults": dict(faults.most_common()),
        }
        result |= {"failed": [each.seed for each in failures], "histories": histories}
        target.write_text(json.dumps(result, indent=1))
    return int(bool(failures))


def _print(console: Console, outcome: Outcome) -> None:
    for step in outcome.steps:
        console.print(f"  {step}", style="dim", markup=False)
    verdict = f"failed: {outcome.failure}" if outcome.failure else "passed"
    console.print(f"seed {outcome.seed} {verdict}; history {outcome.digest}", markup=False)
    if outcome.failure:
        console.print(f"  replay: python -m tests.sim --seed {outcome.seed}", markup=False)


def _find_bugs(console: Console, folder: Path, names: list[str], seeds: range) -> int:
    missed = 0
    console.print("| planted bug | what is wrong | seam | first seed | found by |\n|---|---|---|---|---|", markup=False)
    for name in names:
        with planted(BUGS[name]):
            found = next((each for each in (simulate(seed, folder) for seed in seeds) if each.failure), None)
        is_stale = found is not None and found.failure.startswith(STALE)
        missed += found is None or is_stale
        verdict = "not found |" if found is None else f"{found.seed} | {found.failure.splitlines()[0][:70]}"
        if is_stale:
            verdict = f"does not fit the code any more: {verdict}"
        console.print(f"| {name} | {BUGS[name].what} | {BUGS[name].seam} | {verdict} |", markup=False)
    console.print(f"{len(names) - missed} of {len(names)} found within {len(seeds):,} seeds")
    return int(bool(missed))


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # greenlets of dead processes are not to be unwound once more
