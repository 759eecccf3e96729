"""Costs computed by hand, schedules by property, and the served market against the one in process."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.agents.execution import metrics
from serl.agents.execution.inprocess import replay_with, replay_with_twap
from serl.agents.execution.order import ParentOrder, twap_targets
from serl.agents.execution.policies.schedules import Twap
from serl.exchange.errors import ConfigError
from serl.exchange.records import ALL_SYMBOLS, CommandKind, Rows, Side, command
from serl.history.day import Day, Reference, SymbolReference, write_day
from serl.history.generate import generate_day

SERL = [sys.executable, "-m", "serl"]
HOUR_NS = 3_600_000_000_000


@pytest.mark.parametrize(
    ("sign", "executed", "benchmark", "bps"),
    [
        (1, 101.0, 100.0, 100.0),  # sold 1 % above the benchmark
        (-1, 101.0, 100.0, -100.0),  # bought 1 % above it
        (-1, 99.5, 100.0, 50.0),
        (1, None, 100.0, None),
        (1, 100.0, None, None),
    ],
)
def test_advantage(sign: int, executed: float | None, benchmark: float | None, bps: float | None) -> None:
    result = metrics.advantage_bps(sign, executed, benchmark)
    assert result == (None if bps is None else pytest.approx(bps))


def test_benchmarks_exclude_our_own_trades() -> None:
    trades = [(1, 100, 10), (2, 200, 30), (3, 500, 60)]
    assert metrics.market_vwap(trades, {3}) == pytest.approx(175.0)
    assert metrics.market_vwap(trades, {1, 2, 3}) is None
    assert metrics.participation(60, trades, {3}) == pytest.approx(0.6)
    assert metrics.participation(0, [], set()) is None
    assert metrics.average_price([(10, 1), (20, 3)]) == pytest.approx(17.5)
    assert metrics.unfilled_share(5, 20) == 0.25
    assert metrics.fill_ratio(20, 20) == 1


@given(st.integers(1, 10**9), st.integers(1, 1000))
def test_twap_is_even_and_complete(qty: int, slices: int) -> None:
    targets = twap_targets(qty, slices)
    steps = [after - before for before, after in zip([0, *targets], targets, strict=False)]
    assert targets[-1] == qty
    assert max(steps) - min(steps) <= 1
    assert min(steps) >= 0


def test_invalid_orders_are_refused() -> None:
    with pytest.raises(ConfigError, match="qty"):
        ParentOrder("A", Side.BUY, 0, 0, 1, 1)
    with pytest.raises(ConfigError, match=r"window: .*, got 00:00:05-00:00:05"):
        ParentOrder("A", Side.BUY, 1, 5 * 10**9, 5 * 10**9, 1)
    side: Any = "sell"
    with pytest.raises(ConfigError, match=r"side: expected Side.BUY or Side.SELL, got 'sell'"):
        ParentOrder("A", side, 1, 0, 5, 1)


def test_in_process_twap_is_deterministic_and_complete() -> None:
    day = generate_day(3)
    order = ParentOrder("DEMO", Side.BUY, 700, 10 * HOUR_NS, 10 * HOUR_NS + HOUR_NS // 6, 30_000_000_000)
    fills = replay_with_twap(day, order)
    assert fills == replay_with_twap(day, order)
    assert sum(qty for _, _, qty in fills) == 700
    assert all(order.start_ns <= time_ns <= order.end_ns for time_ns, _, _ in fills)


def day_of(*commands: Rows, names: str = "A") -> Day:
    """A day of these commands; each symbol is a letter of `names`."""
    rows = np.concatenate(commands)
    rows["command_id"] = np.arange(1, len(rows) + 1)
    return Day(
        rows, np.arange(len(rows)), Reference(tuple(map(SymbolReference, names)), "", "generated", last_time_ns=9)
    )


def offer(time_ns: int, price_ticks: int, symbol: int = 0) -> Rows:
    return command(
        CommandKind.NEW, symbol=symbol, side=Side.SELL, qty_lots=10, price_ticks=price_ticks, time_ns=time_ns
    )


def test_the_twap_in_process_precedes_what_history_sends_at_the_same_time() -> None:
    """As the executor, who logs in first."""
    day = day_of(offer(1, 100), offer(2, 99), offer(3, 98))
    assert replay_with_twap(day, ParentOrder("A", Side.BUY, 10, 2, 4, 1)) == [(2, 100, 5), (3, 99, 5)]


def test_a_symbol_keeps_what_history_does_in_all_symbols() -> None:
    """The end of the day, which has no symbol: another symbol than the first kept orders that were no longer in the book."""
    trade = command(CommandKind.NEW, symbol=1, side=Side.BUY, qty_lots=10, price_ticks=50, time_ns=2)
    for kind, symbol in ((CommandKind.MASS_CANCEL, ALL_SYMBOLS), (CommandKind.END_DAY, 0)):
        everywhere = command(kind, symbol=symbol, time_ns=4)
        day = day_of(offer(1, 50, 1), trade, offer(3, 50, 1), offer(3, 40), everywhere, offer(5, 60, 1), names="AB")
        order = ParentOrder("B", Side.BUY, 2, 7, 9, 1)
        assert replay_with_twap(day, order) == [(7, 60, 1), (8, 60, 1)]
        assert replay_with(day, order, Twap(), "market") == [(1, 60), (1, 60)]


@pytest.mark.long
def test_the_demo_served_in_lockstep_equals_the_market_in_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [*SERL, "demo", "--quick", "--output", str(tmp_path)], capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "it is not real market data" in done.stdout
    summary = json.loads((tmp_path / "DEMO-sell-twap.json").read_text())["summary"]
    assert summary["served_equals_in_process"] is True
    assert summary["filled_lots"] == summary["qty_lots"] == 2000
    assert summary["PA_twap_bps"] == 0
    assert summary["PA_bps"] is not None
    assert (tmp_path / "DEMO-sell-twap.png").stat().st_size > 20_000
    page = (tmp_path / "DEMO-sell-twap.html").read_text()
    assert "yes, every decision" in page and "serl execute twap --symbol DEMO" in page and "seed" in page


@pytest.mark.long
def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [*SERL, "demo", "--quick", "--speed", "5", "--output", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith("replaying"):
            break
    os.killpg(demo.pid, signal.SIGINT)
    demo.stdout.read()
    assert demo.wait(timeout=60) == 130
    with pytest.raises(ProcessLookupError):
        os.killpg(demo.pid, 0)
    demo.stdout.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--side", "sell", "--qty", "0", "--window", "10:00-10:30"], "qty: expected a positive number"),
        (
            ["--side", "sell", "--qty", "5", "--window", "10:30-10:00"],
            "--window: expected FROM-TO with FROM before TO, got '10:30-10:00'",
        ),
        (["--side", "sell", "--qty", "5", "--window", "noon"], "--window: expected FROM-TO, got 'noon'"),
        (
            ["--side", "sell", "--qty", "5", "--window", "10:00-48:00"],
            "--window: expected a time of day like 10:30 or 10:30:15, got '48:00'",
        ),
        (["--side", "short", "--qty", "5", "--window", "10:00-10:30"], "short"),
    ],
)
def test_bad_options_are_one_line_errors(arguments: list[str], message: str) -> None:
    done = subprocess.run([*SERL, "execute", "twap", "--symbol", "A", *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_volume_curve_and_policies_with_missing_settings(tmp_path: Path) -> None:
    write_day(generate_day(4), tmp_path / "train.day")
    made = subprocess.run(
        [*SERL, "volume-curve", str(tmp_path / "train.day"), "-o", str(tmp_path / "curve.json"), "--width", "1800"],
        capture_output=True,
        text=True,
    )
    assert "13 buckets of 1800 s from 1 day\n" in made.stdout, made.stderr
    order = ["--symbol", "A", "--side", "sell", "--qty", "5", "--window", "10:00-10:30"]
    for policy, options, message in (
        ("vwap", [], "serl volume-curve"),
        ("nothing", [], "one of twap, vwap"),
        (
            "passive",
            ["--mode", "limit", "--connect", "tcp://127.0.0.1:1"],
            "passive: expected action mode hybrid, got 'limit'",
        ),
    ):
        done = subprocess.run([*SERL, "execute", policy, *order, *options], capture_output=True, text=True)
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr
