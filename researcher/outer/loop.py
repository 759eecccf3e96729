"""The outer loop: propose, evaluate, learn, until convergence or a spent budget. A killed run can be resumed."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serl.researcher.candidates import Candidate, Result
from serl.researcher.llm.errors import BudgetSpentError, EndpointRefusedError
from serl.researcher.outer.background import BackgroundProposals
from serl.researcher.outer.config import Convergence, OuterConfig
from serl.researcher.outer.database import BEST, Database
from serl.researcher.outer.prompts import INITIAL
from serl.researcher.outer.proposers import Proposer
from serl.researcher.outer.records import Evaluator, Instruction, Proposal

CANDIDATES = "candidates"
"""The folder of the evaluations, within the run's folder."""


def ema(ema_bps: float | None, pa_bps: float, decay: float) -> float:
    """PA_ema after another iteration; the first PA initialises it."""
    return pa_bps if ema_bps is None else decay * ema_bps + (1 - decay) * pa_bps


def converged(changes_bps: list[float | None], config: Convergence) -> bool:
    """Whether the last |change| of PA_ema is below the tolerance, after at least `iterations_min` scored iterations."""
    changes = [change for change in changes_bps if change is not None]
    if len(changes) + 1 < config.iterations_min or not changes:
        return False
    return abs(changes[-1]) < config.tolerance_bps


def reason_to_stop(config: OuterConfig, database: Database) -> str | None:
    """Why a run must stop after its finished iterations; None if it may continue."""
    if reason := reached(config, database):
        return reason
    return "the test part was opened for the final score, which ends a run" if final_begun(database) else None


def final_begun(database: Database) -> bool:
    """Whether the test part was opened, even if there is no result yet."""
    return any(database.fact(name) is not None for name in ("test", "test_opened"))


def reached(config: OuterConfig, database: Database) -> str | None:
    """The limit of the settings that a run has reached; None if it has reached none."""
    done = database.rows("SELECT * FROM iterations ORDER BY iteration")
    if len(done) >= config.iterations:
        return f"all {config.iterations} iterations are done" if config.iterations > 1 else "its iteration is done"
    if converged([row["change_bps"] for row in done], config.convergence):
        return f"converged: PA_ema changed by {done[-1]['change_bps'] or 0.0:+.3f} bps"
    hours = sum(row["seconds"] for row in done) / 3600
    if config.hours_max is not None and hours >= config.hours_max:
        return f"{hours:.2f} of {config.hours_max:g} hours are spent"
    if _empty(database, config) >= config.empty_iterations_max:
        last = database.rows("SELECT * FROM verdicts WHERE reason != 'ok' ORDER BY id DESC LIMIT 1")
        text = f"; the last verdict: {last[0]['stage']}, {last[0]['reason']}: {last[0]['text']}" if last else ""
        return f"{config.empty_iterations_max} iterations in a row had no valid candidate{text}"
    return None


def _empty(database: Database, config: OuterConfig) -> int:
    """Number of latest finished iterations in a row without a valid proposal; the incumbent does not count as one."""
    last = (
        database.one("SELECT max(iteration) FROM candidates WHERE key IS NOT NULL AND slot < ?", config.candidates) or 0
    )
    return max(0, database.iterations_done - int(last))


@dataclass
class Callbacks:
    """Callbacks of the outer loop, for progress display. By default they do nothing."""

    on_proposing: Callable[[int, int], None] = lambda iteration, slot: None
    """(iteration, slot), before a proposal is made."""
    on_proposed: Callable[[int, int, Proposal], None] = lambda iteration, slot, proposal: None
    """(iteration, slot, proposal), before its evaluation."""
    on_stage: Callable[[str, str], None] = lambda key, stage: None
    """(key of the candidate, stage), when a stage of evaluation begins; from any thread."""
    on_evaluated: Callable[[int, int, Result], None] = lambda iteration, slot, result: None
    """(iteration, slot, result)."""
    on_iteration: Callable[[dict[str, Any]], None] = lambda row: None
    """(figures of the iteration), after it has finished."""


@dataclass
class OuterLoop:
    """The loop of one run, with its folder and database."""

    config: OuterConfig
    folder: Path
    database: Database
    proposer: Proposer
    evaluator: Evaluator
    callbacks: Callbacks = field(default_factory=Callbacks)
    before_iteration: Callable[[], None] = lambda: None
    """Called before each iteration; restarts a served model that has died."""
    beside_first: Callable[[], AbstractContextManager[None]] = nullcontext
    """Surrounds the first proposals, and does work in parallel to them."""
    clock: Callable[[], float] = time.monotonic

    def run(self) -> str:
        """Run iterations until there is a reason to stop; store and return the reason. EndpointRefusedError if the endpoint rejects the first
        requests."""
        if self.database.one("SELECT count(*) FROM instructions") == 0:
            initial = [
                Instruction(kind, text, "initial") for kind in self.config.module_kinds for text in INITIAL[kind]
            ]
            self.database.add_instructions(0, initial)
        try:
            while (reason := reason_to_stop(self.config, self.database)) is None:
                self.before_iteration()
                self._iterate(self.database.iterations_done + 1)
        except BudgetSpentError as error:
            reason = f"the budget of the language model is spent: {error}"
        self.database.set_fact("stopped", reason)
        return reason

    def _iterate(self, iteration: int) -> None:
        began = self.clock()
        is_first = iteration == 1 and len(self.database.slots(1)) < self.config.candidates
        with self.beside_first() if is_first else nullcontext():
            self._propose(iteration)
        model = self.database.model_of(iteration) or self.proposer.model
        last = min(iteration + self.config.lag, self.config.iterations)
        ahead = BackgroundProposals(self._propose, range(iteration + 1, last + 1))
        try:
            results, raced = self._evaluate(iteration)
            ahead.wait()  # the steps below change the models and what proposals know; a late proposal must not know more than an early one
        except BaseException:
            ahead.abandon()
            raise
        self.database.add_results(iteration, model, results, raced)
        for slot, result in results.items():
            self.callbacks.on_evaluated(iteration, slot, result)
        self.database.set_performance(iteration, self.config.penalty_bps)
        lessons = self.proposer.learn(iteration)
        row = self._row(iteration, model, self.clock() - began)
        self.database.finish(iteration, lessons, **row)
        self.callbacks.on_iteration(row | {"iteration": iteration} | lessons.facts)
        ahead.raise_error()

    def _propose(self, iteration: int) -> None:
        """Propose and store the candidates of an iteration that are not stored yet."""
        known = self.database.slots(iteration)
        for slot in range(self.config.candidates):
            self.callbacks.on_proposing(iteration, slot)
            if slot not in known:
                proposal = self.proposer.propose(iteration, slot)
                self._require_endpoint(proposal)
                self.database.add_proposal(iteration, slot, proposal)
                self.callbacks.on_proposed(iteration, slot, proposal)
        if iteration == 1 and self.config.candidates not in known:
            self._add_incumbent()

    def _add_incumbent(self) -> None:
        """Store the incumbent in_background the proposals of iteration 1, which keep their slots and seeds."""
        slot, incumbent = self.config.candidates, Proposal(self.config.incumbent_candidate)
        self.database.add_proposal(1, slot, incumbent)
        self.callbacks.on_proposed(1, slot, incumbent)

    def _require_endpoint(self, proposal: Proposal) -> None:
        """Raise EndpointRefusedError if an endpoint rejects a request before the run has any module of its model: the key, model or parameters are
        wrong. The proposal is not stored, so a resumed run repeats it."""
        verdicts = [verdict for draft in proposal.drafts for verdict in draft.verdicts]
        refused = [one for one in verdicts if (one.stage, one.reason) == ("endpoint", "refused")]
        if refused and not self.database.one("SELECT count(text) FROM modules WHERE model = ?", refused[0].model):
            raise EndpointRefusedError(
                f"{refused[0].text}; the run ends because it has no module yet: fix the cause, then continue with --resume"
            )

    def _evaluate(self, iteration: int) -> tuple[dict[int, Result], dict[str, Result]]:
        """Evaluate pending candidates without storing anything. Returns their results by slot, and by key the results of earlier candidates, which
        race with the new ones. Each set of modules is evaluated once per run."""
        waiting = self.database.pending(iteration)
        known = {candidate.key: self.database.result_of(candidate.key) for _, candidate in waiting}
        fresh: dict[str, Candidate] = {one.key: one for _, one in waiting if known[one.key] is None}
        earlier = {one.key: one for one in self.database.raced()} if fresh else {}
        racing = [*fresh.values(), *earlier.values()]
        made = self.evaluator(racing, self.folder / CANDIDATES) if fresh else []
        results: dict[str, Result] = {key: result for key, result in known.items() if result is not None}
        results |= dict(zip([one.key for one in racing], made, strict=True))
        return {slot: results[candidate.key] for slot, candidate in waiting}, {key: results[key] for key in earlier}

    def _row(self, iteration: int, model: str, seconds: float) -> dict[str, Any]:
        """The figures of an iteration. PA_j is that of its best candidate; without a score, PA_ema is unchanged."""
        pa_bps = self.database.one(
            f"SELECT pa_bps FROM candidates WHERE iteration = ? AND stage = 'done' ORDER BY {BEST}", iteration
        )
        before = self.database.one("SELECT ema_bps FROM iterations ORDER BY iteration DESC LIMIT 1")
        ema_bps = before if pa_bps is None else ema(before, pa_bps, self.config.convergence.decay)
        change = None if pa_bps is None or before is None else ema_bps - before
        return {"model": model, "pa_bps": pa_bps, "ema_bps": ema_bps, "change_bps": change, "seconds": seconds}
