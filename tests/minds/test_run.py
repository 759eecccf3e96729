"""Minds on a real exchange, with a scripted endpoint."""

import asyncio
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.clients import asynchronous
from serl.clients.blocking import connect
from serl.minds.errors import MindsConfigError, MindsError
from serl.minds.statistics import table_text
from tests.minds.scripted import (
    NOTHING,
    Answer,
    clock_of,
    name_of,
    order,
    prompt_of,
    run,
    scripted,
    settings,
)
from tests.researcher.llm.fake import fake_endpoint
from tests.server_fixture import Served, start_exchange

HOURS = itertools.count(1)
"""A run in lockstep begins later than the one before."""


@pytest.fixture(scope="module")
def lockstep() -> Iterator[Served]:
    with start_exchange(symbols="AMZN,GOOG", clock="lockstep") as served:
        yield served


@pytest.fixture(scope="module")
def live() -> Iterator[Served]:
    with start_exchange(symbols="AMZN,GOOG") as served:
        yield served


def next_hours(minutes: int = 4) -> str:
    hour = next(HOURS)
    return f"{hour:02}:30-{hour:02}:{30 + minutes}"


def row_of(statistics: dict[str, Any], mind: str) -> dict[str, Any]:
    (found,) = [row for row in statistics["minds"] if row["mind"] == mind]
    return dict(found)


def test_minds_trade_with_each_other(lockstep: Served) -> None:
    """One sells to the other; what both own afterwards is what the exchange says."""
    hours = next_hours()

    def answer(request: dict[str, Any]) -> Answer:
        minute = int(clock_of(request)[3:5]) - 30
        if name_of(request) == "holder-0":
            return order("sell", 10, 101) if minute == 0 else NOTHING
        return order("buy", 4) if minute == 1 else order("buy", 3, 101.5) if minute == 2 else NOTHING

    personas = [{"name": "holder", "shares": {"AMZN": 10}}, {"name": "buyer", "cash": 1000}]
    with fake_endpoint(scripted(answer)) as fake:
        found = asyncio.run(run(settings(personas=personas, hours=hours), lockstep.endpoint, fake))
    holder, buyer = row_of(found, "holder-0"), row_of(found, "buyer-0")
    assert (holder["orders"], holder["fills"], buyer["orders"], buyer["fills"]) == (1, 2, 2, 2)
    assert holder["turnover"] == buyer["turnover"] == 707
    assert holder["final_wealth"] == 100_000 + 1010, "3 shares are left at the last price, 101"
    assert buyer["final_wealth"] == 1000
    assert found["all"]["decisions"] == found["all"]["valid"] == 8
    assert buyer["actions"] == {"buy": 2, "nothing": 2}
    assert any("Filled 4 of your order" in prompt_of(one) for one in fake.requests if name_of(one) == "buyer-0")
    news = [prompt_of(one).partition("You remember:")[0] for one in fake.requests if name_of(one) == "holder-0"]
    assert ["Filled 4 of your order" in text for text in news] == [False, False, True, False], "told once"
    last = prompt_of([one for one in fake.requests if name_of(one) == "holder-0"][-1])
    assert "S1 3 lots (free: 0)" in last and "sell 3 S1 at 101.00" in last


def test_minds_without_a_model_trade_at_random() -> None:
    """Within their means, the same with the same seed, and without a call of the model."""
    personas = [{"name": "asks"}, {"name": "chance", "count": 6, "decides": "random", "shares": {"AMZN": 50}}]
    found = []
    for seed in (1, 1, 2):
        with (
            fake_endpoint(scripted(lambda request: NOTHING)) as fake,
            start_exchange(symbols="AMZN", clock="lockstep") as served,
        ):
            config = settings(personas=personas, seed=seed, loans={}, hours="09:30-09:38", memory={"reflect_every": 2})
            found.append(asyncio.run(run(config, served.endpoint, fake)))
            assert {name_of(one) for one in fake.requests} == {"asks-0"}
    one, same, other = (each["deciders"]["random"] for each in found)
    assert one == same != other
    assert one["minds"] == 6 and one["decisions"] == one["valid"] == 48 and one["calls"] == one["posts"] == 0
    assert set(one["actions"]) >= {"buy", "sell", "nothing"} and one["fills"] and not one["refused"]
    assert found[0]["deciders"]["model"]["minds"] == 1 and found[0]["personas"]["chance"]["orders"] == one["orders"]
    assert "at random" in table_text(found[0]) and "deciders" not in found[0]["personas"]


def test_bad_answers_are_counted_and_told_and_the_market_goes_on(lockstep: Served) -> None:
    bad: list[Answer | str] = [
        "I would rather buy.", order("buy", 10_000, 100), order("sell", 1, 100), order("buy", 1, 1),
        order("buy", 1, 100, "S7"), {"reason": "", "action": "cancel", "order_id": 99}, {"action": "short"}, NOTHING,
    ]  # fmt: skip
    turns = iter(bad)

    def answer(request: dict[str, Any]) -> Answer | str:
        return next(turns) if name_of(request) == "bad-0" else order("buy", 1, 90)

    config = settings(personas=[{"name": "bad"}, {"name": "good"}], hours=next_hours(8))
    with fake_endpoint(scripted(answer)) as fake:
        found = asyncio.run(run(config, lockstep.endpoint, fake))
    row = row_of(found, "bad-0")
    assert row["refused"] == dict.fromkeys(("prose", "cash", "shares", "price", "symbol", "order_id", "schema"), 1)
    assert (row["decisions"], row["valid"], row["orders"]) == (8, 1, 0)
    prompts = [prompt_of(one) for one in fake.requests if name_of(one) == "bad-0"]
    told = ["answer with one JSON object", "your free cash is", "you have 0 that no order offers", "expected a price of S1",
            "expected a symbol", "expected the id", "not a valid answer"]  # fmt: skip
    for before, after, text in zip(prompts, prompts[1:], told, strict=False):
        assert text in after and text not in before
    assert row_of(found, "good-0")["orders"] == 8


def test_no_prompt_contains_an_event_before_its_time(lockstep: Served, tmp_path: Path) -> None:
    hours = next_hours()
    hour = hours[:2]
    events = [
        {
            "kind": kind,
            "time": f"{hour}:{30 + at // 60}:{at % 60:02}",
            "text": f"secret{at} about AMZN",
            "value": at / 1000,
        }
        for at, kind in [
            (0, "news"),
            (1, "macro"),
            (60, "fundamental"),
            (119, "loan_rate"),
            (170, "news"),
            (239, "news"),
        ]
    ]
    events.append({**events[3], "value": 0.5, "text": "the contrary"})
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    config = settings(
        hours=hours, events="events.jsonl", loans={"rate_per_year": 0.02}, personas=[{"name": "seer", "count": 2}]
    )
    with fake_endpoint(scripted(lambda request: NOTHING)) as fake:
        found = asyncio.run(run(config, lockstep.endpoint, fake, tmp_path))
    assert len(fake.requests) == 8
    for request in fake.requests:
        minutes, seconds = map(int, clock_of(request).split(":")[1:])
        now_s = (minutes - 30) * 60 + seconds
        new = prompt_of(request).partition("New events:")[2].partition("You remember:")[0]
        seen = {int(one) for one in re.findall(r"secret(\d+)", new)}
        assert seen == {at for at in (0, 1, 60, 119, 170, 239) if now_s - 60 < at <= now_s}, "each once, at once"
        assert all(int(one) <= now_s for one in re.findall(r"secret(\d+)", json.dumps(request)))
        assert "AMZN" not in json.dumps(request), "prompts are anonymous"
        rate = "2.00%" if now_s < 119 else "50.00%"
        assert f"at {rate} a year" in prompt_of(request)
        assert ("contradicts an earlier report" in new) == (now_s == 120)
    assert found["contradictions"] == 1
    assert row_of(found, "seer-0")["events"] == 6, "the last one comes after the last decision"


def test_posts_are_read_at_the_next_decision(lockstep: Served) -> None:
    def answer(request: dict[str, Any]) -> Answer:
        return {**NOTHING, "post": f"{name_of(request)}\nat {clock_of(request)}"}

    with fake_endpoint(scripted(answer)) as fake:
        config = settings(personas=[{"name": "poster", "count": 2}], hours=next_hours())
        found = asyncio.run(run(config, lockstep.endpoint, fake))
    assert found["all"]["posts"] == 8
    for request in fake.requests:
        posts = prompt_of(request).partition("Posts of other traders:")[2].partition("You are ")[0]
        minute = int(clock_of(request)[3:5])
        other = "poster-1" if name_of(request) == "poster-0" else "poster-0"
        expected = [] if minute == 30 else [f"{other}: {other} at {clock_of(request)[:3]}{minute - 1}:00"]
        assert re.findall(r"- (.+ at [\d:]+)", posts) == expected


def test_an_endpoint_that_is_away_stops_nobody(lockstep: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    said: list[str] = []
    config = settings(personas=[{"name": "lonely"}], hours=next_hours())
    found = asyncio.run(run(config, lockstep.endpoint, url, say=said.append))
    row = row_of(found, "lonely-0")
    assert (row["decisions"], row["refused"], row["valid"]) == (4, {"endpoint": 4}, 0)
    (line,) = said
    assert "check that it is running" in line
    assert row["final_wealth"] == 100_000


def test_a_mind_without_a_budget_trades_no_more(lockstep: Served) -> None:
    said: list[str] = []
    personas = [{"name": "spender", "cash": 1000}, {"name": "thrifty", "every": 3}]
    config = settings(personas=personas, hours=next_hours(), budget_per_mind={"calls_max": 2})
    with fake_endpoint(scripted(lambda request: order("buy", 1, 90))) as fake:
        found = asyncio.run(run(config, lockstep.endpoint, fake, say=said.append))
    spender, thrifty = row_of(found, "spender-0"), row_of(found, "thrifty-0")
    assert (spender["decisions"], spender["orders"], thrifty["decisions"]) == (2, 2, 2)
    assert len(fake.requests) == 4
    assert spender["ended"] == "spender-0: 2 of 2 calls are made; raise calls_max"
    assert thrifty["ended"] == ""
    assert said == [f"{spender['ended']}; spender-0 trades no more"]
    assert "bids 90.00 x 1;" in prompt_of(fake.requests[-1]), "only its own order: those of the other were cancelled"


def test_all_minds_share_a_budget(lockstep: Served) -> None:
    """Calls reserve what they may take, so that calls side by side do not exceed the budget together; what they leave is used."""
    config = settings(personas=[{"name": "many", "count": 3}], hours=next_hours(), budget={"tokens_max": 2000})
    with fake_endpoint(scripted(lambda request: NOTHING)) as fake:
        found = asyncio.run(run(config, lockstep.endpoint, fake, say=lambda text: None))
    spent = found["all"]["prompt_tokens"] + found["all"]["completion_tokens"]
    assert spent == 120 * found["all"]["calls"] == 120 * len(fake.requests) < 2000
    assert len(fake.requests) < 12
    assert min(row["decisions"] for row in found["minds"]) >= 2, "none ends only because others are asking"
    ended = [row["ended"].startswith("all minds: ") for row in found["minds"]]
    assert ended == [row["decisions"] < 4 for row in found["minds"]]


def test_equal_prompts_are_asked_once(lockstep: Served) -> None:
    config = settings(personas=[{"name": "twin", "count": 3}], hours=next_hours(), shared_answers=True)
    with fake_endpoint(scripted(lambda request: NOTHING)) as fake:
        found = asyncio.run(run(config, lockstep.endpoint, fake))
    assert len(fake.requests) == 4
    assert (found["all"]["decisions"], found["all"]["calls"], found["all"]["shared_answers"]) == (12, 4, 8)


def test_reflections_and_loans(lockstep: Served, tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"kind": "news", "text": "remember this", "after_s": 0}')

    def answer(request: dict[str, Any]) -> Answer:
        if "Look back" in prompt_of(request):
            return {"insight": "Patience pays.", "importance": 90}
        return {"reason": "", "action": "borrow", "amount": 30_000}

    config = settings(
        personas=[{"name": "debtor"}], hours=next_hours(6), loans={"share_max": 0.7},
        memory={"reflect_every": 3}, events="events.jsonl",
    )  # fmt: skip
    with fake_endpoint(scripted(answer)) as fake:
        found = asyncio.run(run(config, lockstep.endpoint, fake, tmp_path))
    row = row_of(found, "debtor-0")
    assert row["actions"] == {"borrow": 2}
    assert row["refused"] == {"loan": 4}, "beyond 70 % of its wealth"
    assert row["reflections"] == 2
    assert "Patience pays." in prompt_of(fake.requests[-2])
    assert "Your loan: 60000.00" in prompt_of(fake.requests[-2])


def test_a_repeated_run_is_answered_from_its_record(tmp_path: Path) -> None:
    """In lockstep, on a fresh exchange: the same prompts, so no calls, and the same decisions. The fourth login waits until it is admitted."""
    record, seen = tmp_path / "calls.jsonl", []

    def answer(request: dict[str, Any]) -> Answer:
        return order("sell" if name_of(request) in ("pair-0", "pair-2") else "buy", 2, 100)

    config = settings(personas=[{"name": "pair", "count": 4, "shares": {"AMZN": 100}}], hours="09:30-09:33")
    slow: dict[str, object] = {"limits": {"new_names_per_s_max": 0.4}}
    for calls in (12, 0):
        with (
            start_exchange(symbols="AMZN", clock="lockstep", config=slow, folder=tmp_path) as served,
            fake_endpoint(scripted(answer)) as fake,
        ):
            seen.append(asyncio.run(run(config, served.endpoint, fake, record=record)))
            assert len(fake.requests) == calls
    assert seen[0] == seen[1]
    assert seen[0]["all"]["fills"] == 12


def test_what_cannot_start_says_why(lockstep: Served) -> None:
    async def fails(**values: Any) -> None:
        await run(settings(**values), lockstep.endpoint, "http://127.0.0.1:1/v1")

    with pytest.raises(MindsConfigError, match=r"expected symbols of the exchange \(AMZN, GOOG\), got TSLA"):
        asyncio.run(fails(symbols=["TSLA"], hours="23:00-23:01", prices={}))
    with pytest.raises(MindsConfigError, match=r"expected symbols that the minds trade \(GOOG\), got AMZN"):
        asyncio.run(fails(symbols=["GOOG"], hours="23:00-23:01"))
    with connect(lockstep.endpoint, "early") as early:
        if not early.session.clock[2]:  # no other test has begun the day
            early.turn(1)
    with pytest.raises(MindsError, match="expected hours that have not begun"):
        asyncio.run(fails(hours="00:00-00:01"))


@pytest.mark.long
def test_an_interrupted_command_writes_its_statistics(live: Served, tmp_path: Path) -> None:
    """On a live clock, with the command line, where an answer never comes: Ctrl-C ends it at once."""
    config = {"name": "brief", "model": "tiny", "duration_s": 600, "interval_s": 0.2, "prices": {"AMZN": 100}, "symbols": ["AMZN"],
              "personas": [{"name": "quick"}, {"name": "slow"}]}  # fmt: skip
    (tmp_path / "brief.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "decisions.jsonl").write_text("of an earlier run\n")
    release = threading.Event()

    def answer(request: dict[str, Any]) -> Any:
        if name_of(request) == "slow-0":
            release.wait(60)
        return order("buy", 1, 90)

    with fake_endpoint(scripted(answer)) as fake:
        command = [sys.executable, "-m", "serl", "minds", "start", "--config", "brief.yaml", "--connect", live.endpoint,
                   "--url", fake.url, "--model", "fake", "--output", "out"]  # fmt: skip
        started = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "OPENAI_API_KEY": "none"},
        )  # fmt: skip
        decisions = tmp_path / "out" / "decisions.jsonl"
        while started.poll() is None and decisions.read_text().count("\n") < 3:
            time.sleep(0.05)
        started.send_signal(signal.SIGINT)
        output, errors = started.communicate(timeout=60)
        release.set()
    assert started.returncode == 0, errors
    assert "stopped early" in output and "quick" in output and "Traceback" not in errors
    statistics = json.loads((tmp_path / "out" / "statistics.json").read_text())
    assert statistics["stopped_early"]
    assert "earlier run" not in decisions.read_text()
    assert row_of(statistics, "quick-0")["orders"] >= 2
    assert row_of(statistics, "slow-0")["decisions"] == 0
    assert row_of(statistics, "quick-0")["final_wealth"] == 100_000


def test_a_mind_whose_session_is_taken_over_leaves_the_others_alone(live: Served) -> None:
    said: list[str] = []

    async def taken_over() -> dict[str, Any]:
        loop, asked = asyncio.get_running_loop(), asyncio.Event()

        def answer(request: dict[str, Any]) -> Answer:
            loop.call_soon_threadsafe(asked.set)
            return NOTHING

        with fake_endpoint(scripted(answer)) as fake:
            config = settings(personas=[{"name": "first", "count": 2}], hours=None, duration_s=1.0, interval_s=0.1)
            running = asyncio.create_task(run(config, live.endpoint, fake, say=said.append))
            await asked.wait()
            async with await asynchronous.connect(live.endpoint, "first-0", replace=True):
                return await running

    found = asyncio.run(taken_over())
    assert "replaced" in row_of(found, "first-0")["ended"]
    assert row_of(found, "first-0")["final_wealth"] is None
    assert row_of(found, "first-1")["ended"] == ""
    assert row_of(found, "first-1")["final_wealth"] == 100_000
    assert said == [f"first-0 trades no more: {row_of(found, 'first-0')['ended'].removeprefix('error: ')}"]


@pytest.mark.long
def test_a_lockstep_exchange_that_dies_is_noticed(tmp_path: Path) -> None:
    """Heartbeats come while time stands still, here for a second participant; once they stay away, the mind ends."""
    silence = {"silence_s": 3.0, "heartbeat_s": 0.2}
    clock: dict[str, object] = {"clock": {"kind": "lockstep", "participants": 2}, "intervals": silence}

    async def killed() -> dict[str, Any]:
        with start_exchange(symbols="AMZN", clock="", config=clock, folder=tmp_path) as served:
            running = asyncio.create_task(
                run(settings(), served.endpoint, "http://127.0.0.1:1/v1", say=lambda text: None)
            )
            await asyncio.wait({running}, timeout=6.0)
            assert not running.done()
            served.kill()
            return await running

    row = row_of(asyncio.run(killed()), "solo-0")
    assert row["ended"].startswith("error: expected a heartbeat from") and row["final_wealth"] is None


def test_personas_are_in_the_prompt(lockstep: Served) -> None:
    persona = {
        "name": "bold",
        "risk": "seeking",
        "style": "momentum in AMZN",
        "horizon": "minutes",
        "text": "You sleep badly.",
    }
    with fake_endpoint(scripted(lambda request: NOTHING)) as fake:
        asyncio.run(run(settings(personas=[persona], hours=next_hours(1)), lockstep.endpoint, fake))
    (request,) = fake.requests
    for text in ("You are bold-0", "You seek risk", "momentum in S1", "for minutes", "You sleep badly."):
        assert text in prompt_of(request)
    assert request["response_format"]["json_schema"]["schema"]["properties"]["symbol"] == {"enum": ["S1"]}
