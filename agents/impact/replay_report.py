"""The impact of metaorders in a replay as a table, an HTML page, JSON and a plot."""

import math
from pathlib import Path
from typing import Any

from rich.table import Table

from serl.agents.impact.replay import ReplayImpact
from serl.agents.pages.origin import Origin, current_origin
from serl.agents.pages.page import page, png, table, write_with_picture
from serl.agents.pages.picture import new_figure, picture
from serl.agents.realism.days import window_text
from serl.exchange.config import time_of_day_text

COLOURS = ("#f39c12", "#27ae60", "#2471a3", "#c0392b", "#2c3e50")


def summary_table(found: ReplayImpact, title: str) -> Table:
    """One row per size."""
    summary = Table(title=title)
    for head in ("share", "lots", "filled", "after a child", "mean", "at the end"):
        summary.add_column(head, justify="right")
    for order in found.orders:
        cells = (f"{order.qty_share:g}", f"{order.qty_lots:,}", f"{order.filled_lots:,}")
        ticks = (order.child_ticks[0], order.mean_ticks, order.at_end_ticks)
        summary.add_row(*cells, *(f"{value:+z.2f}" for value in ticks))
    return summary


def to_json(found: ReplayImpact, name: str, origin: str) -> dict[str, Any]:
    """All numbers, and the data from which they come."""
    return {
        "data": {"name": name, "origin": origin, "symbol": found.symbol},
        "answering": None if found.answering is None else found.answering.describe(),
        "side": found.side.name.lower(),
        "window": window_text((found.start_ns, found.end_ns)),
        "window_lots": found.window_lots,
        "day_lots": found.day_lots,
        "sigma_window_ticks": found.sigma_ticks if math.isfinite(found.sigma_ticks) else None,
        "time_s": ((found.grid_ns - found.start_ns) / 1e9).tolist(),
        "child_lags_s": (found.lags_ns / 1e9).tolist(),
        "orders": [
            {
                "qty_share": order.qty_share,
                "qty_lots": order.qty_lots,
                "filled_lots": order.filled_lots,
                "impact_at_end_ticks": order.at_end_ticks,
                "mean_impact_ticks": order.mean_ticks,
                "child_impact_ticks": order.child_ticks.tolist(),
                "impact_ticks": order.impact_ticks.tolist(),
            }
            for order in found.orders
        ],
    }


def write_replay_impact(found: ReplayImpact, name: str, data: str, path: Path) -> tuple[Path, Path, Path]:
    """Writes .html, .json and .png files with PATH's name; returns their paths. Raises ReportFileError if they cannot be written."""
    origin, picture = current_origin(f"{name}: {data}", None), draw(found)
    numbers = {"made": origin.to_json(), **to_json(found, name, data)}
    return write_with_picture(path, html(found, origin, picture), numbers, picture)


def html(found: ReplayImpact, origin: Origin, picture: bytes) -> str:
    """The HTML page, with the plot."""
    rows = [
        [f"{order.qty_share:g}", f"{order.qty_lots:,}", f"{order.filled_lots:,}"]
        + [f"{ticks:+z.2f}" for ticks in (order.child_ticks[0], order.mean_ticks, order.at_end_ticks)]
        for order in found.orders
    ]
    parts = [
        "<p>The mid with a metaorder minus the mid without it, in a replay. "
        + (
            "Nobody in a replay reacts: the impact is mechanical.</p>"
            if found.answering is None
            else f"The day gives way to it: {found.answering.describe()}</p>"
        ),
        table(
            ["share of the volume", "lots", "filled", "ticks after a child", "ticks, mean", "ticks at the end"], rows
        ),
        png(picture, "impact on the mid over time, and after child orders"),
    ]
    return page(f"Impact of metaorders in a replay of {found.symbol}", origin, parts)


def draw(found: ReplayImpact) -> bytes:
    """A PNG of the impact over time, next to the mean over child orders."""
    figure = new_figure(10, 4)
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    minutes = (found.grid_ns - found.start_ns) / 60e9
    left.axvspan(0, (found.end_ns - found.start_ns) / 60e9, color="#f0f0f0", zorder=0)
    for number, order in reversed(list(enumerate(found.orders))):  # draw the largest first, the others on top
        colour = COLOURS[number % len(COLOURS)]
        label = f"{order.qty_share:.3g} of the volume: {order.filled_lots:,} of {order.qty_lots:,} lots"
        left.plot(minutes, order.impact_ticks, color=colour, lw=1.0)
        right.plot(range(len(found.lags_ns)), order.child_ticks, "o-", ms=3, color=colour, lw=1.3, label=label)
    left.set_xlabel(f"minutes after {time_of_day_text(found.start_ns)} (grey: the metaorder is worked)")
    left.set_ylabel("impact on the mid, ticks")
    left.set_title(f"{found.side.name.lower()} {found.symbol}, replayed: mid with the metaorder minus mid without")
    right.set_xticks(range(len(found.lags_ns)), [f"{lag / 1e9:g}" for lag in found.lags_ns])
    right.set_xlabel("seconds after a child order")
    right.set_title("mean over child orders")
    right.legend(frameon=False, fontsize=7)
    for axes in (left, right):
        axes.axhline(0, color="#999999", lw=0.8, zorder=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
    return picture(figure)
