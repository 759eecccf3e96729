"""What a candidate is worth: validation, training, score; and of many candidates which are worth the whole training.

Successive halving (Jamieson and Talwalkar 2016, arXiv 1502.07943): all train for the first share of the steps and are scored; the better ones go on.
"""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from serl.exchange.errors import SerlError
from serl.researcher.candidates import Budget, Candidate, Result
from serl.researcher.inner import results, training
from serl.researcher.inner.errors import ScoreError
from serl.researcher.inner.executors import On, Train, trainer
from serl.researcher.inner.score import score
from serl.researcher.inner.settings import Settings
from serl.researcher.inner.worker import abandon
from serl.researcher.validation.findings import Stage
from serl.researcher.validation.validate import validate

RESULT, JOB, POLICY = "result.json", "job", "policy.safetensors"
Report = Callable[[Candidate, str], None]


def silent(candidate: Candidate, stage: str) -> None:
    """Tells nobody."""


def evaluate(candidate: Candidate, settings: Settings, budget: Budget, folder: Path) -> Result:
    """All stages of one candidate; its files are left in `folder`, which is made. What is finished there is not done again."""
    return evaluate_many([candidate], settings.model_copy(update={"rungs": (1.0,)}), budget, folder, 1)[0]


def evaluate_many(
    candidates: Sequence[Candidate],
    settings: Settings,
    budget: Budget,
    folder: Path,
    workers: int = 2,
    report: Report = silent,
    on: On = "local",
) -> list[Result]:
    """All stages of candidates, in their order, by successive halving over `settings.rungs`; `workers` at a time. Each has a folder of
    its key's name in `folder`; what is finished there is not done again, and training goes on where its last checkpoint is. `report` is
    told when a stage begins, from any thread. Training is done `on` this machine or a Ray cluster. ScoreError if scores cannot be measured; SandboxUnavailableError where code cannot be confined.
    """
    train = trainer(on)
    runs = {one.key: _Run(one, settings, budget, folder / one.key, report, train) for one in candidates}
    with ThreadPoolExecutor(workers) as pool:
        try:
            _race(list(runs.values()), settings, pool)
        except BaseException:  # Ctrl-C among them: what is being trained is not waited for
            abandon()
            raise
    return [runs[one.key].finish() for one in candidates]


def _race(runs: "list[_Run]", settings: Settings, pool: ThreadPoolExecutor) -> None:
    """Validation, then rung by rung."""
    left = [run for run, ok in zip(runs, pool.map(_Run.valid, runs), strict=True) if ok]
    for rung, share in enumerate(settings.rungs):
        list(pool.map(partial(_Run.climb, rung=rung, share=share), left))
        left = [run for run in left if run.now.score is not None]
        if share < 1:
            left = _better(left, settings.kept)


def _better(runs: "list[_Run]", kept: float) -> "list[_Run]":
    """Those with the best scores."""
    ranked = sorted(runs, key=lambda run: run.now.score.pa_bps if run.now.score else -math.inf, reverse=True)
    count = max(1, math.ceil(kept * len(ranked)))
    for run in ranked[count:]:
        run.halve()
    return ranked[:count]


class _Run:
    """One candidate on its way. `now` is what is known of it."""

    def __init__(
        self, candidate: Candidate, settings: Settings, budget: Budget, folder: Path, report: Report, train: Train
    ) -> None:
        self.candidate, self.settings, self.budget, self.folder = candidate, settings, budget, folder
        self._report, self._train = report, train
        folder.mkdir(parents=True, exist_ok=True)
        self._finished = results.read(folder / RESULT)
        self.now = self._finished or Result("reading", "", None, None, {})

    def _tell(self, stage: str) -> None:
        self._report(self.candidate, stage)

    def _fail(self, stage: str, reason: str, seconds: float) -> None:
        facts = {**self.now.facts, f"{stage}_s": seconds}
        self.now = Result(stage, reason, None, None, facts)
        self.finish()

    def valid(self) -> bool:
        """Both stages of validation, of every module; False if it is finished already."""
        if self._finished:
            return False
        self._tell("reading")
        began = time.monotonic()
        for kind, module in self.candidate.modules.items():
            found = validate(kind, module.text, module.form)
            if not found.ok:
                stage = "reading" if found.stage is Stage.READ else "trial"
                self._fail(stage, f"{kind.value}:\n{found.text}", time.monotonic() - began)
                return False
        self.now = Result("training", "", None, None, {"validation_s": time.monotonic() - began})
        return True

    def climb(self, rung: int, share: float) -> None:
        """Trains up to a share of the steps and takes the score; a rung that was climbed before is not climbed again."""
        path = self.folder / f"rung-{rung}.json"
        known = results.read(path)
        if known:
            self.now = known
            return
        self._learn(share)
        if self.now.score:
            results.write(self.now, path)

    def _learn(self, share: float) -> None:
        self._tell("training")
        began = time.monotonic()
        job = self.folder / JOB
        verdict = self._train(self.candidate, self.settings, self.budget, share, job)
        try:
            if not verdict.ok:
                raise training.UnusableError(f"training {verdict.outcome.value}: {verdict.text}")
            policy = training.policy_of(verdict, self.candidate, self.settings, self.budget, job)
        except training.UnusableError as error:
            self._fail("training", str(error), time.monotonic() - began)
            return
        policy.save(self.folder / POLICY)
        trained = time.monotonic()
        self._tell("scoring")
        try:
            found = score(policy, self.settings)
        except ScoreError:
            raise
        except SerlError as error:
            self._fail("scoring", str(error), time.monotonic() - trained)
            return
        before = self.now.facts
        facts = {
            "validation_s": before.get("validation_s", 0.0), "training_s": before.get("training_s", 0.0) + trained - began,
            "scoring_s": before.get("scoring_s", 0.0) + time.monotonic() - trained, "share": share,
            "steps": policy.metadata["steps"], "claims": {name: verdict.value.get(name) for name in ("curve", "ready_s", "train_s")},
        }  # fmt: skip
        self.now = Result("done", "", found, str(self.folder / POLICY), facts)

    def halve(self) -> None:
        """Stops it as hopeless; its score is that of the last rung."""
        found, share = self.now.score, self.now.facts["share"]
        reason = (
            f"stopped after {share:.0%} of the training: PA {found.pa_bps:+.2f} bps, others were better"
            if found
            else ""
        )
        self.now = Result("halved", reason, found, self.now.policy, self.now.facts)
        self._tell("halved")
        self.finish()

    def finish(self) -> Result:
        """Writes the result down, once."""
        if not self._finished:
            self._finished = self.now
            results.write(self.now, self.folder / RESULT)
            if self.now.stage == "done":
                self._tell("done")
        return self._finished
