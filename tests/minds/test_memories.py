"""What minds remember: their memories in prompts that fit the model's context, and requests for lessons."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.minds.anonymous import Disguise
from serl.minds.events import MarketEvent
from serl.minds.prompts import Observation, decision_messages, reflection_messages, tokens_at_most
from tests.minds.scripted import NOTHING, Answer, prompt_of, run, scripted, settings
from tests.minds.test_parts import OWNED, view
from tests.minds.test_run import row_of
from tests.researcher.llm.fake import completion, fake_endpoint
from tests.server_fixture import Served, start_exchange

NAMES = Disguise(["AMZN"], {}, 0, active=True)
RATES = "中国人民银行宣布下调存款准备金率，市场反应积极。"
FIGURES = "EPS 0.71 vs 0.65; FY24 guidance $5.10-5.30, +8% YoY. "


@pytest.fixture(scope="module")
def lockstep() -> Iterator[Served]:
    with start_exchange(symbols="AMZN", clock="lockstep") as served:
        yield served


@pytest.mark.parametrize(("text", "tokens"), [(RATES * 10, 440), (FIGURES * 10, 341)])
def test_figures_and_other_scripts_take_more_tokens(text: str, tokens: int) -> None:
    """tokens: what the tokenizer of `tiny` makes of the text."""
    assert tokens <= tokens_at_most(text) <= 2 * tokens


def test_prompts_with_figures_fit_the_context() -> None:
    """Of `tiny`, figures have a token for each digit; the oldest events are left out, also of what the mind is said to have seen."""
    config = settings()
    events = [MarketEvent(number, "news", f"story {number} " + "7" * 1000) for number in range(20)]
    seen = Observation(0, {"AMZN": view()}, OWNED, [], events=events)
    (_, user), shown = decision_messages("one", config.personas[0], seen, config, NAMES, 3000)
    assert user["content"].count("7" * 1000) == 2 and "story 19 " in user["content"]
    assert shown.events == events[-2:] and shown.portfolio is seen.portfolio


def test_requests_for_a_lesson_fit_the_context() -> None:
    """The last memories are left out."""
    config = settings()
    memories = [f"story {number} " + "word " * 400 for number in range(9)]
    _, user = reflection_messages("one", config.personas[0], memories, "Your wealth is 1.", config, NAMES, 3000)
    assert [number for number in range(9) if f"story {number} " in user["content"]] == [0, 1, 2]
    assert "most important lesson" in user["content"]


def test_a_lesson_without_an_answer_is_counted_and_reported(lockstep: Served, tmp_path: Path) -> None:
    """Decisions are counted apart: the model answered all of them."""
    (tmp_path / "events.jsonl").write_text('{"kind": "news", "text": "remember this", "after_s": 0}')
    said: list[str] = []

    def answer(request: dict[str, Any]) -> Any:
        if "Look back" in prompt_of(request):
            return 400, {}, '{"error": {"message": "too long"}}'
        return completion(json.dumps(NOTHING))

    config = settings(hours="10:30-10:34", memory={"reflect_every": 2}, events="events.jsonl")
    with fake_endpoint(answer) as fake:
        found = asyncio.run(run(config, lockstep.endpoint, fake, tmp_path, say=said.append))
    row = row_of(found, "solo-0")
    assert row["valid"] == 4 and row["refused"] == {"reflection_endpoint": 2}
    assert len(said) == 1 and "too long" in said[0]


def test_a_row_has_what_was_in_the_prompt(lockstep: Served, tmp_path: Path) -> None:
    """And not what was left out of it; that comes back as a memory once there is room."""
    lines = [{"kind": "news", "text": f"{number} " + "7" * 900, "after_s": 0} for number in range(3)]
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rows: list[dict[str, Any]] = []
    config = settings(hours="11:30-11:32", events="events.jsonl")
    with fake_endpoint(scripted(lambda request: NOTHING)) as fake:
        asyncio.run(run(config, lockstep.endpoint, fake, tmp_path, log=rows.append, context_tokens=2700))
    first, second = [row for row in rows if row["row"] == "decision"]
    texts = [text for text in (line["text"] for line in lines) if text in prompt_of(fake.requests[0])]
    assert 0 < len(texts) < 3 and [event["text"] for event in first["events"]] == texts
    assert 0 < len(second["memories"]) < 3 and all(text in prompt_of(fake.requests[1]) for text in second["memories"])


def test_an_event_without_importance_is_not_remembered(lockstep: Served, tmp_path: Path) -> None:
    """Importance 0 is the event's own, not none."""
    lines = [
        {"kind": "news", "text": text, "after_s": 0, **own} for text, own in (("kept", {}), ("lost", {"importance": 0}))
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rows: list[dict[str, Any]] = []

    def answer(request: dict[str, Any]) -> Answer:
        return NOTHING

    config = settings(hours="12:30-12:32", events="events.jsonl")
    with fake_endpoint(scripted(answer)) as fake:
        asyncio.run(run(config, lockstep.endpoint, fake, tmp_path, log=rows.append))
    first, second = [row for row in rows if row["row"] == "decision"]
    assert [event["text"] for event in first["events"]] == ["kept", "lost"]
    assert len(second["memories"]) == 1 and "kept" in second["memories"][0]
