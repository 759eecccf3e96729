"""Evaluation of candidates: validation, then a race of trainings and scores against the incumbent."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from serl.researcher.candidates import Budget, Candidate, Paired, Result
from serl.researcher.inner.contender import Contender, Report
from serl.researcher.inner.errors import IncumbentError
from serl.researcher.inner.executors import trainer
from serl.researcher.inner.ledger import Ledger
from serl.researcher.inner.made_with import require_same
from serl.researcher.inner.race import Standings, Ticket
from serl.researcher.inner.results import mean_score
from serl.researcher.inner.score import require_unseen
from serl.researcher.inner.settings import Settings
from serl.researcher.inner.worker import abandonable_pool

LEDGER = "race.json"


def ignore_stage(candidate: Candidate, stage: str) -> None:
    """Ignore reports of stages."""


def evaluate(candidate: Candidate, settings: Settings, budget: Budget, folder: Path) -> Result:
    """Validate a candidate, train it once with the budget's seed and score it, without an incumbent and without a race. Its files stay in
    `folder`, which is created; finished work there is not repeated. ConfigError if the folder's work was done with other settings or data, or
    for another candidate."""
    require_same(folder, settings, budget, candidate.key)
    one = Contender(candidate, settings, budget, folder, ignore_stage, trainer("local"))
    one.validate()
    one.run(1.0, 0)
    return one.failure or _scored("done", "", one, None, {})


def evaluate_many(
    candidates: Sequence[Candidate],
    settings: Settings,
    budget: Budget,
    folder: Path,
    workers: int = 2,
    report: Report = ignore_stage,
    on: str = "local",
    incumbent: Candidate | None = None,
) -> list[Result]:
    """Evaluate candidates by a race (race.py), `workers` trainings at a time. Returns the results in the order of the candidates.

    Each candidate has a folder in `folder`, named by its key, and so has the incumbent (by default the algorithm without modules). To continue
    candidates that have trained there before, pass them again: they race with the new ones. Finished work is not repeated. `report` is called
    from any thread when a stage begins. `on` is where training runs: this machine or a Ray cluster.

    ScoreError if scores cannot be measured; ConfigError if the settings would score hours that training has seen, or if the folder's work was done
    with other settings or data; IncumbentError if the incumbent has no score; SandboxUnavailableError if code cannot be sandboxed here.
    """
    train, against = trainer(on), incumbent or Candidate({})
    every = {one.key: one for one in (against, *candidates)}
    require_unseen(settings)
    require_same(folder, settings, budget)
    field = {
        key: Contender(one, settings, budget, folder / key, report, train, keeps_failure=key != against.key)
        for key, one in every.items()
    }
    fresh = {key for key, one in field.items() if not one.trials}
    standings = Standings(settings.race, [one for key, one in field.items() if key != against.key], field[against.key])
    with abandonable_pool(workers) as pool:
        try:
            list(pool.map(Contender.validate, field.values()))
            _race(field, standings, Ledger(folder / LEDGER, list(field)), pool)
        except BaseException:
            for one in field.values():
                one.abandon()
            raise
    outcomes = {one.key: _outcome(field[one.key], standings) for one in candidates}
    for one in candidates:
        if one.key in fresh and not field[one.key].failure:
            report(one, outcomes[one.key].stage)
    return [outcomes[one.key] for one in candidates]


def _race(field: dict[str, Contender], standings: Standings, ledger: Ledger, pool: ThreadPoolExecutor) -> None:
    """Train round by round until the race ends. Each round is recorded before it begins, so a round that was killed is finished first."""
    if not ledger.last:
        tickets = standings.next_round(0.0)
        ledger.add([*standings.of_incumbent(tickets, first=True), *tickets])
    _run(field, standings, ledger.last, pool)
    while not ledger.ended or standings.unscreened:  # a failure that is not permanent leaves nothing on disk
        tickets = standings.next_round(ledger.spent)
        needed = [*standings.of_incumbent(tickets), *tickets]
        ledger.add(needed)
        _run(field, standings, needed, pool)


def _run(
    field: dict[str, Contender], standings: Standings, tickets: Sequence[Ticket], pool: ThreadPoolExecutor
) -> None:  # fmt: skip
    """Run the trainings of a round."""

    def run(group: Sequence[Ticket]) -> None:
        for each in group:
            field[each.key].run(each.share, each.seed)

    list(pool.map(run, _in_turn(field, tickets)))
    if failure := standings.incumbent.failure:
        raise IncumbentError(
            f"expected an incumbent that can be trained and scored, got: {failure.reason}; set `incumbent`"
        )


def _in_turn(field: dict[str, Contender], tickets: Sequence[Ticket]) -> list[list[Ticket]]:
    """The tickets of a round, grouped by what must run one after the other: trainings of the same candidate and seed, which continue each other, and
    those of a child after its parent's, from whose weights it may start."""
    trained = {(each.key, each.seed) for each in tickets}

    def eldest(ticket: Ticket) -> tuple[int, str]:
        """How many generations back the eldest ancestor is that trains in this round, and its key."""
        generations, one = 0, field[ticket.key]
        while one.settings.warm_start and (one.candidate.parent, ticket.seed) in trained and generations < len(trained):
            generations, one = generations + 1, field[str(one.candidate.parent)]
        return generations, one.key

    groups: dict[tuple[str, int], list[Ticket]] = {}
    for each in sorted(tickets, key=lambda each: (eldest(each)[0], each.share)):
        groups.setdefault((eldest(each)[1], each.seed), []).append(each)
    return list(groups.values())


def _outcome(one: Contender, standings: Standings) -> Result:
    """The result of a contender after the race."""
    if one.failure and (one.fails_itself or not one.top()):
        return one.failure
    found = standings.measure(one)
    facts = {"stages": standings.stages_done(one), "open": standings.is_open(one)}
    if one is standings.incumbent or found.share == 1.0:
        return _scored("done", "", one, found, facts)
    reason = (
        f"stopped after {found.share:.0%} of the training: PA {found.difference_bps:+.2f} bps against the incumbent "
        f"[{found.low_bps:+.2f}, {found.high_bps:+.2f}], others were better"
    )
    return _scored("halved", reason, one, found, facts)


def _scored(stage: str, reason: str, one: Contender, found: Paired | None, facts: dict[str, Any]) -> Result:
    trials, top = list(one.trials.values()), one.top()
    times = {name: sum(trial.facts[name] for trial in trials) for name in ("validation_s", "training_s", "scoring_s")}
    made = {
        **times, "share": top[0].share, "seeds": len(top),
        "steps": sum(trial.facts["steps"] for trial in top), "claims": top[0].facts["claims"], **facts,
    }  # fmt: skip
    return Result(stage, reason, mean_score([trial.score for trial in top]), one.policy(), made, found)
