"""A mind over days of bars: the story that is told, and the market that follows the bars."""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra `researcher` is not installed")
pytest.importorskip("pyarrow", reason="the extra `history` is not installed")

import pyarrow as pa

from benchmarks import finmem, minds_study
from serl.agents.execution.bar_files import read_bars
from serl.clients.news_file import read_news_file
from serl.exchange.errors import ConfigError
from serl.exchange.news import NewsKind
from serl.minds.config import MindsConfig
from serl.researcher.llm.settings import Endpoint
from tests.minds.scripted import NOTHING, order, prompt_of, scripted
from tests.researcher.llm.fake import fake_endpoint

DAYS, BARS_PER_DAY = 3, 26


@pytest.fixture
def bars(tmp_path: Path) -> Path:
    """Two stocks; the first rises by half a per cent a bar of its second day, and has twice the volume there."""
    import pyarrow.parquet as pq

    rows: dict[str, list[Any]] = {
        name: [] for name in ("symbol", "date", "ToD", "open", "high", "low", "close", "volume")
    }
    for symbol, start in (("AAA", 50.0), ("BBB", 20.0)):
        price = start
        for day in range(DAYS):
            for bar in range(BARS_PER_DAY):
                after = price * (1.005 if (symbol, day) == ("AAA", 1) else 1.0)
                minute = 570 + 15 * bar
                values = (
                    symbol,
                    f"2020-01-0{day + 1}",
                    f"{minute // 60:02}:{minute % 60:02}:00",
                    price,
                    after,
                    price,
                    after,
                )
                for column, value in zip(rows.values(), (*values, 100.0 * (1 + (day == 1))), strict=True):
                    column.append(value)
                price = after
    pq.write_table(pa.table(rows), tmp_path / "bars.parquet")
    return tmp_path / "bars.parquet"


def test_a_story_begins_at_the_price_of_the_population(bars: Path, tmp_path: Path) -> None:
    first, second = finmem.stories(read_bars(bars), 2, DAYS, 10_000)
    assert (first.stock, second.stock) == ("AAA", "BBB")
    assert first.values.shape == (DAYS, finmem.PARTS) and set(second.values.flat) == {10_000}
    assert first.values[0].tolist() == [10_000] * finmem.PARTS
    assert first.growth == pytest.approx(1.005**BARS_PER_DAY, rel=1e-3)
    assert first.headline(1) == "Yesterday the stock closed 13.9 % higher, on 1.3 times its mean volume."
    assert "0.0 % higher" in first.headline(2)
    jumped = dataclasses.replace(second, values=second.values + 500)
    assert jumped.growth == pytest.approx(1.05), (
        "the first half hour counts: shares were worth the first open before it"
    )
    with pytest.raises(ConfigError, match=r"expected 2 stocks with 4 days, got 0; give fewer --stocks or --days"):
        finmem.stories(read_bars(bars), 2, DAYS + 1, 10_000)
    config = finmem.configured(1, DAYS)
    finmem.write_story(first, config, tmp_path)
    values = read_news_file(tmp_path / finmem.VALUES)
    assert [one.value for one in values] == first.values.ravel().tolist()
    assert {one.kind for one in values} == {NewsKind.VALUE}
    assert values[finmem.PARTS].time_ns == config.span_ns[0] + config.interval_ns
    events = [json.loads(line) for line in (tmp_path / finmem.EVENTS).read_text().splitlines()]
    assert [one["after_s"] for one in events] == [120, 240], "a day is told once it is over"


def asked(config: MindsConfig, url: str) -> MindsConfig:
    """The settings with another endpoint, and shorter days."""
    endpoint = Endpoint(base_url=url, model="fake")
    return config.model_copy(update={"model": None, "endpoint": endpoint, "interval_s": 60, "hours": "09:35-09:38"})


def test_both_are_first_equally_often() -> None:
    assert [finmem.configured(number, 20).personas[0].decides for number in (1, 2, 3)] == ["model", "random", "model"]
    assert finmem.configured(1, 20).hours == "09:35:00-10:15:00"


@pytest.mark.long
def test_the_market_follows_the_bars(bars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model buys on the first day and holds; the stock rises on the second."""
    configured = finmem.configured
    options = argparse.Namespace(bars=bars, stocks=1, days=DAYS, folder=tmp_path / "runs", json=True)
    with fake_endpoint(
        scripted(lambda request: order("buy", 100) if "day 1, 09:35:00" in prompt_of(request) else NOTHING)
    ) as fake:
        monkeypatch.setattr(finmem, "configured", lambda number, days: asked(configured(number, days), fake.url))
        found = json.loads(finmem.studied(options))
        calls = len(fake.requests)
        assert json.loads(finmem.studied(options)) == found and len(fake.requests) == calls, "nothing is played twice"
    rows = {row["measure"]: row for row in found["rows"]}
    statistics = json.loads((tmp_path / "runs" / "AAA" / minds_study.STATISTICS).read_text())
    (story,) = finmem.stories(read_bars(bars), 1, DAYS, 10_000)
    assert rows["fills"]["model"] >= 1 and statistics["deciders"]["model"]["decisions"] == DAYS
    held = 500 * 100 * (story.growth - 1) / statistics["deciders"]["model"]["first_wealth"]
    assert rows["return beyond holding"]["model"] == pytest.approx(rows["return"]["model"] - held)
    assert 0.5 * held < rows["return"]["model"] < 2 * held, "the price followed the bars"
    texts = [prompt_of(one) for one in fake.requests]
    assert "13.9 % higher" not in texts[1] and "13.9 % higher" in texts[2]
