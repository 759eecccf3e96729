"""The transaction-cost report of one parent order: a table, an HTML page, JSON, and a plot."""

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.execution import metrics
from serl.agents.execution.executor import Execution
from serl.agents.execution.order import ParentOrder
from serl.agents.pages.origin import Origin, current_origin
from serl.agents.pages.page import page, png, table, write_with_picture
from serl.agents.pages.picture import new_figure, picture, show_time_of_day
from serl.exchange.config import time_of_day_text

Fills = list[tuple[int, int, int]]
FILL_FIELDS = ("time_ns", "price_ticks", "qty_lots", "match_id")
CHILD_FIELDS = ("time_ns", "qty_lots")
"""Common fields of the lists `fills` and `children` in the JSON file."""


@dataclass(frozen=True)
class Benchmark:
    """The same order worked in process on the same day; `day` is the file and its fingerprint."""

    twap: Fills
    steps: list[tuple[int, int]]
    """(lots, ticks x lots) of each decision of the policy itself."""
    day: str

    def equals(self, execution: Execution) -> bool:
        """Whether every decision of the served execution had the same fills; for a TWAP with market orders, every single fill."""
        if (execution.policy, execution.mode) == ("twap", "market"):
            return self.steps == execution.steps and self.twap == [fill[:3] for fill in execution.fills]
        return self.steps == execution.steps


def summarise(execution: Execution, benchmark: Benchmark | None) -> dict[str, Any]:
    """All numbers of the report; a number that cannot be computed is None, and `notes` says why."""
    order = execution.order
    own = {match_id for _, _, _, match_id in execution.fills}
    trades = [(match_id, price, qty) for match_id, _, price, qty in execution.trades]
    executed = metrics.average_price([(price, qty) for _, price, qty, _ in execution.fills])
    vwap = metrics.market_vwap(trades, own)
    twap = metrics.average_price([(price, qty) for _, price, qty in benchmark.twap]) if benchmark else None
    same = benchmark.equals(execution) if benchmark else None
    notes = ["one parent order: these numbers have no confidence interval"]
    if vwap is None:
        notes.append("PA: nobody else traded in the window, so there is no market VWAP")
    if benchmark is None:
        notes.append("PA_twap: needs --day, the file that is being replayed")
    if execution.arrival_mid_ticks is None:
        notes.append("IS: no two-sided market at the start of the window")
    for reason, count in execution.rejected.items():
        notes.append(
            f"{count:,} of {len(execution.children):,} child orders {'was' if count == 1 else 'were'} rejected: {reason}"
        )
    if execution.throttled:
        again = "1 command was" if execution.throttled == 1 else f"{execution.throttled:,} commands were"
        notes.append(f"{again} beyond the account's rate and sent again a second later")
    return {
        "policy": execution.policy, "mode": execution.mode, "symbol": order.symbol, "side": order.side.name.lower(), "qty_lots": order.qty_lots,
        "window_ns": [order.start_ns, order.end_ns], "interval_ns": order.interval_ns, "parent_orders": 1,
        "children": len(execution.children), "fills": len(execution.fills), "filled_lots": execution.filled_lots,
        "average_price_ticks": executed, "arrival_mid_ticks": execution.arrival_mid_ticks, "market_vwap_ticks": vwap,
        "PA_bps": metrics.advantage_bps(order.sign, executed, vwap),
        "PA_twap_bps": metrics.advantage_bps(order.sign, executed, twap),
        "IS_bps": metrics.advantage_bps(order.sign, executed, execution.arrival_mid_ticks),
        "participation": metrics.participation(execution.filled_lots, trades, own),
        "AFI": metrics.unfilled_share(execution.unfilled_lots, order.qty_lots),
        "FFR": metrics.fill_ratio(execution.filled_lots, order.qty_lots),
        "market_trades": sum(match_id not in own for match_id, _, _ in trades), "served_equals_in_process": same, "notes": notes,
        "day": benchmark.day if benchmark else None,
    }  # fmt: skip


def import_drawing() -> None:
    """Imports the plotting library of `write_report`, which takes a second or more: better before an execution than after it."""
    from matplotlib.backends import backend_agg  # noqa: F401


def write_report(
    execution: Execution, summary: dict[str, Any], tick_size: float, folder: Path
) -> tuple[Path, Path, Path]:
    """Writes SYMBOL-SIDE-POLICY.html, .json and .png; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{execution.order.symbol}-{execution.order.side.name.lower()}-{execution.policy}.html"
    origin = current_origin(summary["day"] or "unknown, because --day was not given", None)
    record = {
        "made": origin.to_json(), "summary": summary, "tick_size": tick_size, "fills": execution.fills, "children": execution.children
    }  # fmt: skip
    picture = draw(execution, summary, tick_size)
    return write_with_picture(path, html(execution.order, summary, tick_size, origin, picture), record, picture)


def html(order: ParentOrder, summary: dict[str, Any], tick_size: float, origin: Origin, picture: bytes) -> str:
    """The HTML page with the table and the plot."""
    window = "-".join(time_of_day_text(time_ns) for time_ns in (order.start_ns, order.end_ns))
    title = f"{summary['policy']}: {summary['side']} {order.qty_lots:,} {order.symbol}, {window}"
    rows = [[escape(name), escape(value)] for name, value in lines(summary, tick_size)]
    return page(
        title,
        origin,
        [png(picture, "mid, child orders and fills; executed lots"), table(["measure", "value"], rows, text=True)],
    )


def draw(execution: Execution, summary: dict[str, Any], tick_size: float) -> bytes:
    """A PNG plot. Top: mid, market VWAP, child orders and fills. Bottom: executed quantity compared with an even pace."""
    order = execution.order
    figure = new_figure(11, 6.5)
    top, bottom = figure.subplots(2, sharex=True, height_ratios=[3, 1.2])
    if execution.mids:
        times, mids = zip(*execution.mids, strict=True)
        top.step(_hours(times), np.array(mids) * tick_size, where="post", color="#44546a", lw=1, label="mid")
    if summary["market_vwap_ticks"]:
        top.axhline(summary["market_vwap_ticks"] * tick_size, color="#999999", ls="--", lw=1, label="market VWAP")
    if execution.children:
        sent, across = _hours([time_ns for time_ns, _ in execution.children]), top.get_xaxis_transform()
        top.vlines(sent, 0, 1, transform=across, color="#e0a030", lw=0.5, alpha=0.5, label="child order")
    fill_times, prices, sizes = _columns(execution.fills)
    scale = 90 / max(sizes.max(initial=1), 1)
    label = f"{order.side.name.lower()} fill (area = quantity)"
    top.scatter(
        _hours(fill_times), prices * tick_size, s=10 + sizes * scale, color="#c0392b", alpha=0.7, label=label, zorder=3
    )
    top.set_ylabel("price")
    top.ticklabel_format(axis="y", useOffset=False)
    top.set_title(_title(order, summary))
    top.legend(loc="best", fontsize=8, frameon=False)
    bottom.plot(
        [order.start_ns / 3.6e12, order.end_ns / 3.6e12],
        [0, order.qty_lots],
        color="#999999",
        ls="--",
        label="even pace",
    )
    bottom.step(_hours(fill_times), np.cumsum(sizes), where="post", color="#c0392b", label="executed")
    bottom.set_ylabel("lots")
    bottom.legend(loc="upper left", fontsize=8, frameon=False)
    show_time_of_day(bottom)
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
    return picture(figure)


def _columns(fills: list[tuple[int, int, int, int]]) -> tuple[Any, Any, Any]:
    table = np.array(fills, np.int64).reshape(-1, 4)
    return table[:, 0], table[:, 1], table[:, 2]


def _hours(times_ns: Any) -> Any:
    return np.asarray(times_ns, np.float64) / 3.6e12


def _title(order: ParentOrder, summary: dict[str, Any]) -> str:
    return (
        f"{summary['policy']} {order.side.name.lower()} {order.qty_lots:,} {order.symbol}: "
        f"PA {bps(summary['PA_bps'])}, IS {bps(summary['IS_bps'])}, {summary['fills']} fills"
    )


def bps(value: float | None) -> str:
    """Formats basis points; n/a for None."""
    return "n/a" if value is None else f"{value:+.2f} bps"


def lines(summary: dict[str, Any], tick_size: float) -> list[tuple[str, str]]:
    """The rows of the table."""

    def price(ticks: float | None) -> str:
        return "n/a" if ticks is None else f"{ticks * tick_size:.4f}"

    share = summary["participation"]
    rows = [
        ("filled", f"{summary['filled_lots']:,} of {summary['qty_lots']:,} lots in {summary['fills']} fills"),
        ("child orders", f"{summary['children']}"),
        ("average price", price(summary["average_price_ticks"])),
        ("market VWAP (without us)", f"{price(summary['market_vwap_ticks'])} over {summary['market_trades']:,} trades"),
        ("arrival mid", price(summary["arrival_mid_ticks"])),
        ("PA (against VWAP)", bps(summary["PA_bps"])),
        ("PA_twap (against TWAP in process)", bps(summary["PA_twap_bps"])),
        (f"IS ({metrics.IS_MEANING})", bps(summary["IS_bps"])),
        ("participation", "n/a" if share is None else f"{share:.2%}"),
        ("AFI / FFR", f"{summary['AFI']:.4f} / {summary['FFR']:.4f}"),
    ]
    if summary["served_equals_in_process"] is not None:
        rows.append(("served = in process", "yes, every decision" if summary["served_equals_in_process"] else "no"))
    return rows + [("note", note) for note in summary["notes"]]
