"""Forecasts that strategies see: those of the day as it is, changed by their own orders; published ones on an exchange."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import serl
from serl.agents.backtest.errors import BacktestError
from serl.agents.backtest.forecasts import Forecasting
from serl.agents.backtest.run import backtest
from serl.agents.realism.days import day_origin
from serl.agents.realism.tape import SECOND_NS
from serl.agents.signals.errors import SignalError
from serl.agents.signals.inputs import day_inputs
from serl.agents.signals.message import Forecast
from serl.agents.traders.population import load_population
from serl.agents.traders.registry import load_kind
from serl.cli import serl as command
from serl.exchange.news import NewsKind
from serl.exchange.request import request_socket
from serl.history.day import SymbolReference, write_day
from tests.agents.realism.sample import TEN_NS
from tests.agents.signals import sample
from tests.exchange.test_news_served import publish
from tests.server_fixture import start_exchange

WINDOW_NS = TEN_NS + 900 * SECOND_NS, TEN_NS + 930 * SECOND_NS


class Noting(serl.Strategy):
    """Notes the forecast at each decision, and buys once, if at all."""

    interval_s = 0.75

    def __init__(self, buys_at: int = 0) -> None:
        self.buys_at = buys_at
        self.seen: list[tuple[int, Any]] = []

    def on_wake(self, market: Any) -> None:
        self.seen.append((market.time_ns, market.forecast(market.symbols[0])))
        if len(self.seen) == self.buys_at:
            market.buy(market.symbols[0], 40)


def noted(strategy: Noting, **market: Any) -> list[tuple[int, Any]]:
    given: dict[str, Any] = {"day": sample.day(), "window_ns": WINDOW_NS} | market
    backtest(strategy, forecasting=Forecasting(sample.forecaster(), "f"), **given)
    return strategy.seen


@pytest.mark.long
def test_a_strategy_that_does_nothing_sees_the_forecasts_of_the_day() -> None:
    """Each of the last multiple of 100 ms strictly before the decision."""
    seen = noted(Noting())
    inputs, _ = day_inputs(sample.grid())
    rows = np.searchsorted(sample.grid().time_ns[inputs.last], [time_ns for time_ns, _ in seen]) - 1
    made = sample.forecaster()
    assert len(seen) == 40 and [one.time_ns for _, one in seen] == sample.grid().time_ns[inputs.last[rows]].tolist()
    assert all(0 < time_ns - one.time_ns <= 100_000_000 for time_ns, one in seen)
    expected = made.probabilities(inputs.chosen(rows))
    assert np.array([one.probabilities for _, one in seen]) == pytest.approx(expected, abs=1e-4)
    fills = made.fills(inputs.features[rows])
    assert np.array([one.fills for _, one in seen]) == pytest.approx(fills, abs=1e-4)


@pytest.mark.long
def test_its_orders_change_the_forecasts_after_them_and_none_before() -> None:
    without, with_order = noted(Noting()), noted(Noting(buys_at=10))
    assert without[:10] == with_order[:10] and without[10:] != with_order[10:]
    assert without[10][1].volumes_lots != with_order[10][1].volumes_lots, "it took forty lots"


@pytest.mark.long
def test_among_simulated_traders() -> None:
    small = load_population("small")
    seen = noted(Noting(), day=None, population=small, window_ns=(small.open_ns, small.open_ns + 70 * SECOND_NS))
    missing = [time_ns for time_ns, one in seen if one is None]
    assert 0 < len(missing) < len(seen) and max(missing) <= small.open_ns + 65 * SECOND_NS, "the first minute has none"
    assert seen[-1][1].symbol == "DEMO", "the only symbol, although the forecaster is of another"


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    made = sample.forecaster()
    trained = replace(made, training=replace(made.training, days=(day_origin(sample.day()),)))
    cases: list[tuple[Forecasting, Any, str]] = [
        (
            Forecasting(trained, "f"),
            Noting(),
            "f: expected a forecaster that was not trained on the hours of the backtest",
        ),
        (
            Forecasting(made, "f"),
            load_kind("noise"),
            "forecasts: expected a strategy in Python, got the compiled noise",
        ),
    ]
    for forecasting, strategy, message in cases:
        with pytest.raises(BacktestError, match=message):
            backtest(strategy, day=sample.day(), window_ns=(TEN_NS, TEN_NS + SECOND_NS), forecasting=forecasting)
    tenths = replace(sample.day(), reference=replace(sample.day().reference, symbols=(SymbolReference("AMZN", "0.1"),)))
    with pytest.raises(
        SignalError, match=r"AMZN: expected a tick size of 0\.01 and a lot size of 1, .* got 0\.1 and 1"
    ):
        backtest(Noting(), day=tenths, window_ns=WINDOW_NS, forecasting=Forecasting(made, "f"))
    with pytest.raises(BacktestError, match="expected a forecaster of one of A, B, got one of AMZN"):
        Forecasting(made, "f").symbol(["A", "B"])
    assert Forecasting(made, "f").symbol(["A", "AMZN"]) == "AMZN"


BOT = """
import serl

class Bot(serl.Strategy):
    def on_wake(self, market):
        forecast = market.forecast("AMZN")
        assert forecast is not None and forecast.source == "f.signals"
"""


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(BOT)
    write_day(sample.day(), tmp_path / "x.day")
    sample.forecaster().write(tmp_path / "f.signals")
    options = [
        "--day",
        str(tmp_path / "x.day"),
        "--forecaster",
        str(tmp_path / "f.signals"),
        "-o",
        str(tmp_path / "b.html"),
    ]
    done = CliRunner().invoke(command, ["backtest", str(tmp_path / "bot.py"), *options, "--window", "10:15-10:16"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert "f.signals" in (tmp_path / "b.json").read_text()


SERVED = """
import serl

class Bot(serl.Strategy):
    interval_s = 0.02

    def on_wake(self, market):
        forecast = market.forecast("AMZN")
        if forecast is not None:
            print("it says", forecast.probabilities, forecast.volumes_lots)
            raise KeyboardInterrupt
"""


def test_on_an_exchange_it_reads_what_is_published(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(SERVED)
    news = Forecast("AMZN", 5, 100.5, (1.0,), (0.0,), ((0.2, 0.5, 0.3),), "f", (12.0,), ((0.1, 0.2),)).to_news()
    done = threading.Event()

    def publish_until_done() -> None:
        with request_socket(served.endpoint, "admin") as ask:
            while not done.wait(0.05):
                publish(ask, "no forecast", kind=NewsKind.SIGNAL, symbol="AMZN")
                publish(ask, news.headline, kind=NewsKind.SIGNAL, symbol="AMZN", body=news.body, source=news.source)

    with start_exchange(symbols="AMZN") as served:
        publisher = threading.Thread(target=publish_until_done)
        publisher.start()
        try:
            ended = CliRunner().invoke(command, ["run", str(tmp_path / "bot.py"), "--connect", served.endpoint])
        finally:
            done.set()
            publisher.join()
    assert ended.exit_code == 0, (ended.output, ended.exception)
    assert "it says ((0.2, 0.5, 0.3),) (12.0,)" in ended.output
