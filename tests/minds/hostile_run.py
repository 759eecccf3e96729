"""The files of a run whose models and news write hostile texts."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from serl.minds.files import STATISTICS, DecisionFile, write_statistics
from tests.minds.scripted import NOTHING, Answer, clock_of, name_of, order, prompt_of, run, scripted, settings
from tests.researcher.llm.fake import fake_endpoint
from tests.server_fixture import start_exchange

HOSTILE = "</td><script>alert('1')</script><img src=x onerror=alert(2)> & \u202e\u0000 \"'"


def answer(request: dict[str, Any]) -> Answer | str:
    """A seller, a buyer, and one that writes prose; all that models write is hostile."""
    minute = int(clock_of(request)[3:5]) - 30 if clock_of(request) else -1
    if "Look back" in prompt_of(request):
        return {"insight": f"Lesson {HOSTILE}", "importance": 60}
    if name_of(request) == "prose-0":
        return HOSTILE
    action = order("sell", 10, 101) if name_of(request) == "holder-0" else order("buy", 4)
    texts = {"reason": f"because {HOSTILE}", "post": f"post {HOSTILE}"}
    return (action if minute == (name_of(request) == "buyer-0") else NOTHING) | texts


def record(path: Path) -> Path:
    """Runs three minds, one of them with an event, and writes their files into a folder."""
    event = {"kind": "news", "time": "09:31", "symbol": "AMZN", "text": f"AMZN falls {HOSTILE}", "value": 2.5}
    (path / "events.jsonl").write_text(json.dumps(event))
    personas = [
        {"name": "holder", "shares": {"AMZN": 10}},
        {"name": "buyer", "cash": 1000, "style": HOSTILE},
        {"name": "prose"},
    ]
    config = settings(personas=personas, events="events.jsonl", memory={"reflect_every": 2})
    with (
        start_exchange(symbols="AMZN", clock="lockstep") as served,
        fake_endpoint(scripted(answer)) as fake,
        DecisionFile(path) as decisions,
        ThreadPoolExecutor(1) as thread,
    ):  # a browser's loop may run in this one
        found = thread.submit(lambda: asyncio.run(run(config, served.endpoint, fake, path, log=decisions.add))).result()
    write_statistics(path / STATISTICS, found)
    return path
