"""The outer loop: propose, evaluate, learn, until it has converged or a budget is spent; a killed run goes on where it was."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serl.researcher.candidates import Candidate, Result
from serl.researcher.llm.errors import BudgetSpentError, EndpointRefusedError
from serl.researcher.outer.config import Convergence, OuterConfig
from serl.researcher.outer.database import Database
from serl.researcher.outer.prompts import INITIAL
from serl.researcher.outer.proposers import Proposer
from serl.researcher.outer.records import Evaluator, Instruction, Proposal


def followed(ema_bps: float | None, pa_bps: float, decay: float) -> float:
    """PA_ema after another iteration; it begins with the first PA."""
    return pa_bps if ema_bps is None else decay * ema_bps + (1 - decay) * pa_bps


def converged(changes_bps: list[float | None], config: Convergence) -> bool:
    """Whether PA_ema has come to rest: |change| of the last scored iteration is below the tolerance."""
    changes = [change for change in changes_bps if change is not None]
    if len(changes) + 1 < config.iterations_min or not changes:
        return False
    return abs(changes[-1]) < config.tolerance_bps


def reason_to_stop(config: OuterConfig, database: Database) -> str | None:
    """Why a run with these finished iterations is at its end; None if it is not."""
    done = database.rows("SELECT * FROM iterations ORDER BY iteration")
    if len(done) >= config.iterations:
        return f"all {config.iterations} iterations are done"
    if converged([row["change_bps"] for row in done], config.convergence):
        return f"converged: PA_ema changed by {done[-1]['change_bps'] or 0.0:+.3f} bps"
    hours = sum(row["seconds"] for row in done) / 3600
    if config.hours_max is not None and hours >= config.hours_max:
        return f"{hours:.2f} of {config.hours_max:g} hours are spent"
    if _empty(database) >= config.empty_iterations_max:
        last = database.rows("SELECT * FROM verdicts WHERE reason != 'ok' ORDER BY id DESC LIMIT 1")
        text = f"; the last verdict: {last[0]['stage']}, {last[0]['reason']}: {last[0]['text']}" if last else ""
        return f"{config.empty_iterations_max} iterations in a row had no valid candidate{text}"
    return None


def _empty(database: Database) -> int:
    """Finished iterations without a valid candidate at the end of the run so far."""
    last = database.one("SELECT max(iteration) FROM candidates WHERE key IS NOT NULL") or 0
    return max(0, database.iterations_done - int(last))


@dataclass
class Watch:
    """What an onlooker is told."""

    began: Callable[[int, int], None] = lambda iteration, slot: None
    """The proposal of a slot."""
    proposed: Callable[[int, int, Proposal], None] = lambda iteration, slot, proposal: None
    """In a slot, before it is evaluated."""
    staged: Callable[[str, str], None] = lambda key, stage: None
    """The evaluation of a candidate, from any thread."""
    evaluated: Callable[[int, int, Result], None] = lambda iteration, slot, result: None
    """What became of the candidate in a slot."""
    finished: Callable[[dict[str, Any]], None] = lambda row: None


@dataclass
class OuterLoop:
    """A run in a folder."""

    config: OuterConfig
    folder: Path
    database: Database
    proposer: Proposer
    evaluator: Evaluator
    watch: Watch = field(default_factory=Watch)
    before_iteration: Callable[[], None] = lambda: None
    """Called as an iteration begins: a served model that has died is started again."""
    clock: Callable[[], float] = time.monotonic

    def run(self) -> str:
        """Iterations until there is a reason to stop, which is returned and kept; EndpointRefusedError if the endpoint refuses from the start."""
        if self.database.one("SELECT count(*) FROM instructions") == 0:
            initial = [Instruction(kind, text, "initial") for kind in self.config.designed for text in INITIAL[kind]]
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
        begun = self.clock()
        known = self.database.slots(iteration)
        for slot in range(self.config.candidates):
            self.watch.began(iteration, slot)
            if slot not in known:
                proposal = self.proposer.propose(iteration, slot)
                self._require_endpoint(proposal)
                self.database.add_proposal(iteration, slot, proposal)
                self.watch.proposed(iteration, slot, proposal)
        model = self.proposer.model
        self._evaluate(iteration, model)
        self.database.set_performance(iteration, self.config.penalty_bps)
        lessons = self.proposer.learn(iteration)
        row = self._row(iteration, model, self.clock() - begun)
        self.database.finish(iteration, lessons, **row)
        self.watch.finished(row | {"iteration": iteration} | lessons.facts)

    def _require_endpoint(self, proposal: Proposal) -> None:
        """EndpointRefusedError if the endpoint refuses a proposal before any module of the run was valid: then key, model or parameters are
        wrong, and asking on costs time. The proposal is not kept, so that a resumed run asks for it again."""
        verdicts = [verdict for draft in proposal.drafts for verdict in draft.verdicts]
        refused = [one.text for one in verdicts if (one.stage, one.reason) == ("endpoint", "refused")]
        if proposal.candidate is None and refused and not self.database.one("SELECT count(text) FROM modules"):
            raise EndpointRefusedError(
                f"{refused[0]}; nothing was written before, so the run ends here: mend it, then go on with --resume"
            )

    def _evaluate(self, iteration: int, model: str) -> None:
        """Each set of modules once, whatever the slots and iterations in which it comes."""
        waiting = self.database.waiting(iteration)
        known = {candidate.key: self.database.result_of(candidate.key) for _, candidate in waiting}
        fresh: dict[str, Candidate] = {one.key: one for _, one in waiting if known[one.key] is None}
        folder = self.folder / "candidates" / f"{iteration:05}"
        made = self.evaluator(list(fresh.values()), folder) if fresh else []
        results: dict[str, Result] = {key: result for key, result in known.items() if result is not None}
        results |= dict(zip(fresh, made, strict=True))
        found = {slot: results[candidate.key] for slot, candidate in waiting}
        self.database.add_results(iteration, model, found)
        for slot, result in found.items():
            self.watch.evaluated(iteration, slot, result)

    def _row(self, iteration: int, model: str, seconds: float) -> dict[str, Any]:
        """PA_j is that of the iteration's best candidate; without a scored one PA_ema stays as it is."""
        pa_bps = self.database.one(
            "SELECT max(pa_bps) FROM candidates WHERE iteration = ? AND stage = 'done'", iteration
        )
        before = self.database.one("SELECT ema_bps FROM iterations ORDER BY iteration DESC LIMIT 1")
        ema = before if pa_bps is None else followed(before, pa_bps, self.config.convergence.decay)
        change = None if pa_bps is None or before is None else ema - before
        return {"model": model, "pa_bps": pa_bps, "ema_bps": ema, "change_bps": change, "seconds": seconds}
