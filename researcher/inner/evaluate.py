"""Evaluation of candidates: validation, training and score, with successive halving over many candidates.

Successive halving (Jamieson and Talwalkar 2016, arXiv 1502.07943): all train for the first share of the steps and are scored; the best continue.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from serl.agents.learning.policy import Policy
from serl.agents.learning.rule_policy import RulePolicy
from serl.exchange.errors import SerlError
from serl.researcher.candidates import Budget, Candidate, Result
from serl.researcher.inner import results, rules, training
from serl.researcher.inner.errors import ScoreError
from serl.researcher.inner.executors import ExecutorName, Train, trainer
from serl.researcher.inner.score import score
from serl.researcher.inner.settings import Settings
from serl.researcher.inner.worker import abandon
from serl.researcher.validation.validate import validate

RESULT, JOB, POLICY = "result.json", "job", "policy.safetensors"
Report = Callable[[Candidate, str], None]


def ignore_stage(candidate: Candidate, stage: str) -> None:
    """Ignore reports of stages."""


def evaluate(candidate: Candidate, settings: Settings, budget: Budget, folder: Path) -> Result:
    """Evaluate one candidate through all stages. Its files stay in `folder`, which is created; finished work there is not repeated."""
    return evaluate_many([candidate], settings.model_copy(update={"rungs": (1.0,)}), budget, folder, 1)[0]


def evaluate_many(
    candidates: Sequence[Candidate],
    settings: Settings,
    budget: Budget,
    folder: Path,
    workers: int = 2,
    report: Report = ignore_stage,
    on: ExecutorName = "local",
) -> list[Result]:
    """Evaluate candidates by successive halving over `settings.rungs`, `workers` at a time; results in the order of the candidates.

    Each has a folder in `folder`, named by its key. Finished work there is not repeated, and training continues from its last checkpoint.
    `report` is called when a stage begins, from any thread. `on` is where training runs: this machine or a Ray cluster. ScoreError if
    scores cannot be measured; SandboxUnavailableError if code cannot be sandboxed here.
    """
    train = trainer(on)
    runs = {one.key: _Evaluation(one, settings, budget, folder / one.key, report, train) for one in candidates}
    with ThreadPoolExecutor(workers) as pool:
        try:
            _successive_halving(list(runs.values()), settings, pool)
        except BaseException:  # including Ctrl-C: do not wait for running jobs
            abandon()
            raise
    return [runs[one.key].finish() for one in candidates]


def _successive_halving(runs: "list[_Evaluation]", settings: Settings, pool: ThreadPoolExecutor) -> None:
    """Validate all candidates, then train and score them rung by rung."""
    remaining = [run for run, ok in zip(runs, pool.map(_Evaluation.is_valid, runs), strict=True) if ok]
    for rung, share in enumerate(settings.rungs):
        list(pool.map(partial(_Evaluation.run_rung, rung=rung, share=share), remaining))
        remaining = [run for run in remaining if run.result.score is not None]
        if share < 1:
            remaining = _keep_best(remaining, settings.kept)


def _keep_best(runs: "list[_Evaluation]", kept: float) -> "list[_Evaluation]":
    """The runs with the best scores; stops the others."""
    ranked = sorted(runs, key=lambda run: run.result.score.pa_bps if run.result.score else -math.inf, reverse=True)
    count = max(1, math.ceil(kept * len(ranked)))
    for run in ranked[count:]:
        run.stop_early()
    return ranked[:count]


class _Evaluation:
    """The evaluation of one candidate. `result` is its state so far."""

    def __init__(
        self, candidate: Candidate, settings: Settings, budget: Budget, folder: Path, report: Report, train: Train
    ) -> None:
        self.candidate, self.settings, self.budget, self.folder = candidate, settings, budget, folder
        self._report, self._train = report, train
        folder.mkdir(parents=True, exist_ok=True)
        self._finished = results.read(folder / RESULT)
        self.result = self._finished or Result("static check", "", None, None, {})

    def _report_stage(self, stage: str) -> None:
        self._report(self.candidate, stage)

    def _fail(self, stage: str, reason: str, seconds: float) -> None:
        facts = {**self.result.facts, f"{stage}_s": seconds}
        self.result = Result(stage, reason, None, None, facts)
        self.finish()

    def is_valid(self) -> bool:
        """Validate every module, static check and dry run. False if a module is invalid or the evaluation has finished before."""
        if self._finished:
            return False
        self._report_stage("static check")
        began = time.monotonic()
        for kind, module in self.candidate.modules.items():
            found = validate(kind, module.text, module.form)
            if not found.ok:
                self._fail(found.stage.value, f"{kind.value}:\n{found.text}", time.monotonic() - began)
                return False
        self.result = Result("training", "", None, None, {"validation_s": time.monotonic() - began})
        return True

    def run_rung(self, rung: int, share: float) -> None:
        """Train up to a share of the steps and score. A rung that is on disk is not repeated."""
        path = self.folder / f"rung-{rung}.json"
        known = results.read(path)
        if known:
            self.result = known
            return
        if rules.is_rule(self.candidate) and self.result.score:  # more training changes nothing
            self.result = dataclasses.replace(self.result, facts={**self.result.facts, "share": share})
        else:
            self._train_and_score(share)
        if self.result.score:
            results.write(self.result, path)

    def _train_and_score(self, share: float) -> None:
        self._report_stage("training")
        began = time.monotonic()
        try:
            policy, claims = self._make_policy(share)
        except training.UnusableError as error:
            self._fail("training", str(error), time.monotonic() - began)
            return
        policy.save(self.folder / POLICY)
        trained = time.monotonic()
        self._report_stage("scoring")
        try:
            found = score(policy, self.settings)
        except ScoreError:
            raise
        except SerlError as error:
            self._fail("scoring", str(error), time.monotonic() - trained)
            return
        before = self.result.facts
        facts = {
            "validation_s": before.get("validation_s", 0.0), "training_s": before.get("training_s", 0.0) + trained - began,
            "scoring_s": before.get("scoring_s", 0.0) + time.monotonic() - trained, "share": share,
            "steps": policy.metadata["steps"], "claims": claims,
        }  # fmt: skip
        self.result = Result("done", "", found, str(self.folder / POLICY), facts)

    def _make_policy(self, share: float) -> tuple[Policy | RulePolicy, dict[str, Any]]:
        """The candidate's policy after a share of its training, and what the job claims about it. UnusableError if there is none."""
        job = self.folder / JOB
        if rules.is_rule(self.candidate):
            return rules.rule_policy(self.candidate, self.settings, job), {}
        job_result = self._train(self.candidate, self.settings, self.budget, share, job)
        if not job_result.ok:
            raise training.UnusableError(f"training {job_result.outcome.value}: {job_result.text}")
        policy = training.policy_of(job_result, self.candidate, self.settings, self.budget, job)
        return policy, {name: job_result.value.get(name) for name in ("curve", "ready_s", "train_s")}

    def stop_early(self) -> None:
        """Stop the candidate early; it keeps the score of its last rung."""
        found, share = self.result.score, self.result.facts["share"]
        reason = (
            f"stopped after {share:.0%} of the training: PA {found.pa_bps:+.2f} bps, others were better"
            if found
            else ""
        )
        self.result = Result("halved", reason, found, self.result.policy, self.result.facts)
        self._report_stage("halved")
        self.finish()

    def finish(self) -> Result:
        """Write the result once and return it."""
        if not self._finished:
            self._finished = self.result
            results.write(self.result, self.folder / RESULT)
            if self.result.stage == "done":
                self._report_stage("done")
        return self._finished
