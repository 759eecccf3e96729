"""The report of one parent order."""

import dataclasses
from typing import Any

import pytest

from serl.agents.execution import report
from serl.agents.execution.executor import Execution
from serl.agents.execution.order import ParentOrder
from serl.exchange.records import Side

SECOND_NS = 1_000_000_000


def execution(children: int) -> Execution:
    """A sale with a fill of ten lots at 100 each second; each second others trade ten lots at 99."""
    times = [36_000 * SECOND_NS + second * SECOND_NS for second in range(children)]
    order = ParentOrder("DEMO", Side.SELL, 10 * children, times[0], times[-1] + SECOND_NS, SECOND_NS)
    ours = [(time_ns, 100, 10, match) for match, time_ns in enumerate(times)]
    trades = [(match, time_ns, price, qty) for time_ns, price, qty, match in ours]
    trades += [(children + match, time_ns, 99, 10) for match, time_ns in enumerate(times)]
    sent, mids = [(time_ns, 10) for time_ns in times], [(time_ns, 99.5) for time_ns in times]
    return Execution(order, "twap", "market", 99.5, ours, sent, mids, trades)


def test_the_market_without_us_has_only_the_trades_of_others() -> None:
    summary = report.summarise(execution(4), None)
    assert (summary["market_trades"], summary["market_vwap_ticks"], summary["participation"]) == (4, 99, 0.5)
    assert ("market VWAP (without us)", "0.9900 over 4 trades") in report.lines(summary, 0.01)


def test_the_costs_of_a_sale_by_hand() -> None:
    """Above the market's price and the arrival's is a gain. Ten of forty lots were left at the end and then forced."""
    own = dataclasses.replace(execution(4), arrival_mid_ticks=98.0, unfilled_lots=10, steps=[(10, 1000)] * 4)
    twap = [(time_ns, 99, qty) for time_ns, _, qty, _ in own.fills]
    summary = report.summarise(own, report.Benchmark(twap, own.steps, "a day"))
    costs = {"PA_bps": 100 / 99, "PA_twap_bps": 100 / 99, "IS_bps": 100 / 98}
    assert {name: summary[name] for name in costs} == {
        name: pytest.approx((ratio - 1) * 1e4) for name, ratio in costs.items()
    }
    assert (summary["AFI"], summary["FFR"]) == (0.25, 1.0)
    assert report.summarise(dataclasses.replace(own, arrival_mid_ticks=None), None)["IS_bps"] is None


def test_served_equals_in_process_in_every_decision() -> None:
    """For a TWAP with market orders also in every fill."""
    own = dataclasses.replace(execution(4), steps=[(10, 1000)] * 4)
    fills = [fill[:3] for fill in own.fills]
    same, other = report.Benchmark(fills, own.steps, ""), report.Benchmark(fills, [(10, 1000)] * 3 + [(10, 990)], "")
    coarser = report.Benchmark([*fills[:3], (fills[3][0], 100, 9), (fills[3][0], 100, 1)], own.steps, "")
    assert [one.equals(own) for one in (same, other, coarser)] == [True, False, False]
    resting = dataclasses.replace(own, policy="passive")
    assert [one.equals(resting) for one in (same, other, coarser)] == [True, False, True]


def test_the_picture_of_thousands_of_child_orders_has_few_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of its own for each took 12 s for 4,000 of them."""
    drawn: list[Any] = []
    monkeypatch.setattr(report, "picture", lambda figure: drawn.append(figure) or b"")
    found = execution(2500)
    report.draw(found, report.summarise(found, None), 0.01)
    assert len(drawn[0].axes[0].get_children()) < 30
    assert drawn[0].axes[0].get_ylim()[0] > 0.98


@pytest.mark.parametrize(
    ("seconds", "labels"),
    [
        (300, ["10:00:00", "10:01:00", "10:02:00", "10:03:00", "10:04:00", "10:05:00"]),
        (8, ["10:00:00", "10:00:02", "10:00:04", "10:00:06", "10:00:08"]),
        (1800, ["10:00:00", "10:05:00", "10:10:00", "10:15:00", "10:20:00", "10:25:00", "10:30:00"]),
    ],
)
def test_times_of_day_are_round(monkeypatch: pytest.MonkeyPatch, seconds: int, labels: list[str]) -> None:
    """Those of five minutes were 10:01:12, 10:02:24 and so on: hundredths of an hour."""
    drawn: list[Any] = []
    monkeypatch.setattr(report, "picture", lambda figure: drawn.append(figure) or b"")
    found = execution(seconds)
    report.draw(found, report.summarise(found, None), 0.01)
    axis, (low, high) = drawn[0].axes[1].xaxis, drawn[0].axes[1].get_xlim()
    places = [place for place in axis.get_majorticklocs() if low <= place <= high]
    assert [axis.get_major_formatter()(place) for place in places] == labels
