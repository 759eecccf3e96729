"""What a model is told: the market that candidates are scored in, schema, inputs, incumbent, differences, errors and notes, within its context."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.researcher.candidates import Budget, Candidate, Module, Result
from serl.researcher.inner.settings import Settings
from serl.researcher.llm.client import Client
from serl.researcher.llm.settings import Endpoint, Size
from serl.researcher.llm.usage import estimate_prompt_tokens
from serl.researcher.modules.contracts import Form, Kind
from serl.researcher.modules.example import example
from serl.researcher.outer import run, uniform
from serl.researcher.outer.author import Author
from serl.researcher.outer.config import Operator, OuterConfig
from serl.researcher.outer.database import Database
from serl.researcher.outer.evidence import curve_line
from serl.researcher.outer.past_results import PastResults
from serl.researcher.outer.prompting import PromptWriter
from serl.researcher.outer.prompts import Section, conversation, market_text, short_conversation
from serl.researcher.outer.records import Draft, Lessons, Note, Proposal, Verdict
from serl.researcher.signals import Signal
from tests.researcher.outer.small import config_of, score_of

BEHAVIOUR = {
    "lateness": 0.1, "traded_last": 0.05, "pa_buys": -1.0, "pa_sells": 2.0, "pa_price_moved_against": -3.0,
    **{f"action_{index}_p{q}": q / 100 for index in range(3) for q in (10, 50, 90)},
}  # fmt: skip
CURVE = [{"steps": steps, "return": steps / 1000} for steps in range(0, 50_000, 1000)]


def author_of(size: Size, form: Form = "spec", context_tokens: int = 4096) -> Author:
    client = Client(Endpoint(base_url="http://127.0.0.1:9/v1", model=size))
    return Author(client, form, 3, 400 if form == "spec" else 2048, False, size, context_tokens)


def result_of(index: int) -> Result:
    score = dataclasses.replace(score_of(float(index % 7)), behaviour=BEHAVIOUR)
    return Result("done", "", score, None, {"claims": {"curve": CURVE}})


def known_run(
    folder: Path, kinds: Sequence[Kind], form: Form = "spec", iterations: int = 8
) -> tuple[OuterConfig, Database]:
    """A run with results, errors and notes."""
    scenario = "multi" if Kind.COMMUNICATE in kinds else "single"
    config = config_of(
        kinds=[kind.value for kind in kinds], scenario=scenario, proposer="dek", iterations=99, form=form
    )
    database, rng = run.begin(folder, config, "test", resume=False), np.random.default_rng(0)
    database.set_fact("market", {"mid_ticks": 10_000.0, "volume_lots_per_s": 123.4})
    database.set_signals({"drift": Signal(-4.7, -12.0), "imbalance": Signal(0.4, 20.0), "spread": Signal(0.3, 1.0)})
    for iteration in range(1, iterations + 1):
        for slot in range(4):
            texts = {kind: example(kind, form) if form == "code" else uniform.draw(kind, rng) for kind in kinds}
            failed = tuple(
                Draft(kind, form, "model", "m", None, None, (Verdict(kind, "m", 0, "dry run", "shape", f"error {iteration} of {kind}: " + "x" * 400),))
                for kind in kinds
            )  # fmt: skip
            database.add_proposal(
                iteration, slot, Proposal(Candidate({kind: Module(form, text) for kind, text in texts.items()}), failed)
            )
        results = {slot: result_of(4 * iteration + slot) for slot in range(4)}
        database.add_results(iteration, "m", results)
        notes = (Note("m", f"Note {iteration}: rest more when the spread is wide and cross what is late."),)
        row: dict[str, Any] = {"model": "m", "pa_bps": 1.0, "ema_bps": 1.0, "change_bps": 0.0, "seconds": 1.0}
        database.finish(iteration, Lessons(notes=notes), **row)
    return config, database


def prompt_of(config: OuterConfig, database: Database, author: Author, kind: Kind, operator: Operator = "rewrite") -> list[dict[str, str]]:  # fmt: skip
    past = PastResults(database, 99)
    without_levels = config.model_copy(update={"high_level": None})
    parents = [elite.candidate for elite in past.archive[:2]]
    made = PromptWriter(without_levels, database).write(kind, operator, author, past, parents, np.random.default_rng(0))
    return list(made.messages)


def test_a_prompt_shows_what_is_known(tmp_path: Path) -> None:
    config, database = known_run(tmp_path, [Kind.POLICY])
    text = prompt_of(config, database, author_of("large", context_tokens=16_384), Kind.POLICY)[1]["content"]
    for shown in (
        "rest_percent: 0 | 50 | 100", "behind_schedule: inventory - time_left", "volume_lots_per_s 123", "The best so far (", "which you must beat",
        "crossed 0.1 0.5 0.9", "buys -1.00", "price moved against -3.00", "Return while training", "Parent 1 (", "to the incumbent",
        "imbalance: one standard deviation more, +0.40 bps (t +20.0)\n- drift", "Measured so far:", "over n=", "Note 8: rest more", "error 8 of policy",
    ):  # fmt: skip
        assert shown in text, shown
    assert "error 1 of policy" not in text, "only the last errors"
    assert "spread: one standard deviation" not in text, "noise"
    database.close()


def test_differences_are_shown_and_not_scores(tmp_path: Path) -> None:
    config, database = known_run(tmp_path, [Kind.REWARD])
    text = prompt_of(config, database, author_of("large", context_tokens=16_384), Kind.REWARD)[1]["content"]
    past = text.partition("Past modules")[2].partition("Measured so far")[0]
    assert "-> -6.00 bps" in past and "PA +" not in past
    assert "one standard deviation" not in text, "signals are of the observations of rules"
    database.close()


@pytest.mark.parametrize("kind", list(Kind))
def test_prompts_fit_the_context_of_the_tiny_model(kind: Kind, tmp_path: Path) -> None:
    config, database = known_run(tmp_path, [kind])
    author = author_of("tiny")
    messages = prompt_of(config, database, author, kind)
    assert estimate_prompt_tokens({"messages": messages}) <= author.prompt_tokens <= 4096 - 2 * 400
    assert "Parent 1" in messages[1]["content"], "what an operator needs is kept longest"
    database.close()


def test_a_tiny_model_is_shown_modules_and_what_they_gained_alone(tmp_path: Path) -> None:
    config, database = known_run(tmp_path, [Kind.REWARD])
    text = prompt_of(config, database, author_of("tiny"), Kind.REWARD)[1]["content"]
    for shown in ("Design the reward", "Parent 1 (", "to the incumbent):", "Instruction: Rewrite the first parent"):
        assert shown in text, shown
    for left_out in ("Its fields", "Example", "Inputs", "The market", "Its behaviour", "Measured so far", "Notes", "Errors", "PA "):  # fmt: skip
        assert left_out not in text, left_out
    without_levels = config.model_copy(update={"high_level": None})
    fresh = PromptWriter(without_levels, database).write(
        Kind.REWARD, "fresh", author_of("tiny"), PastResults(database, 99), [], np.random.default_rng(0)
    )
    assert "The best so far (" in fresh.messages[1]["content"]
    database.close()


def test_a_tiny_model_is_not_shown_parents_in_code(tmp_path: Path) -> None:
    config, database = known_run(tmp_path, [Kind.REWARD], "code", 1)
    text = prompt_of(config, database, author_of("tiny"), Kind.REWARD)[1]["content"]
    assert "Parent" not in text and "parent" not in text and "```" not in text
    database.close()


def test_past_modules_are_cut_before_the_best_and_parents_never() -> None:
    parents, rest = (
        [Section("Parent 1:", ["p" * 1500], 10)],
        [Section("Best:", ["b"], 9), Section("Past:", ["x"] * 4, 7)],
    )
    fitting = short_conversation(Kind.REWARD, [], rest, "Do it.", 400)[1]["content"]
    assert fitting.count("- x") == 4 and "- b" in fitting
    tokens = estimate_prompt_tokens({"messages": short_conversation(Kind.REWARD, [], rest[:1], "Do it.", 400)})
    cut = short_conversation(Kind.REWARD, [], rest, "Do it.", tokens)[1]["content"]
    assert "- b" in cut and "- x" not in cut
    long = short_conversation(Kind.REWARD, parents, rest, "Do it.", 400)[1]["content"]
    assert "p" * 1500 in long and "- b" not in long


@pytest.mark.long
def test_the_tiny_models_own_tokens_are_within_the_estimate(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the extra `researcher` is not installed")
    from serl.researcher.llm.models import MODELS
    from serl.researcher.tuning.base import dequantised_folder

    folder = dequantised_folder(MODELS["tiny"].path)
    if not folder.exists():
        pytest.skip("needs the model in fp32: serl llm fetch tiny, serl llm unpack tiny")
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    author = author_of("tiny")
    for kind in Kind:
        config, database = known_run(tmp_path / kind.value, [kind])
        messages = prompt_of(config, database, author, kind)
        counted = len(
            tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, return_dict=False)
        )
        assert counted <= author.context_tokens - 2 * author.max_tokens, f"{kind}: {counted} tokens"
        database.close()


@pytest.mark.parametrize("kind", [Kind.POLICY, Kind.REWARD])
def test_edits_are_asked_of_the_whole_parent(kind: Kind, tmp_path: Path) -> None:
    config, database = known_run(tmp_path, [kind], "code", 1)
    text = prompt_of(config, database, author_of("large", "code", 16_384), kind, "diff")[1]["content"]
    assert example(kind, "code").strip() in text.partition("Parent 1")[2]
    assert "<<<<<<< SEARCH" in text and ">>>>>>> REPLACE" in text
    database.close()


def test_what_matters_least_is_cut_first() -> None:
    sections = [Section("First:", ["a" * 600] * 3, 5), Section("Second:", ["b" * 600] * 3, 1)]
    whole = conversation("", Kind.AGENT, "spec", sections, "Do it.", 10_000)
    cut = conversation("", Kind.AGENT, "spec", sections, "Do it.", estimate_prompt_tokens({"messages": whole}) - 450)
    assert cut[1]["content"].count("a" * 600) == 3 and cut[1]["content"].count("b" * 600) == 0
    assert "Second:" not in cut[1]["content"]


def test_a_curve_that_is_none_is_left_out() -> None:
    for claims in (None, "nonsense", {"curve": 3}, {"curve": [{"steps": "a"}, 4]}):
        assert curve_line(Result("done", "", None, None, {"claims": claims})) == ""
    assert json.dumps(curve_line(result_of(0))).count(" at ") == 5


def test_two_markets_and_an_exchange() -> None:
    text = market_text(Settings(), Budget())
    assert f"{Settings().dynamic.kind} one" in text and "simulated exchange" in text


def test_only_bars() -> None:
    text = market_text(Settings().model_copy(update={"scored_in": "bars"}), Budget(dynamic_steps=0))
    assert Settings().dynamic.kind not in text and "exchange" not in text and "bars" in text
