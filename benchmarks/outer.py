"""Iterations of the outer loop, run as `serl researcher start` runs it: the shipped configuration, 8 candidates of 200,000 static and 20,000 dynamic steps, with
racing. Needs `serl llm fetch tiny` and `serl llm unpack tiny`.

outer_iteration_s is a run of one iteration: from the first prompt until its lessons are learnt, with a training of the incumbent. The rest is of a run of four,
each of which is proposed while the one before is evaluated: the first (with the proposals of the second beside it) and the mean of the others. The target is 120 s.
The model is tuned, and served again, in outer_updates of the four, namely where scores differ by more than their noise; the limit on model_server_mib, the peak of
its servers, is 1024.
"""

import json
import os
import tempfile
import time
from pathlib import Path

from benchmarks.llm import peak_mib
from serl.researcher.outer import run
from serl.researcher.outer.config import load_config
from serl.researcher.outer.loop import Callbacks

ITERATIONS = 4
SERVER = b"serl.researcher.llm.embedded"


def figures() -> dict[str, float]:
    """Seconds, MiB and counts."""
    return {"outer_iteration_s": _run(1)["outer_first_iteration_s"]} | _run(ITERATIONS)


def _run(iterations: int) -> dict[str, float]:
    config = load_config(Path("default")).model_copy(update={"iterations": iterations})
    peaks, proposed_s = list[float](), list[float]()
    callbacks = Callbacks(
        on_proposed=lambda iteration, *_: proposed_s.append(time.perf_counter()) if iteration == 1 else None,
        on_evaluated=lambda *_: peaks.append(peak_mib(_server())),  # before a tuned model replaces it
        on_iteration=lambda _: peaks.append(peak_mib(_server())),
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        database = run.begin(folder, config, "benchmark", resume=False)
        began_s = time.perf_counter()
        run.research(config, folder, database, callbacks=callbacks)
        rows = database.rows("SELECT seconds, facts FROM iterations ORDER BY iteration")
        scored = database.one("SELECT count(*) FROM candidates WHERE score IS NOT NULL")
        database.close()
        trainings = sum(1 for _ in (folder / "candidates").glob("*/seed-*/share-*.json"))
    first_s, *later_s = (row["seconds"] for row in rows)
    updates_s = [facts["update_s"] for row in rows if "update_s" in (facts := json.loads(row["facts"]))]
    return {
        "outer_first_iteration_s": first_s,
        **({"outer_later_iteration_s": sum(later_s) / len(later_s)} if later_s else {}),
        "outer_proposals_s": proposed_s[-1] - began_s,
        "outer_updates": len(updates_s),
        **({"outer_update_s": sum(updates_s) / len(updates_s)} if updates_s else {}),
        "outer_scored_candidates": scored,
        "outer_trainings": trainings,
        "model_server_mib": max(peaks),
    }


def _server() -> int:
    """The process that serves the language model to this one."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return next(int(pid) for pid in children if SERVER in Path(f"/proc/{pid}/cmdline").read_bytes())
