"""The dashboard reads the progress files that executions write."""

from pathlib import Path

import numpy as np
import pytest

from serl.agents.execution.environment.static import StaticBook, recorded_trades
from serl.agents.execution.errors import ProgressError
from serl.agents.execution.executor import Executor, in_the_book
from serl.agents.execution.order import ParentOrder
from serl.agents.execution.policies.schedules import AlmgrenChriss, Twap
from serl.agents.execution.progress import ProgressFile, target_schedule
from serl.clients.blocking import connect
from serl.clients.dashboard.progress import Progress
from serl.exchange.records import Side
from tests.agents.execution.environment.stage import TINY, child, episode, step
from tests.server_fixture import start_exchange

SECOND_NS = 1_000_000_000


def order(qty: int = 90, start_s: int = 2, seconds: int = 3) -> ParentOrder:
    return ParentOrder("DEMO", Side.SELL, qty, start_s * SECOND_NS, (start_s + seconds) * SECOND_NS, SECOND_NS)


def test_prints_are_no_trades_of_the_market() -> None:
    """They are hidden or reported: no schedule takes part in them, and the markets in process leave them out."""
    trades = [(1, 10, 100, 5, 0, 0), (2, 11, 101, 6, 0, 1), (3, 12, 102, 7, 0, 2), (4, 30, 103, 8, 1, 0)]
    assert in_the_book(trades, 10, 20) == [(1, 10, 100, 5), (3, 12, 102, 7)]


def test_the_vwap_of_a_report_has_the_trades_of_the_window_in_process() -> None:
    """A trade at the end of a window, 12 s, was in the one and not in the other."""
    market = StaticBook([TINY], 1)
    market.reset(np.arange(1), episode(start=2, interval=10, steps=1))
    step(market, child(), 12)
    history = recorded_trades(TINY)[:-1]
    trades = [
        (number, int(row["time_ns"]), int(row["price_ticks"]), int(row["lots"]), 0, 0)
        for number, row in enumerate(history)
    ]
    assert 12 * SECOND_NS in history["time_ns"]
    assert (
        sum(qty for *_, qty in in_the_book(trades, 2 * SECOND_NS, 12 * SECOND_NS))
        == market.frames[0]["traded_lots"]
        == 0
    )


def test_the_schedule_runs_from_zero_to_the_whole_quantity() -> None:
    assert target_schedule(order(), Twap()) == [
        [2 * SECOND_NS, 0],
        [3 * SECOND_NS, 30],
        [4 * SECOND_NS, 60],
        [5 * SECOND_NS, 90],
    ]
    eager = target_schedule(order(), AlmgrenChriss(risk_aversion=1.0))
    assert (eager[0][1], eager[-1][1]) == (0, 90)
    assert eager[1][1] > 60, "most of it at once"


def test_the_dashboard_follows_an_execution(tmp_path: Path) -> None:
    path = tmp_path / "new" / "execution.jsonl"
    with (
        start_exchange(symbols="DEMO", clock="scaled:1") as served,
        connect(served.endpoint, "maker") as maker,
        connect(served.endpoint, "executor") as client,
    ):
        for price in (100, 99, 98):
            maker.buy("DEMO", 50, price)
        maker.sell("DEMO", 50, 101)
        work = order(start_s=int(client.session.clock[2] / SECOND_NS) + 3)
        execution = Executor(client, work, Twap(), progress=ProgressFile(path, "executor", work, Twap())).run()
    shown = Progress(path).as_json()
    assert shown["order"]["participant"] == "executor"
    assert shown["filled_lots"] == execution.filled_lots == 90
    assert [fill[1:3] for fill in shown["fills"]] == [[price, qty] for _, price, qty, _ in execution.fills]
    assert shown["ended"] == {"unfilled_lots": execution.unfilled_lots}
    assert shown["problem"] == ""


def test_an_unwritable_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProgressError, match="expected a writable file"):
        ProgressFile(tmp_path / "file" / "below", "executor", order(), Twap())
