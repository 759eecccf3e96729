"""What endpoints and models do wrong: each has a verdict, is counted, and the loop goes on."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.researcher.candidates import Candidate, Result
from serl.researcher.llm.client import Client
from serl.researcher.llm.errors import BudgetSpentError, EndpointRefusedError
from serl.researcher.llm.settings import BudgetConfig, Endpoint, Size
from serl.researcher.modules.contracts import Form, Kind, form_of
from serl.researcher.modules.example import example
from serl.researcher.modules.specs import json_schema
from serl.researcher.outer import run
from serl.researcher.outer.author import Author
from serl.researcher.outer.config import OuterConfig
from serl.researcher.outer.database import Database
from serl.researcher.outer.records import Instruction
from serl.researcher.outer.report import summary, valid_shares
from tests.researcher.llm.fake import CLOSE, completion, fake_endpoint
from tests.researcher.outer.small import REWARD, Arithmetic, config_of, endpoint_of, score_of

CODE = example(Kind.REWARD, "code")
MODEL_ALONE = {"operators": ["fresh", "rewrite"], "kept": 0.0, "notes": 0, "ahead": 0}
"""No operator takes the place of a model that fails."""
OTHER = REWARD.replace('"schedule"', '"shortfall"')
BETTER = REWARD.replace("-", "")
"""Better than the incumbent by the arithmetic of small.py."""


def fenced(code: str) -> dict[str, Any]:
    return completion(f"```python\n{code}\n```")


def ran(
    folder: Path, replies: Sequence[Any], evaluator: Arithmetic | None = None, **changes: Any
) -> tuple[Database, OuterConfig, Arithmetic, list[dict[str, Any]]]:
    """A run without the high level on an endpoint with these replies; what the endpoint was asked."""
    with fake_endpoint(*replies) as fake:
        values: dict[str, Any] = {
            "proposer": "dek", "high_level": None, "iterations": 1, "candidates": 1, "search": MODEL_ALONE,
        }  # fmt: skip
        config = config_of(**values | {"endpoint": endpoint_of(fake.url)} | changes)
        database, evaluator = run.begin(folder, config, "test", resume=False), evaluator or Arithmetic()
        run.research(config, folder, database, evaluator)
        return database, config, evaluator, fake.requests


def counted(database: Database) -> dict[tuple[str, str], int]:
    """Verdicts on all but the incumbent, which is `done` if the first iteration was evaluated."""
    found = {(row["stage"], row["reason"]): row["count"] for row in database.tally()}
    done = found.pop(("done", "ok"), 1) - 1
    return found | ({("done", "ok"): done} if done else {})


BAD_SPECS = [
    (completion(""), ("answer", "empty")),
    (completion(REWARD[:40], finish="length"), ("answer", "truncated")),
    (completion("I would rather talk about rewards in general."), ("answer", "prose")),
    (completion("I would rather talk \ud83d"), ("answer", "prose")),
    (completion('{"base": "price_advantage"'), ("answer", "syntax")),
    (completion('{"base": "everything", "terms": []}'), ("static check", "spec")),
]


@pytest.mark.parametrize(("reply", "verdict"), BAD_SPECS, ids=[reason for _, (_, reason) in BAD_SPECS])
def test_a_bad_answer_is_repaired(reply: Any, verdict: tuple[str, str], tmp_path: Path) -> None:
    database, _, evaluator, asked = ran(tmp_path, [reply, completion(REWARD)])
    assert counted(database) == {verdict: 1, ("dry run", "ok"): 1, ("done", "ok"): 1}
    assert len(evaluator.asked) == 2, "with the incumbent"
    (text,) = (
        row["text"] for row in database.rows("SELECT text FROM verdicts WHERE stage = ?", verdict[0]) if row["text"]
    )
    assert text in asked[1]["messages"][-1]["content"], "the error goes back to the model"
    assert valid_shares(database)[0]["valid_at_once"] == 0
    assert valid_shares(database)[0]["valid"] == 1


def test_a_duplicate_that_was_repaired_was_not_valid_at_once(tmp_path: Path) -> None:
    repaired = [completion("prose"), completion(REWARD)]
    database, *_ = ran(tmp_path, [*repaired, *repaired], iterations=2)
    assert counted(database)["archive", "duplicate"] == 1
    (share,) = valid_shares(database)
    assert (share["modules"], share["valid"], share["valid_at_once"]) == (2, 1.0, 0.0)


def test_a_repair_is_asked_for_after_the_prompt_and_the_last_answer_alone() -> None:
    """The module is learnt with the messages that its answer replied to."""
    prompt, long = [{"role": "user", "content": "Write a reward."}], "no " * 3000
    with fake_endpoint(completion(long), completion(""), completion("still no")) as fake:
        author = Author(Client(Endpoint(base_url=fake.url, model="fake")), "spec", 2, 100, True, temperature=0.7)
        found = author.generate(Kind.REWARD, prompt, 5)
    first, second, third = fake.requests
    assert first["messages"] == prompt
    assert second["messages"][:-1] == [*prompt, {"role": "assistant", "content": long[:4000]}]
    assert third["messages"][:-1] == [*prompt, {"role": "assistant", "content": "(empty)"}]
    assert list(found.conversation) == third["messages"]
    assert found.text is None and found.answer is not None and found.answer["text"] == "still no"
    assert [(one["seed"], one["temperature"], one["logprobs"], one["max_tokens"]) for one in fake.requests] == [
        (5, 0.7, True, 100), (6, 0.7, True, 100), (7, 0.7, True, 100)
    ]  # fmt: skip
    assert all(one["response_format"]["json_schema"]["schema"] == json_schema(Kind.REWARD) for one in fake.requests)


def test_many_errors_are_cut_in_the_request_for_a_repair() -> None:
    """Prompts leave room for so many (`prompt_tokens`)."""
    imports = "\n".join(f"import unknown_{number}" for number in range(60))
    with fake_endpoint(fenced(f"{imports}\n{CODE}")) as fake:
        author = Author(Client(Endpoint(base_url=fake.url, model="fake")), "code", 1, 100, False)
        found = author.generate(Kind.REWARD, [{"role": "user", "content": "Write a reward."}], 5)
    errors, asked = found.verdicts[0].text, fake.requests[1]["messages"][-1]["content"]
    assert len(errors) > 1201 and errors[:1200] in asked and errors[:1201] not in asked
    assert [one.attempt for one in found.verdicts] == [0, 1]


def test_another_endpoint_has_the_same_record_and_budget(tmp_path: Path) -> None:
    """A budget that began anew with each update of the weights would limit nothing."""
    prompt = [{"role": "user", "content": "Advise."}]
    with fake_endpoint(completion("Punish waiting.", prompt=50, tokens=10)) as fake:
        first = Endpoint(base_url=fake.url, model="fake")
        author = Author(Client(first, BudgetConfig(tokens_max=150), tmp_path / "calls.jsonl"), "spec", 0, 100, False)
        author.generate_sentence("note", None, prompt, 1, set())
        author.use_endpoint(first.model_copy(update={"model": "fake+tuned"}))
        assert (author.model, author.name) == ("fake+tuned", "fake")
        with pytest.raises(BudgetSpentError):
            author.generate_sentence("note", None, prompt, 2, set())
        author.use_endpoint(first)
        assert author.generate_sentence("note", None, prompt, 1, set())[0] == "Punish waiting."
    assert [one["model"] for one in fake.requests] == ["fake"], "the first call is in the record"


def test_a_whole_module_is_taken_in_place_of_edits() -> None:
    with fake_endpoint(fenced(f"import unknown\n{CODE}")) as fake:
        author = Author(Client(Endpoint(base_url=fake.url, model="fake")), "code", 0, 100, False)
        found = author.generate(Kind.REWARD, [{"role": "user", "content": "Edit the reward."}], 5, CODE)
    assert [(one.stage, one.reason) for one in found.verdicts] == [("static check", "import")]


def test_an_answer_whose_repair_is_refused_stays_with_its_prompt() -> None:
    """The last answer was stored after the request for its repair, which contains it, and learnt from as its reply."""
    prompt = [{"role": "user", "content": "Write a reward."}]
    for replies, expected in (
        ((completion("no"), (400, {}, "{}")), ("no", prompt)),
        ((completion("no"), completion("nor"), (400, {}, "{}")), ("nor", None)),
    ):
        with fake_endpoint(*replies) as fake:
            author = Author(Client(Endpoint(base_url=fake.url, model="fake")), "spec", 3, 100, True)
            found = author.generate(Kind.REWARD, prompt, 5)
        assert found.text is None and found.answer is not None and found.answer["text"] == expected[0]
        assert list(found.conversation) == (expected[1] or fake.requests[1]["messages"])
        last = found.verdicts[-1]
        assert (last.stage, last.reason, last.attempt) == ("endpoint", "refused", len(replies) - 1)


@pytest.mark.parametrize(
    ("answer", "finish", "text", "reason"),
    [
        ("Instruction: 'Punish waiting.'", "stop", "Punish waiting.", "ok"),
        ("Note: **Punish\nwaiting", "stop", "Punish waiting.", "ok"),
        ("Trade now!", "stop", "Trade now!", "ok"),
        ("Trade it", "stop", None, "empty"),
        ("Reward patience.", "stop", None, "known"),
        ("Punish waiting. Reward pat", "length", "Punish waiting.", "ok"),
        ("Punish waiting and reward pat", "length", None, "truncated"),
        ("x" * 300, "stop", "x" * 300 + ".", "ok"),
        ("Punish waiting. " + "x" * 300, "stop", "Punish waiting.", "ok"),
        ("Trade now! Reward pat", "length", "Trade now!", "ok"),
        ("Punish waiting. Use a weight of 0.5 for wha", "length", "Punish waiting.", "ok"),
        ("Use a weight of 0.5 for wha", "length", None, "truncated"),
        ("x" * 298 + " .5 and so on.", "stop", None, "truncated"),
    ],
)
def test_an_instruction_is_the_whole_sentences_of_an_answer(
    answer: str, finish: str, text: str | None, reason: str
) -> None:
    with fake_endpoint(completion(answer, finish)) as fake:
        author = Author(Client(Endpoint(base_url=fake.url, model="fake")), "spec", 0, 1000, False)
        prompt = [{"role": "user", "content": "Advise."}]
        found, verdict = author.generate_sentence("note", Kind.REWARD, prompt, 7, {"Reward patience."})
    assert (found, verdict.stage, verdict.reason, verdict.text) == (text, "note", reason, answer)
    assert [fake.requests[0][name] for name in ("seed", "temperature", "max_tokens")] == [7, 0.5, 100]


@pytest.mark.parametrize(("base", "again"), [(None, "the whole corrected module"), (CODE, "all edits, corrected")])
def test_a_repair_of_edits_asks_for_edits(base: str | None, again: str) -> None:
    edit = "<<<<<<< SEARCH\nnowhere\n=======\nhere\n>>>>>>> REPLACE\n"
    with fake_endpoint(completion(edit)) as fake:
        author = Author(Client(Endpoint(base_url=fake.url, model="fake")), "code", 1, 100, False)
        found = author.generate(Kind.REWARD, [{"role": "user", "content": "Edit the reward."}], 5, base)
    assert found.text is None and again in fake.requests[1]["messages"][-1]["content"]
    assert "response_format" not in fake.requests[0], "code has no schema"


@pytest.mark.parametrize(("size", "context_tokens", "tokens"), [
    ("large", 4096, 1696), ("tiny", 4096, 400), ("tiny", 2500, 100),
])  # fmt: skip
def test_a_prompt_leaves_room_for_an_answer_and_its_repair(size: Size, context_tokens: int, tokens: int) -> None:
    """An answer of 1,000 tokens, the same again, and its errors."""
    author = Author(Client(Endpoint(model="any")), "spec", 3, 1000, False, size, context_tokens)
    assert author.prompt_tokens == tokens


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("form", ["spec", pytest.param("code", marks=pytest.mark.long)])
def test_an_endpoint_can_write_every_kind(form: Form, tmp_path: Path) -> None:
    """Kinds that are settings are specifications in both."""
    forms = {kind: form_of(kind, form) for kind in Kind}
    replies = [
        completion(text) if forms[kind] == "spec" else fenced(text) for kind in Kind for text in [example(kind, form)]
    ]
    database, _, evaluator, asked = ran(
        tmp_path, replies, Accepting(), kinds=list(Kind), scenario="multi", form=form, repairs_max=0
    )
    assert counted(database) == {("dry run", "ok"): len(Kind), ("done", "ok"): 1}
    (modules,) = (json.loads(row["modules"]) for row in database.rows("SELECT modules FROM candidates WHERE slot = 0"))
    assert set(modules) == set(Kind)
    kept = {Kind(row["kind"]): row["form"] for row in database.rows("SELECT kind, form FROM modules")}
    assert kept == forms
    for kind, request in zip(Kind, asked, strict=True):
        assert "JSON object alone" in request["messages"][1]["content"] or forms[kind] == "code"
    assert len(evaluator.asked) == 2, "with the incumbent"


class Accepting(Arithmetic):
    """Any candidate is as good."""

    def __call__(self, candidates: Sequence[Candidate], folder: Path) -> list[Result]:
        self.asked += [candidate.key for candidate in candidates]
        return [Result("done", "", score_of(1.0), None, {}) for _ in candidates]


def test_half_of_a_surrogate_pair_is_stored_as_a_question_mark(tmp_path: Path) -> None:
    with fake_endpoint(completion("Prefer small terms \ud83d.")) as fake:
        author = Author(Client(Endpoint(base_url=fake.url, model="fake")), "spec", 0, 100, False)
        text, verdict = author.generate_sentence(
            "instruction", Kind.REWARD, ({"role": "user", "content": "u"},), 0, set()
        )
    assert text == verdict.text == "Prefer small terms ?."
    database = run.begin(tmp_path, config_of(), "test", resume=False)
    database.add_instructions(1, [Instruction(Kind.REWARD, text, "refined")])
    database.close()


def test_three_repairs_and_no_more(tmp_path: Path) -> None:
    database, _, evaluator, asked = ran(tmp_path, [completion("no")], iterations=2)
    assert counted(database) == {("answer", "prose"): 8}
    assert len(asked) == 8
    assert evaluator.asked == [Candidate({}).key], "nothing but the incumbent"
    assert [row[0] for row in database.rows("SELECT stage FROM candidates")] == ["rejected", "done", "rejected"]


@pytest.mark.parametrize(("reply", "reason"), [
    (CLOSE, "unreachable"), ((429, {"Retry-After": "0"}, "{}"), "unreachable"), ((503, {}, "{}"), "unreachable"),
])  # fmt: skip
def test_an_unreachable_endpoint_is_counted(reply: Any, reason: str, tmp_path: Path) -> None:
    database, config, _, _ = ran(tmp_path, [reply], iterations=9, empty_iterations_max=2)
    assert counted(database) == {("endpoint", reason): 2}
    assert (
        "2 iterations in a row had no valid candidate; the last verdict: endpoint"
        in summary(database, config)["stopped"]
    )


def test_a_wrong_key_ends_a_run_at_once_and_a_right_one_goes_on(tmp_path: Path) -> None:
    refused: Any = (401, {}, '{"error": {"message": "bad key"}}')
    with fake_endpoint(refused, completion(REWARD), completion(OTHER)) as fake:
        config = config_of(
            proposer="dek",
            high_level=None,
            iterations=1,
            candidates=2,
            endpoint=endpoint_of(fake.url),
            search=MODEL_ALONE,
        )
        database = run.begin(tmp_path, config, "test", resume=False)
        with pytest.raises(EndpointRefusedError, match=r"bad key.*--resume"):
            run.research(config, tmp_path, database, Arithmetic())
        assert len(fake.requests) == 1
        run.research(config, tmp_path, database, Arithmetic())
    assert counted(database) == {("dry run", "ok"): 2, ("done", "ok"): 2}


def test_what_is_refused_later_is_counted(tmp_path: Path) -> None:
    database, _, _, asked = ran(tmp_path, [completion(REWARD), (400, {}, "{}")], candidates=3)
    assert counted(database) == {("dry run", "ok"): 1, ("done", "ok"): 1, ("endpoint", "refused"): 2}
    assert len(asked) == 3


def test_it_comes_back(tmp_path: Path) -> None:
    database, _, evaluator, _ = ran(tmp_path, [CLOSE, CLOSE, completion(REWARD)], candidates=2)
    assert counted(database) == {("endpoint", "unreachable"): 1, ("dry run", "ok"): 1, ("done", "ok"): 1}
    assert len(evaluator.asked) == 2, "with the incumbent"


def test_the_budget_of_tokens_ends_a_run_that_can_go_on(tmp_path: Path) -> None:
    database, config, _, asked = ran(
        tmp_path, [completion(REWARD, prompt=1000, tokens=400)], candidates=9, llm_budget={"tokens_max": 4900}
    )
    assert "tokens are spent" in summary(database, config)["stopped"]
    assert len(asked) == 3
    assert database.slots(1) == {0, 1, 2}


BAD_CODE = {
    "constant": (CODE.replace("return traded", "return 0.0 * traded  #"), ("dry run", "pays for nothing")),
    "nan": (CODE.replace("- 1.0 * step.unfilled", "+ (-1.0 - step.filled) ** 0.5"), ("dry run", "not finite")),
    "endless": (CODE.replace("    held =", "    while True:\n        pass\n    held ="), None),
    "reads the scores": (CODE.replace("    held =", "    scores = open('run.db').read()\n    held ="), ("static check", "touches files")),
}  # fmt: skip


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in ("nan", "endless") else ()) for name in BAD_CODE]
)
def test_bad_code_has_a_verdict(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from serl.researcher.sandbox.limits import Limits
    from serl.researcher.validation import validate

    monkeypatch.setattr(validate.validate, "__defaults__", ("code", Limits(wall_s=6.0, cpu_s=3)))
    code, verdict = BAD_CODE[name]
    database, _, _, _ = ran(tmp_path, [fenced(code), completion("no")], form="code", repairs_max=0, candidates=2)
    found = counted(database)
    assert found.pop(("answer", "prose")) == 1, "the loop has gone on"
    ((stage, reason),) = found
    assert (stage, reason) == verdict if verdict else (stage == "dry run" and reason != "ok"), found


def test_instructions_evolve_with_their_lineage(tmp_path: Path) -> None:
    terms = [
        {"feature": "unfilled", "shape": "linear", "weight_percent": weight, "when": "last_step"}
        for weight in (-500, 500, -200, 200, -100, 100)
    ]
    made = [completion(json.dumps(json.loads(REWARD) | {"terms": [term]})) for term in terms]
    replies = [*made[:2], completion("Punish what is left at the end."), *made[2:4], completion("Punish it harder."),
               *made[4:], completion("Do both at once.")]  # fmt: skip
    database, config, _, asked = ran(
        tmp_path, replies, high_level={"replay_share": 0.0}, iterations=3, candidates=2, fresh_share=1.0
    )
    population = database.instructions(Kind.REWARD, 4)
    assert [one.origin for one in population] == ["initial", "initial", "refined", "mutated", "crossed"]
    known = {one.id for one in population}
    for one in population[2:]:
        assert len(one.parents) == (2 if one.origin == "crossed" else 1)
        assert set(one.parents) < known
    assert sum(one.uses for one in population) == 6
    later = asked[3]["messages"][1]["content"]
    assert "PA +50.00 bps" in later and "25% of the order left" in later, "the incumbent, with reasons"
    assert "-> -100.00 bps" in later, "others by their difference to it"
    assert "scored" in later, "past instructions with their scores"
    assert summary(database, config)["best"]["score"]["pa_bps"] == 50.0


class NobodyArrives(Arithmetic):
    """The survivor of a rung fails later, the others were stopped at the rung."""

    def __call__(self, candidates: Sequence[Candidate], folder: Path) -> list[Result]:
        _, *stopped = super().__call__(candidates, folder)
        halved = [Result("halved", "stopped early", result.score, None, {}) for result in stopped]
        return [Result("training", "timeout", None, None, {}), *halved]


def test_an_iteration_without_anybody_done_teaches_too(tmp_path: Path) -> None:
    replies = [completion(REWARD), completion(OTHER), completion("Punish what is left at the end."), completion(REWARD)]
    database, _, _, asked = ran(
        tmp_path, replies, NobodyArrives(), high_level={"replay_share": 0.0}, iterations=2, candidates=2
    )
    assert database.iterations_done == 2
    assert [row[0] for row in database.rows("SELECT stage FROM candidates WHERE iteration = 1")] == ["training", "halved", "halved"]  # fmt: skip
    assert "Past modules" in asked[3]["messages"][1]["content"]
    assert "which you must beat" not in asked[3]["messages"][1]["content"]


def test_the_best_prompts_are_replayed(tmp_path: Path) -> None:
    database, _, _, _ = ran(
        tmp_path,
        [completion(REWARD), completion(OTHER)],
        high_level={"replay_share": 1.0},
        iterations=2,
        fresh_share=1.0,
    )
    first, second = database.rows("SELECT * FROM prompts ORDER BY id")
    assert first["replay_of"] is None
    assert second["replay_of"] == first["id"]
    assert second["messages"] == first["messages"]


def test_eureka_reflects_on_the_best(tmp_path: Path) -> None:
    database, _, _, asked = ran(tmp_path, [completion(BETTER)], proposer="eureka", iterations=2)
    assert "Best before" not in asked[0]["messages"][1]["content"]
    assert "Best before; improve on it" in asked[1]["messages"][1]["content"]
    assert json.loads(database.rows("SELECT parents FROM candidates WHERE iteration = 2")[0][0]) == [[1, 0]]


def test_children_keep_what_is_not_rewritten(tmp_path: Path) -> None:
    agent = example(Kind.AGENT, "spec")
    database, _, _, _ = ran(
        tmp_path, [completion(BETTER), completion(agent), completion("no")], kinds=["reward", "agent"], iterations=2, candidates=1,
        fresh_share=0.0, rewritten=0.01, repairs_max=0,
    )  # fmt: skip
    first, _, second = database.rows("SELECT * FROM candidates ORDER BY iteration, slot")
    assert set(json.loads(first["modules"])) == {"reward", "agent"}
    assert json.loads(second["parents"]) == [[1, 0]]
    assert second["stage"] == "rejected", "the one module that was to be new is not valid"
    assert Candidate({}).key != first["key"]
