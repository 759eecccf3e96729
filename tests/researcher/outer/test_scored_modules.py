"""The scored modules of a run's database as experience."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `researcher` is not installed")
pytest.importorskip("transformers", reason="the extra `researcher` is not installed")

import torch

from serl.researcher.candidates import Candidate, Module, Result, Score
from serl.researcher.llm.answers import Answer, Token
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer import run
from serl.researcher.outer.config import LowLevel
from serl.researcher.outer.database import Database
from serl.researcher.outer.low_level import LowLevelTuning
from serl.researcher.outer.records import Attempt, Draft, Prompt, Proposal
from serl.researcher.outer.scored_modules import recorded_modules
from serl.researcher.tuning.base import Base
from tests.researcher.outer.small import REWARD, config_of
from tests.researcher.tuning.small import small_base

PROMPT = Prompt(Kind.REWARD, ({"role": "user", "content": "w1"},))


def base() -> Base:
    made = small_base()
    made.tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    return made


def spec(weight: int) -> str:
    values = json.loads(REWARD)
    values["terms"][0]["weight_percent"] = weight
    return json.dumps(values)


def result(orders: tuple[float, ...] | None, share: float = 1.0, stage: str = "done") -> Result:
    if orders is None:
        return Result("training", "no signal", None, None, {})
    mean = sum(orders) / len(orders)
    return Result(stage, "", Score(mean, mean, mean, mean, len(orders), 1.0, 0.0, 0.0, orders), None, {"share": share})


def database(folder: Path, results: list[Result]) -> Database:
    """A run of one iteration with a candidate for each result."""
    made = run.begin(folder, config_of(), "test", resume=False)
    for slot, _ in enumerate(results):
        text = spec([1, 2, 5, 10, 20, 50][slot])
        draft = Draft(Kind.REWARD, "spec", "uniform", "uniform", PROMPT, text, (), PROMPT.messages)
        made.add_proposal(1, slot, Proposal(Candidate({Kind.REWARD: Module("spec", text)}), (draft,)))
    made.add_results(1, "tiny", dict(enumerate(results)))
    made.set_performance(1, 5.0)
    return made


def test_scores_are_paired_and_failures_have_none(tmp_path: Path) -> None:
    made = database(tmp_path, [result((11.0, -9.0)), result((9.0, -11.0)), result(None)])
    good, bad, failed = (one.row for one in recorded_modules(made, base(), "spec", "tiny", 1))
    assert good.score and bad.score
    assert (good.score.value_bps, bad.score.value_bps) == (1.0, -1.0)
    assert good.score.error_bps == pytest.approx(0.0, abs=1e-9), "orders that move both alike are no noise"
    assert good.score.features and good.score.features["reward.terms[].weight_percent=1"] == 1.0
    assert failed.score is None
    assert good.fresh and good.module.prompt_ids == (1,)
    assert not any(one.row.fresh for one in recorded_modules(made, base(), "spec", "tiny", 2))
    made.close()


def test_only_scores_after_the_same_training_are_compared(tmp_path: Path) -> None:
    short, long = result((1.0, 2.0), 0.25, "halved"), result((5.0, 7.0))
    made = database(tmp_path, [short, result((3.0, 4.0), 0.25, "halved"), long, result((4.0, 6.0))])
    rows = [one.row for one in recorded_modules(made, base(), "spec", "tiny", 1)]
    assert [row.group == rows[0].group for row in rows] == [True, True, False, False]
    values = [row.score.value_bps for row in rows if row.score]
    assert values == [-1.0, 1.0, 0.5, -0.5], "relative to those of the same training"
    made.close()


def test_what_exploration_could_have_drawn_is_known(tmp_path: Path) -> None:
    made = database(tmp_path, [result((1.0, 2.0))])
    (one,) = recorded_modules(made, base(), "spec", "tiny", 1)
    assert one.drawable == spec(1)
    made.close()


def test_each_run_is_a_group_of_its_own(tmp_path: Path) -> None:
    groups = []
    for name, seed in (("first", 0), ("second", 1)):
        made = database(tmp_path / name, [result((1.0, 2.0))])
        made.set_fact("config", made.fact("config") | {"seed": seed})
        groups += [one.row.group for one in recorded_modules(made, base(), "spec", "tiny", 1)]
        made.close()
    assert groups[0] != groups[1]


def written(model: str, text: str, *tokens: Token) -> Proposal:
    """A model's proposal."""
    answer = dataclasses.asdict(Answer(text, "stop", tokens))
    draft = Draft(Kind.REWARD, "spec", "model", model, PROMPT, text, (), PROMPT.messages, answer)
    return Proposal(Candidate({Kind.REWARD: Module("spec", text)}), (draft,))


def drawn_for(model: str, text: str) -> Proposal:
    """A uniform draw in place of a model's answer."""
    draft = Draft(Kind.REWARD, "spec", "uniform", "uniform", PROMPT, text, (), PROMPT.messages)
    attempts = (Attempt("fresh", model, True), Attempt("mutate", "", True))
    return Proposal(Candidate({Kind.REWARD: Module("spec", text)}), (draft,), (), attempts)


def test_only_the_tuned_model_and_draws_for_its_prompts_teach(tmp_path: Path) -> None:
    token, unnumbered = Token("a", -1.0, 1), Token("a", -1.0, None)
    proposals = [
        written("tiny+0123", spec(1), token), written("tiny", spec(2)), written("tiny", spec(5), unnumbered), written("other", spec(10)),
        written("other", spec(20), token), drawn_for("tiny", spec(50)), drawn_for("other", spec(-1)),
    ]  # fmt: skip
    made = run.begin(tmp_path, config_of(), "test", resume=False)
    for slot, one in enumerate(proposals):
        made.add_proposal(1, slot, one)
    made.add_results(1, "tiny", {slot: result((1.0, 2.0)) for slot in range(len(proposals))})
    made.set_performance(1, 5.0)
    found = recorded_modules(made, base(), "spec", "tiny", 1)
    assert [one.drawable for one in found] == [spec(1), spec(50)]
    made.close()


def test_a_candidate_that_fails_later_counts_as_failed(tmp_path: Path) -> None:
    made = database(tmp_path, [result((-3.0, -1.0)), result((1.0, 2.0))])
    failed = Candidate({Kind.REWARD: Module("spec", spec(2))})
    made.add_results(2, "tiny", {}, {failed.key: result(None)})
    assert made.one("SELECT performance_bps FROM modules WHERE slot = 1") == 1.5, "never empty"
    made.set_performance(2, 5.0)
    for table in ("candidates", "modules"):
        assert [row[0] for row in made.rows(f"SELECT performance_bps FROM {table} ORDER BY slot")] == [-2.0, -7.0]
    rows = [one.row for one in recorded_modules(made, base(), "spec", "tiny", 2)]
    assert [(row.score is None, row.module.performance_bps) for row in rows] == [(False, -2.0), (True, -7.0)]
    made.close()


def test_what_is_proposed_ahead_keeps_the_probability_that_it_had_then(tmp_path: Path) -> None:
    """Modules of iteration 2 that were written while the candidates of iteration 1 trained, before the update that these lead to."""
    made, text = database(tmp_path, [result((1.0, 2.0))]), spec(2)
    draft = Draft(Kind.REWARD, "spec", "uniform", "uniform", PROMPT, text, (), PROMPT.messages)
    made.add_proposal(2, 0, Proposal(Candidate({Kind.REWARD: Module("spec", text)}), (draft,)))
    policy = [-1.0]
    tuner: Any = SimpleNamespace(
        base=base(), proposals={}, log_p=lambda modules: torch.full((len(modules),), policy[0])
    )
    tuning = object.__new__(LowLevelTuning)
    tuning.config, tuning._form, tuning._database, tuning._tuner = LowLevel(uniform_share=0), "spec", made, tuner
    assert [row.module.log_proposal for row in tuning.scored(1, "tiny")] == [-1.0]
    policy[0] = -2.0  # the update
    made.add_results(2, "tiny", {0: result((3.0, 4.0))})
    made.set_performance(2, 5.0)
    assert [row.module.log_proposal for row in tuning.scored(2, "tiny")] == [-1.0, -1.0]
    made.close()
