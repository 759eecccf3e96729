"""Backtests in process: what a strategy is told, latency, windows, the command line and its errors."""

import json
import re
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import serl
from serl.agents.backtest.errors import BacktestError, StrategyError
from serl.agents.backtest.load import load_strategy
from serl.agents.backtest.run import backtest
from serl.agents.traders.population import load_population
from serl.cli import serl as command
from serl.clients.errors import PriceOffTick
from serl.clients.values import SymbolStatus
from serl.exchange.errors import ConfigError
from serl.exchange.latency import Constant, Delays
from serl.exchange.records import COMMAND, CommandKind, EventFlag, EventKind, HaltReason, Phase, Reason, TimeInForce
from serl.exchange.terms import Terms
from serl.history.day import Day, Reference, SymbolReference, write_day
from tests.agents.backtest.sample import Busy
from tests.doc_blocks import ROOT

SECOND_NS = 1_000_000_000
NINE = 9 * 3600 * SECOND_NS
MAKER = (ROOT / "examples" / "strategy.py").read_text()


def small_day() -> Day:
    """10 bid at 99, 10 offered at 101 at 09:00:00; 4 are sold at 99 at 09:00:03 and 20 at 09:00:05; 5 are bid at 98 at 09:00:06."""
    rows = np.zeros(5, COMMAND)
    rows["kind"], rows["command_id"], rows["time_in_force"] = CommandKind.NEW, np.arange(1, 6), 1
    rows["time_ns"] = [NINE + second * SECOND_NS for second in (0, 0, 3, 5, 6)]
    rows["side"], rows["price_ticks"], rows["qty_lots"] = [0, 1, 1, 1, 0], [99, 101, 99, 99, 98], [10, 10, 4, 20, 5]
    reference = Reference((SymbolReference("A"),), "", "test", first_time_ns=NINE, last_time_ns=NINE + 6 * SECOND_NS)
    return Day(rows, np.arange(5), reference)


class Buyer(serl.Strategy):
    """Buys 6 at 99 at 09:00:02, and notes what it is told."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def on_wake(self, market: Any) -> None:
        if market.time_ns == NINE + 2 * SECOND_NS:
            self.order = market.buy("A", 6, 99)
            self.notes.append(self.order.state)

    def on_fill(self, market: Any, fill: Any) -> None:
        self.notes.append(
            (market.time_ns - NINE, fill.time_ns - NINE, fill.qty_lots, self.order.state, market.position("A"))
        )


def test_a_day_beyond_the_default_limits_is_replayed_whole() -> None:
    """Lots of a hundred-millionth, as in imports of crypto markets."""
    day = small_day()
    day.commands["qty_lots"] *= 10_000_000
    events = backtest(Buyer, day=day, events_kept=True).events
    assert events is not None and not np.any(events["kind"] == EventKind.REJECTED)
    traded = (events["kind"] == EventKind.FILL) & (events["flags"] & EventFlag.MAKER > 0)
    assert events["qty_lots"][traded].sum() == 100_000_006  # with the 6 of the strategy


def test_a_replaced_order_keeps_its_price_unless_one_is_given() -> None:
    """As for the clients."""

    class Changing(Buyer):
        def on_wake(self, market: Any) -> None:
            super().on_wake(market)
            if market.time_ns == NINE + 4 * SECOND_NS:
                market.replace(self.order, 2)
                assert market.status("A") == SymbolStatus(False, Phase.CONTINUOUS, HaltReason.NONE)
                with pytest.raises(ConfigError, match="expected price_ticks or price, got 99 and"):
                    market.replace(self.order, 2, 99, price=1.5)
                with pytest.raises(PriceOffTick):
                    market.sell("A", 2, price="1.005")

    strategy = Changing()
    backtest(strategy, day=small_day(), window_ns=(NINE, NINE + 7 * SECOND_NS))
    assert strategy.notes == ["sent", (6 * SECOND_NS, 5 * SECOND_NS, 2, "done", 2)]
    assert [fill.price_ticks for fill in strategy.order.fills] == [99]


@pytest.mark.parametrize("call", ["book", "trades"])
def test_numbers_of_levels_and_trades_are_checked(call: str) -> None:
    """As by the clients: a depth of -1 was an empty book."""

    class Asking(serl.Strategy):
        def on_wake(self, market: Any) -> None:
            ask = getattr(market, call)
            for invalid in (-1, 1.5, "2", True):
                with pytest.raises(ConfigError, match="expected an integer"):
                    ask("A", invalid)
            assert ask("A", np.int64(2)) == ask("A", 2) and ask("A", 1 << 40) == ask("A", 1000)

    assert backtest(Asking, day=small_day()).decisions


def test_an_order_waits_in_the_queue_of_the_book() -> None:
    strategy = Buyer()
    window_ns = (NINE, NINE + 7 * SECOND_NS)
    result = backtest(strategy, day=small_day(), window_ns=window_ns)
    # ten were there before: 4 and 6 of those trade first, then ours
    assert strategy.notes == ["sent", (6 * SECOND_NS, 5 * SECOND_NS, 6, "done", 6)]
    assert result.decisions == 7 and result.counts["accepted"] == 1
    # bought 6 at 99; at the end 98 is bid and what was not bought of the 20, at 99, is offered: 6 x (98.5 - 99)
    # the peak is at 09:00:06, when the mid is still 100 because nothing is bid: 6 x (100 - 99)
    assert (result.profit, result.drawdown) == (Decimal("-0.03"), Decimal("0.09"))
    assert result.positions[-1].tolist() == [6] and result.fills["maker"].tolist() == [True]


@pytest.mark.parametrize(("delay_us", "maker"), [(0, True), (3_000_000, True), (3_000_001, False)])
def test_an_order_arrives_after_its_latency(delay_us: float, maker: bool) -> None:
    """At 09:00:05 it comes before history's order of that time; a microsecond later it takes what that order left."""
    delays = Delays(Constant(kind="constant", delay_us=delay_us), 0, "orders", "strategy")
    result = backtest(Buyer, day=small_day(), window_ns=(NINE, NINE + 7 * SECOND_NS), delays=delays)
    assert result.fills["maker"].tolist() == [maker]
    assert result.fills["time_ns"].tolist() == [NINE + 5 * SECOND_NS + (0 if maker else 1000)]
    assert result.settings["order latency"] == f"constant, delay_us {delay_us:g}"


def test_commands_never_overtake_each_other() -> None:
    class Two(serl.Strategy):
        def on_wake(self, market: Any) -> None:
            if not market.fills() and not market.open_orders():
                for _ in range(300):
                    market.buy("A", 1, 90)

    class Falling:
        def draw_ns(self, numbers: Any) -> Any:
            return 10**9 - numbers

    result = backtest(Two, day=small_day(), delays=Falling(), events_kept=True)  # pyrefly: ignore[bad-argument-type]
    assert result.events is not None
    own = result.events[result.events["participant"] == 1]
    assert own["order_id"].tolist() == sorted(own["order_id"].tolist()) and len(own) == 300


def test_orders_expire_at_their_time() -> None:
    """As on a served exchange, and not with the next command of anybody."""

    class Short(serl.Strategy):
        def __init__(self) -> None:
            self.states: list[str] = []

        def on_start(self, market: Any) -> None:
            self.expiry_ns = NINE + 3 * SECOND_NS + 5
            self.order = market.buy("A", 6, 99, time_in_force=TimeInForce.GTT, terms=Terms(expire_ns=self.expiry_ns))

        def on_wake(self, market: Any) -> None:
            self.states.append(self.order.state)

    strategy = Short()
    result = backtest(strategy, day=small_day(), window_ns=(NINE, NINE + 7 * SECOND_NS), events_kept=True)
    assert result.events is not None
    expired = result.events[result.events["reason"] == Reason.EXPIRED]
    assert expired["time_ns"].tolist() == [strategy.expiry_ns]
    assert strategy.states[:5] == ["sent", "open", "open", "open", "done"]


def test_the_same_seed_gives_the_same_run_and_windows_are_respected() -> None:
    population = load_population("small")
    window_ns = (population.open_ns + 5 * SECOND_NS, population.open_ns + 30 * SECOND_NS)
    first, second, other = (backtest(Busy, population=population, seed=seed, window_ns=window_ns) for seed in (1, 1, 2))
    assert first.fill_rows.tolist() == second.fill_rows.tolist() != other.fill_rows.tolist()
    assert first.decisions == 100 and first.times_ns[-1] == window_ns[1]
    assert first.fill_rows["time_ns"].min() >= window_ns[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "expected either a population or a day, got neither"),
        (
            {"day": small_day(), "window_ns": (0, NINE)},
            "expected FROM-TO within 09:00:00-09:00:06, got 00:00:00-09:00:00",
        ),
    ],
)
def test_a_market_and_a_window_are_needed(arguments: Any, message: str) -> None:
    with pytest.raises(BacktestError, match=message):
        backtest(Buyer, **arguments)


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (None, None, "expected a Python file with a strategy, got no such file"),
        ("x = 1", None, "expected a subclass of serl.Strategy or a function with @trader, got neither"),
        (
            "import serl\nclass A(serl.Strategy): pass\nclass B(serl.Strategy): pass",
            None,
            "one of A, B, got no --strategy",
        ),
        ("import serl\nclass A(serl.Strategy): pass", "B", "one of A, got --strategy B"),
        ("import serl\nfor", None, "bot.py:2: expected Python, got a SyntaxError"),
        (
            "import sys\n\nsys.exit(3)",
            None,
            "bot.py:3: expected an import without an exception, got SystemExit (.3.); ",
        ),
        ("import serl\n\n1 / 0", None, "bot.py:3: expected an import without an exception, got ZeroDivisionError"),
    ],
)
def test_errors_of_files_say_what_is_expected(text: str | None, name: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bot.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(StrategyError, match=message):
        load_strategy(path, name)


def test_sigterm_inside_a_strategy_is_not_blamed_on_it(tmp_path: Path) -> None:
    text = "import os, signal, serl\nclass A(serl.Strategy):\n    def on_wake(self, market):\n        os.kill(os.getpid(), signal.SIGTERM)\n"
    (tmp_path / "bot.py").write_text(text)
    words = ["backtest", "bot.py", "--population", "small", "--window", "09:30-09:31"]
    done = subprocess.run(
        [sys.executable, "-m", "serl", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "stopped (SIGTERM)" in done.stderr, "correct the strategy" in done.stderr) == (
        143,
        True,
        False,
    )


def invoke(folder: Path, text: str, *options: str) -> Result:
    (folder / "bot.py").write_text(text)
    arguments = ["backtest", str(folder / "bot.py"), "-o", str(folder / "report.html"), *options]
    return CliRunner().invoke(command, arguments)


def test_the_command_writes_a_page(tmp_path: Path) -> None:
    done = invoke(tmp_path, MAKER, "--population", "small", "--window", "09:30-09:31", "--latency-us", "500")
    assert done.exit_code == 0, done.output
    page, numbers = (tmp_path / "report.html").read_text(), json.loads((tmp_path / "report.json").read_text())
    (run,) = numbers["runs"]
    assert "Backtest of Maker" in page and "data:image/png" in page and "constant" in page
    assert run["counts"]["fill"] > 5 and run["decisions"] == 600 and Decimal(run["profit"]) != 0
    assert run["settings"]["window"] == "09:30:00-09:31:00"


@pytest.mark.long
def test_several_seeds_have_a_mean_and_an_interval(tmp_path: Path) -> None:
    done = invoke(tmp_path, MAKER, "--population", "small", "--window", "09:30-09:31", "--seeds", "3", "--workers", "1")
    assert done.exit_code == 0, done.output
    numbers = json.loads((tmp_path / "report.json").read_text())
    mean, low, high = numbers["profit_mean_low_high"]
    profits = [float(run["profit"]) for run in numbers["runs"]]
    assert mean == pytest.approx(np.mean(profits)) and low < mean < high and len(set(profits)) == 3
    assert [run["settings"]["seed"] for run in numbers["runs"]] == [1, 2, 3]
    page = (tmp_path / "report.html").read_text()
    assert "<h2>Seeds</h2>" in page
    assert "seeds 1 to 3" in numbers["made"]["data"] and "<td>1 to 3</td>" in page.replace(' class="text"', "")
    closed = [sum(trip["profit_ticks"] is not None for trip in run["trades"]) for run in numbers["runs"]]
    assert [len(run["trades"]) for run in numbers["runs"]] != closed, "a trade is still open"
    assert all(f"<td>{count}</td></tr>" in page for count in closed)


def test_the_command_runs_a_recorded_day(tmp_path: Path) -> None:
    write_day(small_day(), tmp_path / "a.day")
    text = "import serl\n\nclass Look(serl.Strategy):\n    def on_wake(self, market):\n        market.sell(market.symbols[0], 1, 99)\n        market.sell(market.symbols[0], 0, 99)\n"
    done = invoke(tmp_path, text, "--day", str(tmp_path / "a.day"), "--window", "09:00:01-09:00:04")
    assert done.exit_code == 0, done.output
    (run,) = json.loads((tmp_path / "report.json").read_text())["runs"]
    # three of the ten that are bid at 99 are bought from it, and the mid is 100: 3 x (99 - 100)
    assert (run["decisions"], run["counts"]["fill"], run["positions"]) == (3, 3, {"A": -3})
    assert run["rejections"] == {"bad_qty": 3} and "3 BAD_QTY (expected 1 to qty_lots_max lots" in done.output
    assert Decimal(run["profit"]) == Decimal("-0.03") and run["settings"]["seed"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "expected either --population or --day, got neither"),
        (["--day", "a.day", "--seeds", "2"], "expected --seeds with --population only"),
        (["--population", "small", "--config", "a.yaml", "--latency-us", "5"], "expected --config or --latency-us, got both"),
        (["--population", "small", "--window", "01:00-02:00"], "expected FROM-TO within 09:30:00-16:00:00"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused(options: list[str], message: str, tmp_path: Path) -> None:
    done = invoke(tmp_path, MAKER, *options)
    assert done.exit_code != 0
    assert message in done.output or message in str(done.exception)


def test_a_feed_latency_is_refused(tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text("latency: {feed: {kind: constant, delay_us: 5}}\n")
    done = invoke(tmp_path, MAKER, "--population", "small", "--config", str(tmp_path / "slow.yaml"))
    assert isinstance(done.exception, BacktestError) and "expected no feed latency for 'strategy'" in str(
        done.exception
    )


def test_an_exception_of_the_strategy_names_its_line(tmp_path: Path) -> None:
    text = MAKER.replace("market.position(", "market.no_such_thing(")
    line = 1 + next(place for place, line in enumerate(text.splitlines()) if "no_such_thing" in line)
    done = invoke(tmp_path, text, "--population", "small", "--window", "09:30-09:31")
    assert isinstance(done.exception, StrategyError)
    assert f"bot.py:{line}: expected a run without an exception, got AttributeError" in str(done.exception)
    assert not (tmp_path / "report.html").exists()


def test_what_is_no_strategy_is_refused() -> None:
    for wrong in (3, "Maker", object):
        strategy: Any = wrong
        with pytest.raises(
            BacktestError, match=r"strategy: expected a serl\.Strategy, its class, or a kind of trader, got "
        ):
            backtest(strategy, population=load_population("small"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("interval_s = -1", r"A\.interval_s: expected seconds from 1e-9 to 86400, got -1; correct the class"),
        ("async def on_wake(self, market): pass", r"A\.on_wake: expected a function .* got one with async or yield"),
        ("def on_fill(self, market, fill): yield", r"A\.on_fill: expected a function .* got one with async or yield"),
        ("def on_wake(self): pass", r"bot\.py: expected a run without an exception, got TypeError \(A\.on_wake\(\) takes"),
        ("def __init__(self, lots): pass", r"bot\.py: expected .* got TypeError \(A\.__init__\(\) missing"),
    ],
)  # fmt: skip
def test_mistakes_in_the_class_are_named(body: str, message: str, tmp_path: Path) -> None:
    text = f"import serl\n\nclass A(serl.Strategy):\n    {body}\n"
    done = invoke(tmp_path, text, "--population", "small", "--window", "09:30-09:31")
    assert isinstance(done.exception, StrategyError), done.exception
    assert re.search(message, str(done.exception)), done.exception


@pytest.mark.long
def test_ctrl_c_ends_every_process(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(
        f"import pathlib, time, serl\n\nclass Slow(serl.Strategy):\n    def on_start(self, market):\n"
        f"        pathlib.Path({str(tmp_path / 'started')!r}).touch()\n\n    def on_wake(self, market):\n        time.sleep(0.5)\n"
    )
    arguments = ["backtest", "bot.py", "--population", "small", "--seeds", "2", "--workers", "1"]
    run = subprocess.Popen(
        [sys.executable, "-m", "serl", *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    while not (tmp_path / "started").exists():
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)
    run.send_signal(2)
    _, errors = run.communicate(timeout=60)  # ends when nobody holds its output any more
    assert run.returncode == 130 and "Traceback" not in errors, errors
    assert not (tmp_path / "backtest.html").exists()
