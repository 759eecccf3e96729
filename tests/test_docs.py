"""The Python code in the documentation runs."""

import shlex
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from benchmarks.__main__ import APART, NAMES
from benchmarks.hostile import CONFIG
from serl.agents.learning.cli_episodes import episodes
from serl.agents.signals.message import Forecast
from serl.clients.news_file import AT_ONCE, read_news_file
from serl.clients.news_sender import NewsSender
from serl.exchange.assets import Assets
from serl.exchange.config import ExchangeConfig, load_config
from serl.exchange.latency import Latencies
from serl.exchange.news import News, NewsKind
from serl.history.day import write_day
from serl.history.generate import OPEN_NS, generate_day
from tests.agents.execution.test_data import rows as bar_rows
from tests.agents.execution.test_data import write as write_bars
from tests.doc_blocks import ROOT, blocks, run
from tests.server_fixture import free_endpoint, launch, start_exchange


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_bot_tutorial_runs() -> None:
    with start_exchange(symbols="DEMO") as served:
        run("tutorials/write-a-bot.md", ENDPOINT=served.endpoint)


def test_the_page_on_news_prints_what_is_published(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "news.md").read_text()
    (folder / "news.csv").write_text(
        "".join(line + "\n" for line in page.splitlines() if line[:2] in ("ti", "09", "10"))
    )
    messages = [message._replace(time_ns=AT_ONCE) for message in read_news_file(folder / "news.csv")]
    assert [message.value for message in messages] == [0.0425, 0.12, 10_150]
    with start_exchange(symbols="DEMO") as served:
        with NewsSender(served.endpoint, messages, "news", "", None) as sender:
            assert len(list(sender.send())) == 3
        run("news.md", ENDPOINT=served.endpoint)
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("[News(sequence=1, ") and rest[1:] == [
        "2 DEMO Quarterly revenue up 12 % 0.12",
        "3 DEMO  10150",
    ]


def test_the_page_on_forecasts_reads_them(capsys: pytest.CaptureFixture[str]) -> None:
    made = Forecast(
        "DEMO",
        5,
        100.5,
        (1.0, 10.0),
        (0.0, 1.5),
        ((0.2, 0.5, 0.3), (0.25, 0.25, 0.5)),
        "f",
        (12.0, 90.5),
        ((0.1, 0.2), (0.3, 0.4)),
    )
    messages = [made.to_news()._replace(time_ns=AT_ONCE), News(0, AT_ONCE, NewsKind.MACRO, "", "x", "", None, "")]
    with start_exchange(symbols="DEMO") as served:
        with NewsSender(served.endpoint, messages, "news", "", None) as sender:
            assert len(list(sender.send())) == 2
        run("signals.md", ENDPOINT=served.endpoint)
    assert capsys.readouterr().out.splitlines() == [
        "DEMO 1.0 0.2 0.5 0.3",
        "DEMO 10.0 0.25 0.25 0.5",
        "(12.0, 90.5) ((0.1, 0.2), (0.3, 0.4))",
    ]


def test_the_library_tutorial_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    told = run("tutorials/use-the-library.md")
    said = [line.split("  # ")[1] for block in blocks("tutorials/use-the-library.md", "python") for line in block.text.splitlines() if line.strip().startswith("print") and "  # " in line]  # fmt: skip
    printed = capsys.readouterr().out.splitlines()
    assert len(said) == 3 and set(said) <= set(printed)
    assert len(told["events"]) == 256 and told["order_id"] == 1


def test_the_page_on_orders_is_correct() -> None:
    settings, spot = blocks("orders.md", "yaml")
    config = ExchangeConfig.model_validate(yaml.safe_load(settings.text))
    assert config.symbols[0].day[1].phase == "continuous" and config.needs_full_rule_book
    assets = Assets(ExchangeConfig.model_validate(yaml.safe_load(spot.text)).symbols)
    units = {name: assets.units[assets.number(name) - 1] for name in ("USDT", "BTC", "ETH")}
    assert units == {"USDT": Fraction(1, 10**7), "BTC": Fraction(1, 10**9), "ETH": Fraction(1, 10**4)}
    names = run("orders.md")
    assert names["asks"]["qty_lots"].tolist() == [5]
    account = names["account"]
    assert (account.position_lots, account.cash_ticks, account.realised_ticks) == (25, -6250, 0)
    assert account.unrealised_ticks(260) == 250


def test_the_page_on_security_has_the_limits_that_were_measured() -> None:
    (settings,) = blocks("security.md", "yaml")
    told = yaml.safe_load(settings.text)
    ExchangeConfig.model_validate({"symbols": [{"name": "S0"}], **told})
    assert told == {name: CONFIG[name] for name in ("limits", "other_accounts")}


def test_the_page_on_latency_is_correct(folder: Path) -> None:
    (settings,) = blocks("latency.md", "yaml")
    (folder / "measured.txt").write_text("40\n")
    (folder / "mine.yaml").write_text(settings.text)
    config = load_config(folder / "mine.yaml")
    latencies, first = Latencies(config.latency, config.latencies), np.array([1])
    drawn_ns: dict[str, list[int | None]] = {}
    for name in ("colocated", "home", "here", "anybody"):
        both = (latencies.orders(name), latencies.feed(name))
        drawn_ns[name] = [None if delays is None else int(delays.draw_ns(first)[0]) for delays in both]
    (drawn, *rest) = drawn_ns.pop("anybody")
    assert drawn_ns == {"colocated": [5000, 3000], "home": [40_000, None], "here": [None, None]}
    assert drawn is not None and drawn >= 80_000 and rest == [120_000]


@pytest.mark.long
def test_a_custom_trader_trades(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, used = blocks("traders.md", "python")
    *_, population = blocks("traders.md", "yaml")
    (folder / "my_traders.py").write_text(own.text)
    (folder / "mine.yaml").write_text(population.text)
    monkeypatch.syspath_prepend(folder)
    names: dict[str, object] = {}
    exec(compile(used.text, "traders.md", "exec"), names)
    positions = names["positions"]
    assert isinstance(positions, list) and len(positions) == 5
    assert any(positions), "it has traded"


def test_the_backtest_in_python_trades(capsys: pytest.CaptureFixture[str]) -> None:
    bot, used, _ = blocks("tutorials/backtest-a-bot.md", "python")
    names: dict[str, object] = {}
    exec(compile(f"{bot.text}\n{used.text}", "backtest-a-bot.md", "exec"), names)
    assert len(names["result"].fill_rows) > 0  # pyrefly: ignore[missing-attribute]
    assert "filled 10 at" in capsys.readouterr().out


@pytest.mark.long
def test_the_executor_of_the_tutorial_learns(folder: Path) -> None:
    pytest.importorskip("torch")
    (block,) = blocks("tutorials/train-an-executor.md", "python")
    names: dict[str, object] = {}
    exec(compile(block.text.replace("200_000", "1_920"), "train-an-executor.md", "exec"), names)
    assert (folder / "policy.safetensors").exists()
    assert "advantage" in names


@pytest.mark.long
def test_existing_bots_can_be_plugged_in(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a market with quotes, so that there is a book; with less training."""
    pytest.importorskip("stable_baselines3")
    from serl.clients.blocking import connect

    plain, trained, wrapped, worked = (block.text for block in blocks("tutorials/plug-in-a-bot.md", "python"))
    with start_exchange(symbols="DEMO") as served, connect(served.endpoint, "maker") as maker:
        maker.buy("DEMO", 1000, 10_000)
        maker.sell("DEMO", 1000, 10_100)
        names: dict[str, object] = {"ENDPOINT": served.endpoint}
        exec(compile(plain, "plain", "exec"), names)
        assert capsys.readouterr().out == "position 0\n", "a price that does not move is its own mean"
    for text in (trained.replace("100_000", "256"), wrapped, worked):
        exec(compile(text, "plug-in-a-bot.md", "exec"), names)
    steps = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert len(steps) == 30 and sum(int(lots) for lots, _ in steps) <= 2000


def test_environments_over_bars(folder: Path) -> None:
    write_bars(folder / "nasdaq.parquet", bar_rows())
    (block,) = blocks("environments.md", "python")
    names: dict[str, object] = {}
    exec(compile(block.text.replace("duration_s=1800", "duration_s=120"), "environments.md", "exec"), names)
    observations = names["observations"]
    assert isinstance(observations, np.ndarray) and len(observations) == 1024


@pytest.mark.long
def test_market_makers_are_compared() -> None:
    names = run("market-making.md")
    assert set(names["info"]["results"]) >= {"profit", "turnover_lots"} and names["score"].name == "Avellaneda-Stoikov"


@pytest.mark.long
def test_rules_and_networks_that_take_positions_are_compared() -> None:
    pytest.importorskip("torch")
    names = run("directional.md")
    assert set(names["info"]["results"]) >= {"profit", "turnover_lots"} and names["score"].name == "router"


@pytest.mark.long
def test_rules_that_trade_a_pair_are_compared() -> None:
    names = run("pairs.md")
    assert set(names["info"]["results"]) >= {"profit", "turnover_lots"}
    assert names["score"].name == "z-score, 2 and 0.5" and 80 < names["spread"].half_life_s < 110


@pytest.mark.long
def test_executors_meet_a_maker() -> None:
    names = run("league.md")
    assert names["cell"].executor == "passive" and names["advantage_bps"] == pytest.approx(0, abs=5)


def test_the_single_environment_is_made(folder: Path) -> None:
    write_day(generate_day(3, commands_per_s=2.0), folder / "amzn.day")
    env = run("execution.md")["env"]
    assert env.reset(seed=1)[0].shape == env.observation_space.shape


def test_a_dataset_is_read(folder: Path) -> None:
    block = blocks("offline.md", "console")[0].text.splitlines()[0]
    (folder / "settings.yaml").write_text(yaml.safe_dump({"market": {"duration_s": 60, "simulated_days": 2}}))
    words = [*shlex.split(block)[2:], "--episodes", "2", "--config", "settings.yaml"]
    assert CliRunner().invoke(episodes, words).exit_code == 0
    names = run("offline.md")
    assert names["env"].observation_space == names["dataset"].observation_space


def test_days_are_read_and_played(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a generated day instead of LOBSTER's sample, whose import has its own tests."""
    from serl.history import importing

    day = generate_day(3, commands_per_s=2.0)
    write_day(day, folder / "amzn.day")
    monkeypatch.setattr(importing, "import_day", lambda _name: day)
    names = run("history.md")
    assert len(names["day"].commands) == len(day.commands) and len(names["events"]) > len(day.commands) / 2
    assert len(names["bids"]) == len(names["asks"]) == 5


def test_days_and_traders_are_tables(folder: Path) -> None:
    write_day(generate_day(7, end_ns=OPEN_NS + 120 * 10**9), folder / "demo.day")
    names = run("tables.md")
    assert names["minutes"].sum() == names["frame"]["qty_lots"].sum() > 0 and 90 < names["vwap"] < 110
    assert len(names["spread"]) == 2 and (names["spread"]["spread"] > 0).all()
    assert abs(names["profit_by_kind"].sum()) < 1e-6 < names["profit_by_kind"].abs().max()
    assert len(names["flow"]) == len(names["simulated"])


def test_a_fitted_population_is_simulated(folder: Path) -> None:
    """With a population of serl; test_docs_sessions.py fits one."""
    shutil.copy(ROOT / "configs" / "populations" / "liquid.yaml", folder / "fitted.yaml")
    assert run("tutorials/calibrate.md")["simulation"].count > 1000


def test_a_client_follows_the_directory_of_the_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = blocks("scaling.md", "yaml")[0].text
    endpoints = free_endpoint(), free_endpoint()
    for written, free in zip(("tcp://127.0.0.1:5570", "tcp://127.0.0.1:5580"), endpoints, strict=True):
        text = text.replace(written, free)
    (folder / "market.yaml").write_text(text)
    served = [launch("--directory", "market.yaml", endpoint=endpoint) for endpoint in endpoints]
    try:
        run("scaling.md")
    finally:
        for one in served:
            one.stop()
    assert capsys.readouterr().out == "{}\n", "nobody trades with it"


def test_an_impact_law_is_fitted() -> None:
    fractions = np.tile([0.01, 0.03, 0.1], 4)
    seeds = np.repeat(np.arange(4), 3)
    names = run("realism.md", fractions=fractions, impacts=0.7 * fractions**0.5, seeds=seeds)
    assert names["law"].delta.value == pytest.approx(0.5)


def test_the_benchmark_page_has_every_benchmark() -> None:
    """`make bench` writes the page: a missing or extra section means that it was not run."""
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    found = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert found == [name for name in (*NAMES, *APART) if name in NAMES or name in found]
