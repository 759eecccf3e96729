"""What is kept of failures: those of the candidate itself, and none that may come from outside."""

import dataclasses
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from serl.exchange.errors import ConfigError
from serl.researcher.candidates import Budget, Candidate, Module, Score
from serl.researcher.errors import ResearcherError
from serl.researcher.inner import contender, evaluate, results, training, worker
from serl.researcher.inner.contender import FAILED, POLICY, Contender
from serl.researcher.inner.errors import IncumbentError, ScoreError, SignalledError
from serl.researcher.inner.evaluate import evaluate_many, ignore_stage
from serl.researcher.inner.job import WARM
from serl.researcher.inner.race_config import Race, Stage
from serl.researcher.inner.score import Permit
from serl.researcher.inner.settings import STATIC, Settings
from serl.researcher.modules.contracts import Kind
from serl.researcher.sandbox import run as sandbox
from serl.researcher.sandbox.errors import SandboxUnavailableError
from serl.researcher.sandbox.job_result import JobResult, Outcome
from serl.researcher.validation.findings import Finding, Reason, Report
from serl.researcher.validation.findings import Stage as Stages
from tests.researcher.inner.test_score import random_policy

REWARD = Candidate({Kind.REWARD: Module("spec", "{}")})
SLOW = Candidate({Kind.POLICY: Module("code", "import time\ntime.sleep(60)\n")})
SCORE = Score(1.0, 0.0, 2.0, 0.0, 4, 1.0, 0.0, 0.0, (1.0,) * 4, tuple(range(4)), (0.0,) * 4)


def entered(folder: Path, outcome: Outcome, **options: Any) -> Contender:
    """A contender whose training ends in this outcome."""
    return Contender(
        REWARD, Settings(), Budget(), folder, ignore_stage, lambda *_: JobResult(outcome, "why"), **options
    )


@pytest.mark.parametrize(
    ("outcome", "options", "kept"),
    [
        (Outcome.CRASHED, {}, True),
        (Outcome.SIGNALLED, {}, False),
        (Outcome.CRASHED, {"keeps_failure": False}, False),
        (Outcome.CRASHED, {"scored_on": ("test", Permit())}, False),
    ],
)
def test_only_a_candidates_own_failure_is_kept(
    outcome: Outcome, options: dict[str, Any], kept: bool, tmp_path: Path
) -> None:
    one = entered(tmp_path, outcome, **options)
    one.run(1.0, 0)
    assert one.failure is not None and one.failure.reason == f"training {outcome.value}: why"
    assert (entered(tmp_path, outcome, **options).failure is not None) is kept


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.SIGNALLED])
def test_the_policy_of_a_candidate_that_failed_itself_is_not_used(outcome: Outcome, tmp_path: Path) -> None:
    """It is that of a smaller share of the training."""
    one, file = entered(tmp_path, outcome), tmp_path / "seed-0" / POLICY
    assert one.policy() is None
    file.parent.mkdir()
    file.touch()
    assert one.policy() == str(file)
    one.run(1.0, 0)
    assert one.policy() == (None if outcome is Outcome.CRASHED else str(file))


def test_each_seed_is_a_training_of_its_own(tmp_path: Path) -> None:
    seeds = list[int]()

    def train(_candidate: Candidate, _settings: Settings, budget: Budget, *_: Any) -> JobResult:
        seeds.append(budget.seed)
        return JobResult(Outcome.SIGNALLED, "why")

    for seed in range(3):
        Contender(REWARD, Settings(), Budget(seed=5), tmp_path, ignore_stage, train).run(1.0, seed)
    assert seeds == [5, 6, 7]


def test_a_warm_start_takes_the_weights_of_the_parent_once(tmp_path: Path) -> None:
    def job_of(warm_start: bool) -> Path:
        child = dataclasses.replace(REWARD, parent="parent")
        settings, folder = Settings(warm_start=warm_start), tmp_path / f"child-{warm_start}"
        train = entered(folder, Outcome.SIGNALLED)._train
        Contender(child, settings, Budget(), folder, ignore_stage, train).run(0.5, 0)
        return folder / "seed-0" / "job" / WARM

    policy, file = random_policy(None), tmp_path / "parent" / "seed-0" / POLICY
    file.parent.mkdir(parents=True)
    policy.save(file)
    assert not job_of(False).exists()
    before = job_of(True).read_bytes()
    policy.network.vector.mul_(2)
    policy.save(file)
    assert job_of(True).read_bytes() == before, "a training that goes on keeps its beginning"


def test_a_full_disk_is_no_failure_of_a_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = JobResult(Outcome.FOLDER, "OSError: [Errno 28] No space left on device")
    monkeypatch.setattr(training, "run_job", lambda *_: full)
    one = Contender(REWARD, Settings(), Budget(), tmp_path / "one", ignore_stage, training.train)
    with pytest.raises(ResearcherError, match=r"No space left on device\); free disk space.*--resume"):
        one.run(1.0, 0)
    assert one.failure is None and not (tmp_path / "one" / FAILED).exists()


def test_a_failure_of_before_does_not_bind_an_incumbent(tmp_path: Path) -> None:
    entered(tmp_path, Outcome.CRASHED).run(1.0, 0)
    assert entered(tmp_path, Outcome.CRASHED).failure is not None
    assert entered(tmp_path, Outcome.CRASHED, keeps_failure=False).failure is None


def test_a_job_that_never_ran_ends_the_race(tmp_path: Path) -> None:
    one = entered(tmp_path, Outcome.REFUSED)
    with pytest.raises(SandboxUnavailableError, match="why"):
        one.run(1.0, 0)
    assert one.failure is None and not (tmp_path / FAILED).exists()


def test_a_dry_run_that_a_signal_ended_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = Report(Kind.REWARD, "code", Stages.DRY_RUN, (Finding(Reason.STOPPED, "why"),), JobResult(Outcome.SIGNALLED, ""))  # fmt: skip
    monkeypatch.setattr(contender, "validate", lambda *_: stopped)
    one = entered(tmp_path, Outcome.OK)
    one.validate()
    assert one.failure is not None and not (tmp_path / FAILED).exists()


def test_an_abandoned_contender_begins_nothing_and_writes_nothing(tmp_path: Path) -> None:
    one = entered(tmp_path, Outcome.CRASHED)
    one.abandon()
    one.validate()
    one.run(1.0, 0)
    assert one.failure is None
    one._fail("training", "no policy", "why", 0.0)
    assert not (tmp_path / FAILED).exists()


def test_an_incumbent_that_failed_is_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def train(*arguments: Any) -> JobResult:
        calls.append(arguments)
        return JobResult(Outcome.CRASHED, "exit status -9")

    monkeypatch.setattr(evaluate, "trainer", lambda on: train)
    settings = Settings(race=Race(stages=(Stage(share=1, seeds=1),)))
    for number in (1, 2):
        with pytest.raises(IncumbentError):
            evaluate_many([Candidate({})], settings, Budget(), tmp_path)
        assert len(calls) == number


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> None:
    """All scores are the same, and nothing is trained: the first training of REWARD is ended by a signal."""
    killed = [REWARD.key]

    def make(one: Contender, *_: Any) -> Any:
        if one.key in killed:
            killed.remove(one.key)
            raise SignalledError("killed by SIGKILL")
        return SimpleNamespace(save=lambda path: None, metadata={"steps": 1}), {}

    monkeypatch.setattr(Contender, "validate", lambda one: None)
    monkeypatch.setattr(Contender, "_make_policy", make)
    monkeypatch.setattr(contender, "score", lambda *_: SCORE)


@pytest.mark.parametrize(
    ("of_score", "options", "verdict"),
    [
        ({"unfilled": 0.99, "filled": 1.0, "twap_filled": 1.0}, {}, None),
        ({"unfilled": 0.995}, {}, "never trades"),
        ({"unfilled": 0.995}, {"keeps_failure": False}, "never trades"),
        ({"filled": 0.97, "twap_filled": 1.0}, {}, "leaves shares"),
        ({"filled": 0.97, "twap_filled": 1.0}, {"keeps_failure": False}, None),
        ({"filled": 0.985, "twap_filled": 1.0}, {}, None),
        ({"filled": 0.97, "twap_filled": 0.98}, {}, None),
        ({"filled": 0.97, "twap_filled": None}, {}, None),
    ],
)
def test_a_policy_that_leaves_its_orders_fails(
    of_score: dict[str, Any], options: dict[str, Any], verdict: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """To forced completion, or for ever: what nobody trades would cost nothing. An incumbent may leave shares, because all are compared to it."""
    policy = SimpleNamespace(save=lambda path: None, metadata={"steps": 1})
    monkeypatch.setattr(Contender, "_make_policy", lambda *_: (policy, {}))
    monkeypatch.setattr(contender, "score", lambda *_: dataclasses.replace(SCORE, **of_score))
    one = entered(tmp_path, Outcome.OK, **options)
    one.run(1.0, 0)
    assert (one.failure and one.failure.facts["verdict"]) == verdict
    assert list(one.trials) == ([] if verdict else [(1.0, 0)])


@pytest.mark.usefixtures("scored")
def test_what_a_candidate_has_or_failed_at_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = entered(tmp_path / "failed", Outcome.CRASHED)
    one.run(1.0, 0)
    assert one.failure is not None
    two = entered(tmp_path / "tried", Outcome.OK)
    two.run(1.0, 0)
    assert two.trials
    monkeypatch.undo()
    monkeypatch.setattr(contender, "validate", pytest.fail)
    monkeypatch.setattr(Contender, "_make_policy", pytest.fail)
    for again in (one, two, entered(tmp_path / "tried", Outcome.OK)):
        again.validate()
        again.run(1.0, 0)


@pytest.mark.usefixtures("scored")
def test_a_race_that_has_ended_tries_again_what_a_signal_ended(tmp_path: Path) -> None:
    """Its last round was that of another candidate."""
    settings = Settings(race=Race(stages=(Stage(share=0.5, seeds=1), Stage(share=1.0, seeds=1))))
    other = Candidate({Kind.REWARD: Module("spec", "[]")})
    found = [[one.stage for one in evaluate_many([REWARD, other], settings, Budget(), tmp_path)] for _ in range(3)]
    assert found == [["training", "done"], ["halved", "done"], ["halved", "done"]]


@pytest.mark.usefixtures("scored")
def test_a_folder_does_not_answer_for_other_settings_or_data(tmp_path: Path) -> None:
    """It returned the scores of the settings that it was made with."""
    day, moved = tmp_path / "a.day", tmp_path / "moved.day"
    day.write_text("one")
    settings = Settings(market=STATIC.model_copy(update={"data": [day]}), race=Race(stages=(Stage(share=1, seeds=1),)))
    folder, other = tmp_path / "run", Candidate({Kind.REWARD: Module("spec", "[]")})
    assert evaluate_many([other], settings, Budget(), folder)[0].stage == "done"
    for name, changed, budget in (
        ("score_seed", settings.model_copy(update={"score_seed": 2}), Budget()),
        (r"market\.fee_bps", settings.model_copy(update={"market": settings.market.model_copy(update={"fee_bps": 1.0})}), Budget()),
        (r"budget\.seed", settings, Budget(seed=1)),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=rf"run: expected the settings .* got others of {name}; use the same"):
            evaluate_many([other], changed, budget, folder)
    day.rename(moved)
    same = settings.model_copy(update={"market": settings.market.model_copy(update={"data": [moved]})})
    assert evaluate_many([other], same, Budget(), folder)[0].stage == "done"
    moved.write_text("two")
    with pytest.raises(ConfigError, match=r"others of market\.data"):
        evaluate_many([other], same, Budget(), folder)
    alone = tmp_path / "alone"
    assert evaluate.evaluate(other, settings.model_copy(update={"market": STATIC}), Budget(), alone).stage == "done"
    with pytest.raises(ConfigError, match="others of candidate"):
        evaluate.evaluate(Candidate({}), settings.model_copy(update={"market": STATIC}), Budget(), alone)


@pytest.mark.usefixtures("sandboxed")
def test_a_job_in_the_sandbox_that_is_abandoned_leaves_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while a rule is traced."""

    def interrupted(*_: Any) -> JobResult:
        while not sandbox._abandoned:
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(contender, "validate", lambda *_: SimpleNamespace(ok=True))
    monkeypatch.setattr(evaluate, "trainer", lambda on: interrupted)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        evaluate_many([SLOW], Settings(), Budget(), tmp_path)
    assert time.monotonic() - began < 40
    assert not list(tmp_path.glob(f"*/{FAILED}"))


def test_orders_that_cannot_be_made_are_no_failure_of_a_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*_: Any) -> Any:
        raise ConfigError("folds: expected pieces")

    monkeypatch.setattr("serl.researcher.inner.score.scoring_set", cannot)
    one = Contender(Candidate({}), Settings(), Budget(), tmp_path, ignore_stage, lambda *_: JobResult(Outcome.OK, ""))
    policy: Any = SimpleNamespace(save=lambda path: None, metadata={"steps": 1})
    monkeypatch.setattr(Contender, "_make_policy", lambda *_: (policy, {}))
    with pytest.raises(ScoreError, match="expected pieces"):
        one.run(1.0, 0)
    assert results.read(tmp_path / FAILED) is None


def test_a_day_whose_folds_are_not_those_of_training_is_refused_before_training(tmp_path: Path) -> None:
    settings = Settings(market=STATIC.model_copy(update={"data": [tmp_path / "a.day"]}), day=tmp_path / "b.day")
    with pytest.raises(
        ConfigError, match=r"day: expected one of market\.data, .*b\.day and .*a\.day; add it .*folds: 0"
    ):
        evaluate_many([REWARD], settings, Budget(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_interrupted_race_ends_jobs_that_begin_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where one thread waits until another has compiled."""
    interrupted, began = threading.Event(), threading.Event()

    def train(candidate: Candidate, *_: Any) -> JobResult:
        if candidate.key != REWARD.key:  # the incumbent, whose training the race waits for first
            began.wait()
            interrupted.set()
            raise KeyboardInterrupt
        began.set()
        interrupted.wait()
        time.sleep(0.5)  # the race has abandoned all jobs by now
        job = {"entry": "tests.researcher.inner.jobs:sleep", "arguments": {"seconds": 60}, "compiled": False}
        return worker.run_job(job, tmp_path, 100)

    monkeypatch.setattr(worker, "_idle", [])
    monkeypatch.setattr(contender, "validate", lambda *_: SimpleNamespace(ok=True))
    monkeypatch.setattr(evaluate, "trainer", lambda on: train)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        evaluate_many([REWARD], Settings(race=Race(stages=(Stage(share=1, seeds=1),))), Budget(), tmp_path / "race")
    assert time.monotonic() - start < 40


@pytest.mark.usefixtures("scored")
def test_a_later_training_that_a_signal_ended_costs_a_candidate_no_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = Contender._make_policy

    def make(one: Contender, share: float, seed: int, *rest: Any) -> Any:
        if one.key == other.key and seed == 1:
            raise SignalledError("killed by SIGKILL")
        return really(one, share, seed, *rest)

    other = Candidate({Kind.REWARD: Module("spec", "[]")})
    monkeypatch.setattr(Contender, "_make_policy", make)
    settings = Settings(race=Race(stages=(Stage(share=1, seeds=1), Stage(share=1, seeds=2))))
    (found,) = evaluate_many([other], settings, Budget(), tmp_path)
    assert (found.stage, found.facts["seeds"], found.facts["stages"]) == ("done", 1, 1)
    monkeypatch.setattr(Contender, "_make_policy", really)
    (found,) = evaluate_many([other], settings, Budget(), tmp_path)
    assert (found.stage, found.facts["seeds"], found.facts["stages"]) == ("done", 2, 2)


@pytest.mark.usefixtures("scored")
@pytest.mark.parametrize(
    ("first", "stage", "share", "then"),
    [(Stage(share=0.5, seeds=1), "halved", 0.5, "done"), (Stage(share=0.5, seeds=2), "training", None, "halved")],
)
def test_a_signal_may_end_the_first_seed_while_the_second_goes_on(
    first: Stage, stage: str, share: float | None, then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two trainings at a time, and memory for one."""
    really, second = Contender._make_policy, threading.Event()

    def make(one: Contender, share: float, seed: int, *rest: Any) -> Any:
        if one.key == other.key and (share, seed) == ended:
            second.wait(20)
            raise SignalledError("killed by SIGKILL")
        if one.key == other.key and seed == 1:
            second.set()
        return really(one, share, seed, *rest)

    other = Candidate({Kind.REWARD: Module("spec", "[]")})
    ended = (1.0, 0) if first.seeds == 1 else (0.5, 0)
    monkeypatch.setattr(Contender, "_make_policy", make)
    settings = Settings(race=Race(stages=(first, Stage(share=1, seeds=2))))
    (found,) = evaluate_many([other], settings, Budget(), tmp_path)
    assert (found.stage, found.paired.share if found.paired else None) == (stage, share)
    monkeypatch.setattr(Contender, "_make_policy", really)
    (found,) = evaluate_many([other], settings, Budget(), tmp_path)
    assert (found.stage, found.facts["seeds"]) == (then, 2)
