"""One candidate in its folder: its validation, and its trainings with their scores. Work that is on disk is never repeated."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from serl.agents.learning import files
from serl.agents.learning.policy import Policy, load_policy
from serl.agents.learning.rule_policy import RulePolicy
from serl.exchange.errors import SerlError
from serl.researcher.candidates import Budget, Candidate, Result, Score
from serl.researcher.inner import claim_checks, results, rules, training
from serl.researcher.inner.errors import ScoreError, SealedError, SignalledError, UnusableError
from serl.researcher.inner.executors import Train
from serl.researcher.inner.job import WARM
from serl.researcher.inner.outcomes import is_own, require_ok
from serl.researcher.inner.results import Trial
from serl.researcher.inner.score import Permit, score
from serl.researcher.inner.settings import Settings
from serl.researcher.validation.validate import validate

FAILED, JOB, POLICY = "failed.json", "job", "policy.safetensors"
UNFILLED_MAX = 0.99
"""Share of its orders that a policy may leave to forced completion; above it, the policy counts as one that never trades."""
FILLED_LESS_MAX = 0.02
"""A policy that fills this much less of its orders than a TWAP leaves shares. PA is the price of filled shares only, so shares that nobody
takes, at prices that get worse, would cost nothing."""
Report = Callable[[Candidate, str], None]


class Contender:
    """A candidate, its trials by (share, seed), and why it failed, if it did."""

    def __init__(
        self, candidate: Candidate, settings: Settings, budget: Budget, folder: Path, report: Report, train: Train,
        scored_on: tuple[str, Permit] | None = None, keeps_failure: bool = True,
    ) -> None:  # fmt: skip
        """scored_on: the sealed part, for the final score; by default the part of the settings. keeps_failure: whether a failure is permanent.
        The final score is tried again, and so is an incumbent, because nothing else can continue without it."""
        self.candidate, self.settings, self.budget, self.folder = candidate, settings, budget, folder
        self.key, self.is_rule = candidate.key, candidate.is_rule
        self._report, self._train = report, train
        self._part: str | None = scored_on[0] if scored_on else None
        self._permit: Permit | None = scored_on[1] if scored_on else None
        self._keeps_failure, self._abandoned = keeps_failure and scored_on is None, False
        folder.mkdir(parents=True, exist_ok=True)
        self.failure = results.read(folder / FAILED) if self._keeps_failure else None
        self.fails_itself = True
        """Whether a failed candidate would surely fail again. If not, its finished trainings still count."""
        found = [results.read_trial(path) for path in sorted(folder.glob("seed-*/share-*.json"))]
        self.trials: dict[tuple[float, int], Trial] = {(one.share, one.seed): one for one in found}
        self.validation_s = 0.0

    def abandon(self) -> None:
        """Start no further work and record no failure: whatever fails from now on may fail because it was abandoned."""
        self._abandoned = True

    def _fail(self, stage: str, verdict: str, reason: str, seconds: float, *, own: bool = True) -> None:
        """own: whether another try would surely fail too."""
        facts = {"verdict": verdict, f"{stage}_s": seconds}
        self.failure, self.fails_itself = Result(stage, reason, None, None, facts), own
        if own and self._keeps_failure and not self._abandoned:
            results.write(self.failure, self.folder / FAILED)

    def validate(self) -> None:
        """Validate every module, static check and dry run, unless the candidate has trials or has failed already."""
        if self.failure or self.trials or self._abandoned:
            return
        self._report(self.candidate, "static check")
        began = time.monotonic()
        for kind, module in self.candidate.modules.items():
            found = validate(kind, module.text, module.form)
            if not found.ok:
                verdict, text = found.findings[0].reason.value, f"{kind.value}:\n{found.text}"
                own = is_own(found.sandbox_result)
                self._fail(found.stage.value, verdict, text, time.monotonic() - began, own=own)
                return
        self.validation_s = time.monotonic() - began

    def share_of(self, share: float) -> float:
        """The share of training at a stage; always 1 for a rule, which needs no training."""
        return 1.0 if self.is_rule else share

    def run(self, share: float, seed: int) -> None:
        """Train to a share of the steps with a seed, and score the policy, unless that is done already or the candidate has failed."""
        if self.failure or (share, seed) in self.trials or self._abandoned:
            return
        place, settings = self.folder / f"seed-{seed}", self.settings.of_seed(seed)
        place.mkdir(exist_ok=True)
        if not self.is_rule:
            self._report(self.candidate, "training")
        began = time.monotonic()
        try:
            policy, claims = self._make_policy(share, seed, settings, place / JOB)
        except UnusableError as error:
            own = not isinstance(error, SignalledError)
            self._fail("training", "no policy", str(error), time.monotonic() - began, own=own)
            return
        policy.save(place / POLICY)
        trained = time.monotonic()
        self._report(self.candidate, "scoring")
        try:
            found = score(policy, settings, self._part, self._permit)
        except (ScoreError, SealedError):
            raise
        except SerlError as error:
            self._fail("scoring", "no score", str(error), time.monotonic() - trained)
            return
        if gamed := _never_trades(found) or (self._keeps_failure and _leaves_shares(found)):
            self._fail("scoring", *gamed, time.monotonic() - trained)
            return
        facts = {
            "validation_s": 0.0 if self.trials else self.validation_s, "training_s": trained - began,
            "scoring_s": time.monotonic() - trained, "steps": policy.metadata["steps"], "claims": claims,
        }  # fmt: skip
        self.trials[share, seed] = Trial(share, seed, found, facts)
        results.write_trial(self.trials[share, seed], place / f"share-{share:g}.json")

    def _make_policy(
        self, share: float, seed: int, settings: Settings, job: Path
    ) -> tuple[Policy | RulePolicy, dict[str, Any]]:
        """The candidate's policy after a share of its training, and what the job claims about it. UnusableError if there is none."""
        if self.is_rule:
            return rules.rule_policy(self.candidate, self.settings, job), {}
        budget = dataclasses.replace(self.budget, seed=self.budget.seed + seed)
        if settings.warm_start and self.candidate.parent:
            write_warm(self.folder.parent / self.candidate.parent / f"seed-{seed}" / POLICY, job)
        job_result = self._train(self.candidate, settings, budget, share, job)
        require_ok(job_result, "training")
        policy = training.policy_of(job_result, self.candidate, settings, budget, job)
        return policy, claim_checks.facts(job_result.value)

    def top(self) -> list[Trial]:
        """The trials at the largest share that the first seed has, with seeds 0, 1, ... up to the first gap; empty without a trial of the first
        seed, which a signal may have ended while another seed went on."""
        share = max((share for share, seed in self.trials if seed == 0), default=0.0)
        return self.at(share, sum(found == share for found, _ in self.trials))

    def at(self, share: float, seeds: int) -> list[Trial]:
        """The trials at a share with seeds 0, 1, ... below `seeds`, up to the first gap."""
        found: list[Trial] = []
        while len(found) < seeds and (share, len(found)) in self.trials:
            found.append(self.trials[share, len(found)])
        return found

    def has(self, tickets: Sequence[tuple[float, int]]) -> bool:
        """Whether the candidate has all these trials."""
        return all(ticket in self.trials for ticket in tickets)

    def policy(self) -> str | None:
        """Path of the policy of the first seed: choosing the seed that scored best would choose luck."""
        path = self.folder / "seed-0" / POLICY
        return str(path) if path.exists() and not (self.failure and self.fails_itself) else None


def write_warm(policy: Path, job: Path) -> None:
    """Write the weights of a parent's policy into a job's folder, once. Does nothing if the parent has no policy of this seed, or is a rule."""
    if not policy.exists() or (job / WARM).exists():
        return
    found = load_policy(policy)
    if isinstance(found, Policy):
        job.mkdir(mode=0o700, exist_ok=True)
        files.write(job / WARM, "network", dict(found.network.state_dict()), {})


def _never_trades(found: Score) -> tuple[str, str] | None:
    """(verdict, text) for a policy that leaves everything to forced completion."""
    if found.unfilled <= UNFILLED_MAX:
        return None
    text = f"the policy never trades: {found.unfilled:.0%} of its orders are left to forced completion at the end; trade within the window"
    return "never trades", text


def _leaves_shares(found: Score) -> tuple[str, str] | None:
    """(verdict, text) for a policy whose orders the market cannot fill at the end. Not applied to an incumbent, which every comparison needs."""
    filled, of_twap = found.filled, found.twap_filled
    if filled is None or of_twap is None or filled >= of_twap - FILLED_LESS_MAX:
        return None
    text = (
        f"the policy leaves shares: {filled:.0%} of its orders are filled, forced completion included, where a TWAP fills {of_twap:.0%}; "
        "trade more of them earlier"
    )
    return "leaves shares", text
