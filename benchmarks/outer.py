"""Iterations of the outer loop: the shipped configuration, 8 candidates of 200,000 static and 20,000 dynamic steps, with racing.

The first lasts from the first prompt until the tuned model is served (needs `serl llm fetch tiny` and `serl llm unpack tiny`), and trains the incumbent as well.
Later ones are proposed while the iteration before is evaluated: outer_later_iteration_s is the mean of the second and the third of a run. The target of both is
120 s; the limit on model_server_mib, the peak of the server before and after the update, is 1024.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.llm import peak_mib
from serl.researcher.candidates import Candidate, Result
from serl.researcher.outer import run
from serl.researcher.outer.config import load_config
from serl.researcher.outer.loop import OuterLoop


def figures() -> dict[str, float]:
    """Seconds, MiB, and the number of scored candidates."""
    return _first() | _later()


def _later() -> dict[str, float]:
    config = load_config(Path("default")).model_copy(update={"iterations": 3})
    with tempfile.TemporaryDirectory() as name:
        database = run.begin(Path(name), config, "benchmark", resume=False)
        run.research(config, Path(name), database)
        seconds = [row["seconds"] for row in database.rows("SELECT seconds FROM iterations ORDER BY iteration")]
        database.close()
    return {"outer_later_iteration_s": sum(seconds[1:]) / 2}


def _first() -> dict[str, float]:
    config = load_config(Path("default")).model_copy(update={"iterations": 1})
    with tempfile.TemporaryDirectory() as name:
        folder, peaks = Path(name), list[float]()
        database = run.begin(folder, config, "benchmark", resume=False)
        evaluator = run.make_evaluator(config, folder)
        began = time.perf_counter()
        with run.open_proposer(config, folder, database) as (proposer, served):
            assert served is not None
            first, times = served.pid, list[float]()

            def evaluate(candidates: Sequence[Candidate], place: Path) -> list[Result]:
                if candidates == [config.incumbent_candidate]:
                    return evaluator(candidates, place)
                times.append(time.perf_counter())
                peaks.append(peak_mib(served.pid))  # before the tuned model replaces it
                found = evaluator(candidates, place)
                times.append(time.perf_counter())
                return found

            loop = OuterLoop(config, folder, database, proposer, evaluate)
            loop.beside_first = run.incumbent_training(config, folder, evaluate)
            loop.run()
            ended = time.perf_counter()
            assert served.pid != first, "the tuned model was not served"
            peaks.append(peak_mib(served.pid))
        scored = database.one("SELECT count(*) FROM candidates WHERE score IS NOT NULL")
        trainings = sum(1 for _ in (folder / "candidates").glob("*/seed-*/share-*.json"))
        database.close()
    return {
        "outer_iteration_s": ended - began, "outer_proposals_s": times[0] - began, "outer_evaluation_s": times[1] - times[0],
        "outer_update_s": ended - times[1], "outer_scored_candidates": scored, "outer_trainings": trainings, "model_server_mib": max(peaks),
    }  # fmt: skip
