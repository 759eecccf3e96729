"""The final score: the best candidate and the incumbent, trained on fresh seeds and compared on the test part, once in a run."""

import dataclasses
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from serl.agents.execution.data import TEST
from serl.researcher.candidates import Candidate
from serl.researcher.inner.paired import paired
from serl.researcher.inner.results import mean_score
from serl.researcher.outer.config import OuterConfig
from serl.researcher.outer.data import data_of, require_same_data
from serl.researcher.outer.database import BEST, Database, modules_of
from serl.researcher.outer.errors import RunError
from serl.researcher.outer.history import with_history
from serl.researcher.outer.run_lock import lock_run

FRESH_SEEDS = 1_000_000
"""Distance of the seeds of the final trainings from those of the search."""


def score_test(database: Database, config: OuterConfig) -> None:
    """Train the best candidate and the incumbent on fresh seeds and all training days, score both on the test part, and store the result.

    The time at which the test part is opened is recorded first. If the command is killed, the same call finishes what it began.
    RunError if the test part was scored before, there is no candidate to score, or another process works on the run.
    """
    with lock_run(database.folder):
        _score_once(database, config)


def _score_once(database: Database, config: OuterConfig) -> None:
    """`score_test`, for the only process at work on the run."""
    if (found := database.fact("test")) is not None:
        raise RunError(
            f"the test part was scored already: {final_line(found)}; a second score would not be on unseen orders: omit --final"
        )
    rows = database.rows(
        f"SELECT * FROM candidates WHERE stage = 'done' AND policy IS NOT NULL ORDER BY {BEST} LIMIT 1"
    )
    if not rows:
        raise RunError("no candidate has a trained policy to score on the test part; let the run finish an iteration")
    place = {name: rows[0][name] for name in ("iteration", "slot", "key")}
    require_same_data(database, data_of(config.inner))
    opened = database.fact("test_opened") or {**place, "time": _now()}
    if opened["key"] != place["key"]:
        raise RunError(
            f"the test part was opened for candidate {opened['key']}, now {place['key']} is best; the run cannot have another final score"
        )
    database.set_fact("test_opened", opened)
    measured = _compare(Candidate(modules_of(rows[0]["modules"])), database, config)
    database.set_fact("test", {**place, "opened": opened["time"], "closed": _now(), **measured})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _compare(best: Candidate, database: Database, config: OuterConfig) -> dict[str, Any]:
    """The mean scores on the test part and the paired difference. Imports PyTorch, which a report without a final score does not need."""
    from serl.researcher.inner.contender import Contender
    from serl.researcher.inner.executors import trainer
    from serl.researcher.inner.score import Permit
    from serl.researcher.inner.worker import abandonable_pool

    settings = with_history(config.inner, database.folder).model_copy(update={"folds": 0})
    budget = dataclasses.replace(config.budget, seed=config.budget.seed + FRESH_SEEDS)
    seeds, train, permit = range(config.inner.race.final_seeds), trainer(config.train_on), Permit()
    one, other = (
        Contender(each, settings, budget, database.folder / "final" / name, lambda *_: None, train, (TEST, permit))
        for name, each in (("best", best), ("incumbent", config.incumbent_candidate))
    )
    tickets = [(each, seed) for seed in seeds for each in (one, other)]
    with abandonable_pool(config.workers) as pool:
        list(pool.map(lambda ticket: ticket[0].run(1.0, ticket[1]), tickets))
    for each in (one, other):
        if each.failure:
            raise RunError(
                f"the final training failed: {each.failure.reason}; the test part counts as opened; the same command tries again"
            )
    own, theirs = ([trial.score for trial in each.at(1.0, len(seeds))] for each in (one, other))
    difference = paired(own, theirs, 1.0, trained=not (one.is_rule and other.is_rule))
    stored = {"advantages_bps": (), "clusters": (), "controls_bps": ()}
    return {
        "score": asdict(mean_score(own)) | stored, "incumbent": asdict(mean_score(theirs)) | stored, "paired": asdict(difference),
    }  # fmt: skip


def final_line(found: dict[str, Any]) -> str:
    """The result on the test part on one line."""
    line = f"PA {found['score']['pa_bps']:+.2f} bps"
    if difference := found.get("paired"):
        line += (
            f", {difference['difference_bps']:+.2f} bps [{difference['low_bps']:+.2f}, {difference['high_bps']:+.2f}] against the incumbent, "
            f"{difference['seeds']} seeds"
        )
    return f"{line}, on {found['closed']}" if "closed" in found else line
