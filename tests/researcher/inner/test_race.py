"""The race: who gets the next training, and that a kill costs none."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from serl.agents.learning.policy import Policy, load_policy
from serl.researcher.candidates import Budget, Candidate, Module, Result, Score
from serl.researcher.inner import contender, results, training
from serl.researcher.inner.contender import Contender
from serl.researcher.inner.errors import IncumbentError
from serl.researcher.inner.evaluate import _in_turn, evaluate_many, ignore_stage
from serl.researcher.inner.executors import trainer
from serl.researcher.inner.job import prepare
from serl.researcher.inner.race import Standings, Ticket
from serl.researcher.inner.race_config import Race, Stage
from serl.researcher.inner.results import Trial
from serl.researcher.inner.settings import Settings
from serl.researcher.modules.contracts import Kind
from serl.researcher.sandbox.job_result import JobResult

BUDGET = Budget(static_steps=640, dynamic_steps=0, wall_s=400)
STAGES = (Stage(share=0.5, seeds=1), Stage(share=1, seeds=2, kept=0.5), Stage(share=1, seeds=3, kept=0.5))
ORDERS = 40


def rewards(count: int) -> list[Candidate]:
    """Candidates with different rewards."""
    term = {"feature": "unfilled", "shape": "linear", "when": "last_step"}
    weights = (-500, -200, -100, -50)[:count]
    texts = [
        json.dumps({"base": "price_advantage", "terms": [term | {"weight_percent": weight}]}) for weight in weights
    ]
    return [Candidate({Kind.REWARD: Module("spec", text)}) for text in texts]


def made(folder: Path, candidate: Candidate, trials: dict[tuple[float, int], float], noise: float = 0.1) -> Contender:
    """A contender whose trials on disk differ from an incumbent's (0) by these many bps."""
    one = Contender(candidate, Settings(), BUDGET, folder / candidate.key, ignore_stage, trainer("local"))
    for (share, seed), pa_bps in trials.items():
        values = pa_bps + (
            np.random.default_rng([len(trials), seed]).normal(0, noise, ORDERS) if pa_bps else np.zeros(ORDERS)
        )
        rows = (tuple(map(float, values)), tuple(range(ORDERS)), (0.0,) * ORDERS)
        score = Score(float(values.mean()), 0.0, 0.0, 0.0, ORDERS, 1.0, 0.0, 0.0, *rows)
        (one.folder / f"seed-{seed}").mkdir(exist_ok=True)
        results.write_trial(Trial(share, seed, score, {"validation_s": 0, "training_s": 0, "scoring_s": 0, "steps": 1, "claims": {}}), one.folder / f"seed-{seed}" / f"share-{share:g}.json")  # fmt: skip
    return Contender(candidate, Settings(), BUDGET, folder / candidate.key, ignore_stage, trainer("local"))


def standings(
    folder: Path, trials: list[dict[tuple[float, int], float]], race: Race
) -> tuple[Standings, list[Contender]]:
    zero = {(share, seed): 0.0 for share in (0.5, 1.0) for seed in range(3)}
    field = [made(folder, one, each) for one, each in zip(rewards(len(trials)), trials, strict=True)]
    return Standings(race, field, made(folder, Candidate({}), zero)), field


def test_new_candidates_are_screened_first(tmp_path: Path) -> None:
    found, field = standings(tmp_path, [{(0.5, 0): 1.0}, {}, {}], Race(stages=STAGES, trainings=0.1))
    tickets = found.next_round(spent=5.0)
    assert {each.key for each in tickets} == {field[1].key, field[2].key}
    assert {each[1:] for each in tickets} == {(0.5, 0, 0.5)}


def test_the_best_half_trains_on_and_the_most_promising_first(tmp_path: Path) -> None:
    screened = [{(0.5, 0): value} for value in (0.3, -1.0, 0.9, -2.0)]
    found, field = standings(tmp_path, screened, Race(stages=STAGES, at_once=1))
    assert [one.key for one in found.may_train()] == [field[2].key, field[0].key]
    (ticket,) = found.next_round(0.0)
    assert (ticket.key, ticket.share, ticket.seed, ticket.cost) == (field[2].key, 1.0, 0, 0.5), "a training continues"


def test_an_incumbent_without_candidates_trains_ahead_what_they_will_need(tmp_path: Path) -> None:
    alone, beside = (
        Standings(Race(stages=STAGES), field, made(tmp_path / str(len(field)), Candidate({}), {}))
        for field in ([], [made(tmp_path, rewards(1)[0], {})])
    )
    first = [(ticket.share, ticket.seed, ticket.cost) for ticket in beside.of_incumbent([], first=True)]
    assert first == [(0.5, 0, 0.0), (1.0, 0, 0.0)]
    assert [ticket[1:] for ticket in alone.of_incumbent([], first=True)] == [*first, (1.0, 1, 0.0)]


def test_an_old_candidate_can_be_promoted_later(tmp_path: Path) -> None:
    race = Race(stages=STAGES)
    before, _ = standings(tmp_path / "a", [{(0.5, 0): 0.9}, {(0.5, 0): 0.3}], race)
    later, field = standings(
        tmp_path / "b", [{(0.5, 0): 0.9}, {(0.5, 0): 0.3}, {(0.5, 0): -1.0}, {(0.5, 0): -1.0}], race
    )
    second = rewards(2)[1].key
    assert [one.key for one in before.may_train()] != [second] and second not in {one.key for one in before.may_train()}
    assert field[1].key == second and second in {one.key for one in later.may_train()}


def test_those_who_train_already_take_places(tmp_path: Path) -> None:
    """Of two, one enters; while it trains on, the other does not follow. Of three, two enter."""
    ahead, race = {(0.5, 0): 0.9, (1.0, 0): 0.9, (1.0, 1): 0.9}, Race(stages=STAGES)
    found, field = standings(tmp_path / "two", [ahead, {(0.5, 0): 0.3}], race)
    assert [one.key for one in found.may_train()] == [field[0].key]
    found, field = standings(tmp_path / "three", [{(0.5, 0): value} for value in (0.9, 0.3, -1.0)], race)
    assert [one.key for one in found.may_train()] == [field[0].key, field[1].key]


def test_a_failed_candidate_trains_no_more(tmp_path: Path) -> None:
    several = {(0.5, 0): 0.9, (1.0, 0): 0.1, (1.0, 1): 0.6, (1.0, 2): 1.1}
    found, field = standings(tmp_path, [several, {(0.5, 0): 0.3}], Race(stages=STAGES))
    assert found.may_train() == [] and found.spread_bps() > 0.4
    field[0].failure = Result("training", "killed", None, None, {})
    assert [one.key for one in found.may_train()] == [field[1].key] and found.spread_bps() == 0.0


def test_the_upper_bound_decides_who_trains_first(tmp_path: Path) -> None:
    stages, zero = (Stage(share=0.5, seeds=1), Stage(share=1, seeds=2)), {(0.5, 0): 0.0}
    sure, unsure = rewards(2)
    field = [made(tmp_path, sure, {(0.5, 0): 0.5}, noise=0.01), made(tmp_path, unsure, {(0.5, 0): 0.4}, noise=3.0)]
    found = Standings(Race(stages=stages), field, made(tmp_path, Candidate({}), zero))
    assert found.measure(field[1]).difference_bps < found.measure(field[0]).difference_bps
    assert [one.key for one in found.may_train()] == [unsure.key, sure.key]


def test_promotion_goes_by_the_lower_bound(tmp_path: Path) -> None:
    """The same mean with more noise is not promoted."""
    race, zero = Race(stages=STAGES), {(0.5, 0): 0.0}
    sure, unsure = rewards(2)
    field = [made(tmp_path, sure, {(0.5, 0): 0.5}, noise=0.01), made(tmp_path, unsure, {(0.5, 0): 0.6}, noise=3.0)]
    found = Standings(race, field, made(tmp_path, Candidate({}), zero))
    assert found.measure(field[1]).low_bps < found.measure(field[0]).low_bps
    assert [one.key for one in found.may_train()] == [sure.key]


def test_the_budget_ends_the_race(tmp_path: Path) -> None:
    screened = [{(0.5, 0): value} for value in (0.9, 0.3, 0.2, 0.1)]
    found, _ = standings(tmp_path, screened, Race(stages=STAGES, trainings=3.0, at_once=2))
    assert len(found.next_round(1.9)) == 2
    assert len(found.next_round(2.0)) == 2
    assert len(found.next_round(2.4)) == 1
    assert found.next_round(2.6) == []


def test_the_screens_of_rules_leave_something_of_the_budget(tmp_path: Path) -> None:
    """As those of trainings do, although a rule is always complete."""
    incumbent, *field = (Candidate({Kind.POLICY: Module("spec", str(number))}) for number in range(9))
    new = Standings(Race(), [made(tmp_path / "new", one, {}) for one in field], made(tmp_path / "new", incumbent, {}))
    screens = new.next_round(0.0)
    spent = sum(each.cost for each in screens)
    assert (len(screens), {each.share for each in screens}) == (8, {1.0})
    assert spent == pytest.approx(1.6)
    screened = [made(tmp_path, one, {(1.0, 0): value / 10}) for value, one in enumerate(field, 1)]
    found = Standings(Race(), screened, made(tmp_path, incumbent, {(1.0, seed): 0.0 for seed in range(8)}))
    assert [(each.seed, each.cost) for each in found.next_round(spent)] == [(1, 1.0), (1, 1.0)]


def test_a_single_training_takes_its_spread_from_the_others(tmp_path: Path) -> None:
    several = {(0.5, 0): 0.5, (1.0, 0): 0.0001, (1.0, 1): 1.0, (1.0, 2): 2.0}
    found, field = standings(tmp_path, [several, {(0.5, 0): 0.5}], Race(stages=STAGES))
    assert found.spread_bps() == pytest.approx(1.0, abs=0.1)
    assert (
        found.measure(field[1]).se_bps
        > 0.9
        > 10 * standings(tmp_path / "alone", [{(0.5, 0): 0.5}], Race(stages=STAGES))[0].measure(field[1]).se_bps
    )


def test_the_spread_between_trainings_is_added_to_the_error_of_a_single_one(tmp_path: Path) -> None:
    """It is known from three trainings on: two say too little about it."""
    race, noisy, seeds = Race(stages=STAGES), {(0.5, 0): 0.5}, {(1.0, 0): 0.1, (1.0, 1): 0.6, (1.0, 2): 1.1}
    errors = []
    for several in ({}, {key: seeds[key] for key in [*seeds][:2]}, seeds):
        first, second = rewards(2)
        field = [
            made(tmp_path / str(len(several)), first, several),
            made(tmp_path / str(len(several)), second, noisy, noise=3.0),
        ]
        zero = {(share, seed): 0.0 for share in (0.5, 1.0) for seed in range(3)}
        found = Standings(race, field, made(tmp_path / str(len(several)), Candidate({}), zero))
        errors.append((found.measure(field[1]).se_bps, found.spread_bps()))
    (alone, _), (of_two, none), (of_three, spread) = errors
    assert (of_two, none) == (alone, 0.0)
    assert of_three == pytest.approx(np.hypot(alone, spread)) and spread > 0.4


def test_an_incumbent_with_a_single_training_differs_by_nothing_from_itself(tmp_path: Path) -> None:
    """It took the spread between trainings of the others, and a candidate whose interval began below 0 could be better."""
    stages = (Stage(share=0.5, seeds=3), Stage(share=1, seeds=3))
    incumbent = made(tmp_path, Candidate({}), {(0.5, 0): 0.0, (0.5, 1): 0.0, (0.5, 2): 0.0, (1.0, 0): 0.0})
    one = made(tmp_path, rewards(1)[0], {(0.5, 0): -0.5, (0.5, 1): 0.3, (0.5, 2): 1.0})
    found = Standings(Race(stages=stages), [one], incumbent)
    assert found.spread_bps() > 0.5
    assert (found.measure(incumbent).low_bps, found.measure(incumbent).high_bps) == (0.0, 0.0)


def test_the_ranking_measures_each_candidate_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long run has hundreds of candidates."""
    several = [Candidate({Kind.REWARD: Module("spec", str(number))}) for number in range(30)]
    field = [made(tmp_path, one, {(0.5, 0): 0.5}) for one in several]
    incumbent = made(tmp_path, Candidate({}), {(0.5, 0): 0.0, (1.0, 0): 0.0})
    calls, really = list[Any](), Standings._differences
    monkeypatch.setattr(Standings, "_differences", lambda self, one: calls.append(one) or really(self, one))
    assert len(Standings(Race(stages=STAGES), field, incumbent).next_round(0.0)) == 2
    assert 0 < len(calls) <= 2 * len(field)


class Killed(BaseException):
    """As SIGKILL."""


@pytest.mark.long
@pytest.mark.parametrize("apart", [12, 1])
def test_a_kill_at_any_training_repeats_and_loses_none(
    apart: int, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A race over two calls, cut at its trainings: the same results, from the same trainings."""
    inside = {"race": Race(stages=STAGES, at_once=2), "orders": 4, "scored_in": "market"}
    racing = settings.model_copy(update=inside)
    really, calls = training.train, list[tuple[str, float, int]]()
    limit = [10**9]

    def train(candidate: Candidate, known: Settings, budget: Budget, share: float, folder: Path) -> JobResult:
        if len(calls) >= limit[0]:
            raise Killed
        found = really(candidate, known, budget, share, folder)
        calls.append((candidate.key, share, budget.seed))
        return found

    monkeypatch.setattr(training, "train", train)

    def race(folder: Path, done: list[Any]) -> list[Any]:
        """Both calls; `done` holds the results of those that have ended, as the database of a run does."""
        for candidates in ([Candidate({}), *rewards(2)], [rewards(3)[2], Candidate({}), *rewards(2)])[len(done) :]:
            found = evaluate_many(candidates, racing, BUDGET, folder, 1)
            done.append([(one.stage, one.reason, one.score, one.paired) for one in found])
        return done

    whole = race(tmp_path / "whole", [])
    trained = list(calls)
    assert len(trained) == len(set(trained)) > 8
    assert whole[0][0][3].difference_bps == whole[0][0][3].se_bps == 0.0, "the incumbent against itself"
    assert {stage for found in whole for stage, *_ in found} == {"done", "halved"}
    assert race(tmp_path / "whole", whole[:1]) == whole and calls == trained, "it has ended"
    for cut in range(5, len(trained), apart):
        calls.clear()
        done: list[Any] = []
        limit[0] = cut
        with pytest.raises(Killed):
            race(tmp_path / str(cut), done)
        limit[0] = 10**9
        assert race(tmp_path / str(cut), done) == whole
        assert sorted(calls) == sorted(trained), "each training once"


@pytest.mark.long
def test_an_incumbent_that_fails_ends_the_race(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(IncumbentError, match="set `incumbent`"):
        evaluate_many(
            rewards(1), settings, BUDGET, tmp_path, 1, incumbent=Candidate({Kind.REWARD: Module("spec", "{}")})
        )


@pytest.mark.parametrize(("stages", "message"), [
    ([], "expected shares and seeds that never fall"),
    ([{"share": 0.5, "seeds": 1}], "share 1 at the end"),
    ([{"share": 1, "seeds": 3}, {"share": 1, "seeds": 3}], "never fall"),
    ([{"share": 0.5, "seeds": 3}, {"share": 1, "seeds": 1}], "never fall"),
])  # fmt: skip
def test_bad_stages_are_named(stages: list[Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Settings.model_validate({"race": {"stages": stages}})


def test_the_former_names_still_work() -> None:
    found = Settings.model_validate({"rungs": [0.25, 1.0], "kept": 0.4})
    assert found.race.stages == (Stage(share=0.25, seeds=1), Stage(share=1.0, seeds=1, kept=0.4))
    assert Settings.model_validate({"rungs": [1.0]}).race.stages == (Stage(share=1, seeds=1),)
    with pytest.raises(ValidationError, match=r"got both; use race\.stages"):
        Settings.model_validate({"rungs": [1.0], "race": {"at_once": 9}})
    with pytest.raises(ValidationError, match=r"rungs: expected shares like"):
        Settings.model_validate({"rungs": "all"})


def test_results_without_pairs_are_read(tmp_path: Path) -> None:
    """Files of earlier versions."""
    values = {"stage": "done", "reason": "", "policy": "policy.safetensors", "facts": {}, "score": {
        "pa_bps": 1.0, "low_bps": 0.0, "high_bps": 2.0, "pa_twap_bps": 1.0, "orders": 2, "pa_std_bps": 1.0, "unfilled": 0.0, "impact_bps": 0.0,
        "advantages_bps": [1.0, 1.0]}}  # fmt: skip
    (tmp_path / "result.json").write_text(json.dumps(values))
    found = results.read(tmp_path / "result.json")
    assert found is not None and found.score is not None and found.paired is None
    assert found.score.advantages_bps == (1.0, 1.0)


@pytest.mark.parametrize("warm", [False, True])
def test_a_child_trains_after_its_parent_whatever_runs_at_once(warm: bool, tmp_path: Path) -> None:
    """It may start from the parent's weights, so it must not depend on which training ends first."""
    young, old = rewards(2)
    settings = Settings(warm_start=warm)
    field = {
        one.key: Contender(one, settings, BUDGET, tmp_path / one.key, ignore_stage, trainer("local"))
        for one in (Candidate({}), Candidate(young.modules, old.key), old)
    }
    tickets = [Ticket(key, share, seed, 0.0) for key in field for share, seed in ((0.5, 0), (1.0, 0), (1.0, 1))]
    groups = [[(each.key, each.share) for each in group] for group in _in_turn(field, tickets[:-1])]
    shares = [(old.key, 0.5), (old.key, 1.0), (young.key, 0.5), (young.key, 1.0)]
    assert (shares in groups) == warm
    assert [(young.key, 1.0)] in groups, "the parent has no training of the second seed in this round"


@pytest.mark.long
def test_a_child_starts_from_its_parents_weights(settings: Settings, tmp_path: Path) -> None:
    """Of the same seed, where the network has the same shape; a parent without that seed has none."""
    warm = settings.model_copy(update={"warm_start": True, "orders": 4})
    parent, child = rewards(2)
    before = Contender(parent, warm, BUDGET, tmp_path / parent.key, ignore_stage, trainer("local"))
    before.run(1.0, 0)
    job = tmp_path / "job"
    contender.write_warm(tmp_path / parent.key / "seed-1" / "policy.safetensors", job)
    assert not job.exists()
    contender.write_warm(tmp_path / parent.key / "seed-0" / "policy.safetensors", job)
    policy = load_policy(tmp_path / parent.key / "seed-0" / "policy.safetensors")
    assert isinstance(policy, Policy)
    vector = prepare(child, warm.of_seed(0), BUDGET, job).learner.network.vector
    assert torch.equal(vector, policy.network.vector)
    (tmp_path / "fresh").mkdir()
    assert not torch.equal(prepare(child, warm.of_seed(0), BUDGET, tmp_path / "fresh").learner.network.vector, vector)
    scores = []
    for named in (None, parent.key):
        one = Candidate(child.modules, named)
        assert one.key == child.key
        after = Contender(one, warm, BUDGET, tmp_path / f"{named}" / child.key, ignore_stage, trainer("local"))
        if named:
            (tmp_path / named / parent.key).symlink_to(tmp_path / parent.key)
        after.run(1.0, 0)
        scores.append(after.trials[1.0, 0].score.advantages_bps)
    assert scores[0] != scores[1]
