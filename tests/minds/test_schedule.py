"""When minds decide, on a clock of the test."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.minds import run
from serl.minds.config import SECOND_NS
from serl.minds.errors import MindsError
from serl.minds.mind import Mind
from serl.minds.run import RunOptions
from serl.minds.schedule import schedule_of
from tests.minds.scripted import settings

HOUR_NS = 3600 * SECOND_NS


def decisions(monkeypatch: pytest.MonkeyPatch, start_h: float, decision_h: float) -> list[float]:
    """Hours at which a mind decides from 09:30 to 10:30 of two days, every half an hour, if it starts at one and takes so long for each."""
    now_ns, found = [round(start_h * HOUR_NS)], []

    async def exchange_time_ns(client: object) -> int:
        return now_ns[0]

    async def wait_until(client: object, time_ns: int) -> int:
        now_ns[0] = max(now_ns[0], time_ns)
        return now_ns[0]

    async def decide(time_ns: int) -> None:
        found.append(time_ns / HOUR_NS)
        now_ns[0] += round(decision_h * HOUR_NS)

    monkeypatch.setattr(run, "exchange_time_ns", exchange_time_ns)
    monkeypatch.setattr(run, "wait_until", wait_until)
    config = settings(personas=[{"name": "one"}], hours="09:30-10:30", days=2, interval_s=1800)
    mind: Any = SimpleNamespace(
        ended="", persona=config.personas[0], client=SimpleNamespace(core=SimpleNamespace(lockstep=False)),
        counts=SimpleNamespace(decisions=0), decide=decide,
    )  # fmt: skip
    schedule = schedule_of(config, now_ns[0], 0, lockstep=False)
    asyncio.run(run._trade(cast("Mind", mind), schedule, [mind], RunOptions("")))
    assert now_ns[0] >= schedule.end_ns
    return found


@pytest.mark.parametrize(
    ("start_h", "decision_h", "expected"),
    [
        (9, 0.1, [9.5, 10, 33.5, 34]),
        (20, 0.1, [33.5, 34]),
        (9.75, 0.1, [9.75, 10, 33.5, 34]),
        (9, 0.6, [9.5, 33.5]),
    ],
)
def test_minds_decide_in_their_hours_only(
    monkeypatch: pytest.MonkeyPatch, start_h: float, decision_h: float, expected: list[float]
) -> None:
    assert decisions(monkeypatch, start_h, decision_h) == expected


@pytest.mark.parametrize(
    ("lockstep", "now_h", "days", "message"),
    [
        (True, 9.75, 1, r"that have not begun, got 09:30-10:30 \(1 day\) at 09:45:00; give later ones, or start a fresh exchange$"),
        (False, 35, 2, r"that have not ended, got 09:30-10:30 \(2 days\) at 11:00:00; .* exchange with --clock-start 09:30:00$"),
    ],
)  # fmt: skip
def test_hours_that_are_too_early(lockstep: bool, now_h: float, days: int, message: str) -> None:
    """The second run on an exchange in lockstep was told that its hours were over, while they lasted."""
    config = settings(hours="09:30-10:30", days=days)
    with pytest.raises(MindsError, match=message):
        schedule_of(config, round(now_h * HOUR_NS), 0, lockstep=lockstep)
