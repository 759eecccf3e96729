"""Events of a file, and how long prompts with many of them take."""

import json
from pathlib import Path

import pytest

from serl.minds import prompts
from serl.minds.anonymous import Disguise
from serl.minds.events import MarketEvent, read_event_lines
from serl.minds.prompts import Observation, decision_messages, event_text
from tests.minds.scripted import settings
from tests.minds.test_parts import OWNED, view


def test_texts_of_events_may_contain_line_separators(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    text = "One\u2028two\x85three"
    path.write_text(
        json.dumps({"kind": "news", "text": text, "after_s": 0}, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    assert [line.text for line in read_event_lines(path, [])] == [text]


def test_a_prompt_of_a_whole_day_of_events_is_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of minds that start late: the sessions of all of them wait meanwhile."""
    written = 0

    def counted(event: MarketEvent, disguise: Disguise) -> str:
        nonlocal written
        written += 1
        return event_text(event, disguise)

    monkeypatch.setattr(prompts, "event_text", counted)
    config, names = settings(), Disguise(["AMZN"], {}, 0, active=True)
    events = [MarketEvent(number, "news", f"story {number} " + "x" * 1000) for number in range(1000)]
    seen = Observation(0, {"AMZN": view()}, OWNED, [], events=events)
    (_, user), _ = decision_messages("one", config.personas[0], seen, config, names, 3000)
    assert "story 999" in user["content"] and "story 980 " not in user["content"]
    assert written < 20 * len(events)
