"""Minds read the exchange's news: each message once, at once, and never before its time."""

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.agents.signals.message import Forecast
from serl.clients import asynchronous
from serl.clients.news_file import read_news_file
from serl.clients.news_sender import NewsSender
from serl.exchange.news import REPLY_MESSAGES_MAX, NewsKind
from serl.exchange.request import Request, request_socket
from serl.minds.config import SECOND_NS, load_minds
from serl.minds.events import FileEvents, MarketEvent, MergedEvents, read_event_lines
from serl.minds.news_events import NewsEvents, newest_forecasts
from tests.exchange.test_news_served import publish
from tests.minds.scripted import NOTHING, clock_of, name_of, prompt_of, run, scripted, settings
from tests.researcher.llm.fake import fake_endpoint
from tests.server_fixture import Served, launch, start_exchange

LATENCY_S = 1.5
NEWS_TIMES = (0, 1, 59, 60, 61, 119, 120, 170, 179, 239)
FILE_TIMES = (1, 60, 170)


def lines(path: Path, name: str, times: tuple[int, ...], text: str) -> Path:
    """A file with a message for each of these seconds after 09:30."""
    rows = [{"time": f"09:{30 + at // 60}:{at % 60:02}", text: f"{name}{at} of AMZN", "symbol": "AMZN"} for at in times]
    path.write_text("\n".join(json.dumps(row | {"kind": "news"}) for row in rows) + "\n")
    return path


def numbers(name: str, text: str) -> list[int]:
    return [int(found) for found in re.findall(rf"\b{name}(\d+) of", text)]


def test_in_lockstep_no_prompt_contains_a_message_before_its_time(tmp_path: Path) -> None:
    """A message of a decision's own time is read at the next one, and later by an account with a latency; events of a file come beside it."""
    lines(tmp_path / "events.jsonl", "event", FILE_TIMES, "text")
    messages = read_news_file(lines(tmp_path / "news.jsonl", "message", NEWS_TIMES, "headline"))
    late = {"latency": {"feed": {"kind": "constant", "delay_us": round(LATENCY_S * 1e6)}}}
    clock: dict[str, object] = {"clock": {"kind": "lockstep", "participants": 3}, "accounts": {"reader-1": late}}
    config = settings(personas=[{"name": "reader", "count": 2}], events="events.jsonl")

    def send(endpoint: str) -> int:
        with NewsSender(endpoint, messages, "wire", "", None) as sender:
            return len(list(sender.send()))

    async def both(endpoint: str, model: Any) -> tuple[int, dict[str, Any]]:
        return await asyncio.gather(asyncio.to_thread(send, endpoint), run(config, endpoint, model, tmp_path))

    with (
        start_exchange(symbols="AMZN", clock="", config=clock, folder=tmp_path) as served,
        fake_endpoint(scripted(lambda request: NOTHING)) as fake,
    ):
        sent, found = asyncio.run(both(served.endpoint, fake))
    assert (sent, len(fake.requests)) == (len(NEWS_TIMES), 8)
    for request in fake.requests:
        minutes, seconds = map(int, clock_of(request).split(":")[1:])
        now_s = (minutes - 30) * 60 + seconds
        late_s = LATENCY_S * (name_of(request) == "reader-1")
        assert all(at < now_s - late_s for at in numbers("message", json.dumps(request)))
        assert all(at <= now_s for at in numbers("event", json.dumps(request)))
        new = prompt_of(request).partition("New events:")[2].partition("You remember:")[0]
        assert numbers("message", new) == [at for at in NEWS_TIMES if now_s - 60 <= at + late_s < now_s], (
            "each once, in order"
        )
        assert numbers("event", new) == [at for at in FILE_TIMES if now_s - 60 < at <= now_s]
        assert "about S1: " in new or not numbers("message", new), "prompts are anonymous"
    assert [row["events"] for row in found["minds"]] == [9 + 3, 8 + 3], "the last ones come after the last decision"


def test_the_shipped_scenario_is_the_same_as_news() -> None:
    """Its loan rate comes from the source that the settings name; what is due at a decision comes a little before it."""
    config, folder = load_minds("two-stocks")
    assert config.events is not None and config.loans is not None and config.loans.rate_source == "central bank"
    messages = read_news_file(folder / "two-stocks-news.jsonl")
    lines = read_event_lines(folder / config.events, config.symbols)
    events = [line.at(0, 0) for line in lines]
    told = [(message.headline, message.symbol, message.value) for message in messages]
    assert told == [(event.text, event.symbol, event.value) for event in events]
    for message, event in zip(messages, events, strict=True):
        assert 0 <= event.time_ns - message.time_ns <= 60 * SECOND_NS
        assert (event.kind == "loan_rate") == (message.source == config.loans.rate_source)


def test_minds_read_the_newest_forecast_of_each_symbol() -> None:
    """Whatever else is published with the kind; also in old messages without volumes and fills; and none if they do not want them."""
    shares = ((0.2, 0.5, 0.3), (0.25, 0.25, 0.5))
    made = Forecast(
        "AMZN", 5, 100.5, (1.0, 10.0), (0.0, 1.5), shares, "amzn.signals", (12.5, 100.0), ((0.1, 0.2), (0.3, 0.4))
    )
    other = made._replace(symbol="DEMO", source="", volumes_lots=(), fills=())
    messages = [
        one.to_news()._replace(sequence=number, time_ns=10 * number)
        for number, one in enumerate((made._replace(fills=((0.9, 0.9), (0.9, 0.9))), other, made), 1)
    ]
    messages.append(messages[-1]._replace(sequence=4, time_ns=40, body="{}"))
    first, second = newest_forecasts(messages)
    assert (first.time_ns, first.kind, first.symbol) == (20, "forecast", "DEMO") and "lots" not in first.text
    assert (second.time_ns, second.symbol) == (30, "AMZN")
    assert second.text == (
        "In 1 s the price is up with 30%, flat with 50%, down with 20%; 12 lots trade; an order at the best price is filled: buy 10%, sell 20%. "
        "In 10 s the price is up with 50%, flat with 25%, down with 25%; 100 lots trade; an order at the best price is filled: buy 30%, sell 40%. "
        "(amzn.signals)"
    )


@pytest.mark.parametrize("reads", [True, False])
def test_a_published_forecast_is_in_the_next_prompt_and_in_no_memory(reads: bool, tmp_path: Path) -> None:
    shares = ((0.2, 0.5, 0.3),)
    news = Forecast("AMZN", 5, 100.5, (1.0,), (0.0,), shares, "amzn.signals", (12.0,), ((0.1, 0.2),)).to_news()
    clock: dict[str, object] = {"clock": {"kind": "lockstep", "participants": 1}}
    config = settings(personas=[{"name": "reader", "count": 1}], forecasts=reads)

    def answer(request: Any) -> Any:
        if len(fake.requests) == 1:
            with request_socket(served.endpoint, "admin") as ask:
                publish(ask, news.headline, kind=NewsKind.SIGNAL, symbol="AMZN", body=news.body, source=news.source)
        return NOTHING

    with (
        start_exchange(symbols="AMZN", clock="", config=clock, folder=tmp_path) as served,
        fake_endpoint(scripted(answer)) as fake,
    ):
        asyncio.run(run(config, served.endpoint, fake, tmp_path))
    told = [
        json.dumps(request).count("forecast about S1: In 1 s the price is up with 30%") for request in fake.requests
    ]
    assert len(told) >= 3 and told == [0, int(reads), *[0] * (len(told) - 2)], "once, and never remembered"


def test_news_become_events(tmp_path: Path) -> None:
    """On a live clock: kinds, values in money, the rate of loans, the newest ones only; and none with a time later than asked for."""
    config = settings(news_max=2, loans={"rate_source": "central bank"})

    async def read(endpoint: str, ask: Request) -> None:
        publish(ask, "of an earlier time")
        async with await asynchronous.connect(endpoint, "reader") as client:
            news = NewsEvents(client, config)
            await news.subscribe()

            value: dict[str, Any] = {"kind": NewsKind.VALUE, "symbol": "AMZN", "value": 22_350}
            _, time_ns = publish(ask, "", **value)
            assert await news.new(time_ns - 1) == [], "its time has not come"
            expected = MarketEvent(time_ns, "value", "What it is worth. (wire)", "AMZN", 223.5)
            assert await news.new(time_ns) == [expected]
            assert await news.new(time_ns) == [], "nothing comes twice"

            rate: dict[str, Any] = {"kind": NewsKind.MACRO, "value": 0.05, "source": "central bank"}
            publish(ask, "Rates up", **rate)
            publish(ask, "Forecast AMZN", kind=NewsKind.SIGNAL)  # any text: no forecast
            publish(ask, "too old", body="x")
            publish(ask, "A plant closes", body="Smoke\nrises. " + "x" * 3000)
            _, time_ns = publish(ask, "Rates beyond reason", **rate | {"value": 70.0})
            loan, story, absurd = await news.new(time_ns)
            assert (loan.kind, loan.text, loan.value) == ("loan_rate", "Rates up (central bank)", 0.05)
            assert story.text.startswith("A plant closes Smoke\nrises. x") and len(story.text) == 2000 + len(" (wire)")
            assert (absurd.kind, absurd.value) == ("macro", 70.0)

    with start_exchange(symbols="AMZN") as served, request_socket(served.endpoint, "admin") as ask:
        asyncio.run(read(served.endpoint, ask))


def test_an_exchange_without_its_journal_numbers_again(tmp_path: Path) -> None:
    """More messages than a reply holds are read, and those of the new exchange too."""

    async def read(served: Served) -> list[str]:
        async with await asynchronous.connect(served.endpoint, "reader") as client:
            news = NewsEvents(client, settings(news_max=100))
            await news.subscribe()
            with request_socket(served.endpoint, "admin") as ask:
                for number in range(REPLY_MESSAGES_MAX + 3):
                    publish(ask, f"{number}", source="")
            found = [event.text for event in await news.new(1 << 62)]
            assert found == [f"{number}" for number in range(REPLY_MESSAGES_MAX + 3)]
            served.kill()
            assert served.process.stdout is not None
            served.process.stdout.close()
            with start_exchange(symbols="AMZN", journal=tmp_path / "two", endpoint=served.endpoint) as again:
                with request_socket(again.endpoint, "admin") as ask:
                    publish(ask, "anew", source="")
                found = [event.text for event in await news.new(1 << 62)]
                return found + [event.text for event in await news.new(1 << 62)]

    assert asyncio.run(read(launch("--symbols", "AMZN", "--journal", str(tmp_path / "one")))) == ["anew"]


def test_nothing_is_lost_or_read_twice_when_the_exchange_comes_back(tmp_path: Path) -> None:
    """Killed and started again; the file of events is read beside the news."""
    journal, path = tmp_path / "journal", tmp_path / "events.jsonl"
    path.write_text('{"kind": "news", "text": "of the file", "after_s": 0}')
    served = launch("--symbols", "AMZN", "--journal", str(journal))

    async def read() -> list[str]:
        async with await asynchronous.connect(served.endpoint, "reader") as client:
            news = NewsEvents(client, settings())
            await news.subscribe()
            events = MergedEvents([FileEvents(read_event_lines(path, []), 0, 0), news])
            found: list[str] = []

            async def until(text: str) -> None:
                deadline_s = time.monotonic() + 60
                while text not in found:
                    assert time.monotonic() < deadline_s, f"{text!r} does not come; {found}"
                    found.extend(event.text for event in await events.new(1 << 62))
                    await asyncio.sleep(0.02)

            with request_socket(served.endpoint, "admin") as ask:
                publish(ask, "before", source="")
                await until("before")
                publish(ask, "unread", source="")
            served.kill()
            assert served.process.stdout is not None
            served.process.stdout.close()
            with start_exchange(symbols="AMZN", journal=journal, endpoint=served.endpoint) as again:
                with request_socket(again.endpoint, "admin") as ask:
                    publish(ask, "after", source="")
                await until("after")
                found.extend(event.text for event in await events.new(1 << 62))
            return found

    assert asyncio.run(read()) == ["of the file", "before", "unread", "after"]
