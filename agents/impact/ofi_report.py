"""The price impact of order-flow imbalance as tables, an HTML page, JSON and a plot."""

import math
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from serl.agents.impact.ofi import BEST, OfiImpact
from serl.agents.impact.regression import Line
from serl.agents.pages.origin import current_origin
from serl.agents.pages.page import page, png, table, write_with_picture
from serl.agents.pages.picture import new_figure, picture
from serl.agents.realism.days import window_text
from serl.exchange.config import time_of_day_text

NOTE = (
    "Standard errors: Newey and West (1987). R² tested: on the hours after the split, against the mean move before it; "
    "negative: that mean is the better forecast."
)


def line_table(found: OfiImpact) -> Table:
    """One row per regressor and time of the move."""
    shown = Table(title=f"{found.intervals.symbol}: moves of the mid, fitted {_hours(found, fitted=True)}, tested {_hours(found, fitted=False)}")  # fmt: skip
    for head in ("regressor", "move, ticks"):
        shown.add_column(head)
    for head in ("fitted", "beta", "± s.e.", "t", "R²", "tested", "R² tested"):
        shown.add_column(head, justify="right")
    for name, lines in found.lines.items():
        for move, line in zip(_moves(found), lines, strict=True):
            shown.add_row(
                name, move, f"{line.fitted:,}", f"{line.beta:.3g}", f"{line.standard_error:.2g}", _text(line.t, ".1f"),
                _text(line.r2, ".3f"), f"{line.tested:,}", _text(line.r2_tested, ".3f"),
            )  # fmt: skip
    return shown


def period_table(found: OfiImpact) -> Table:
    """One row per half hour."""
    shown = Table(title=f"{BEST}, same interval, by half hour")
    for head in ("from", "intervals", "depth, lots", "beta, ticks/lot", "± s.e.", "R²"):
        shown.add_column(head, justify="right")
    for one in found.periods:
        shown.add_row(
            time_of_day_text(one.start_ns)[:5], f"{one.line.fitted:,}", f"{one.depth_lots:,.0f}", f"{one.line.beta:.3g}",
            f"{one.line.standard_error:.2g}", _text(one.line.r2, ".3f"),
        )  # fmt: skip
    return shown


def conclusions(found: OfiImpact) -> list[str]:
    """The conclusions from the numbers, in sentences."""
    same = [(lines[0].r2_tested, name) for name, lines in found.lines.items() if math.isfinite(lines[0].r2_tested)]
    later = [
        (line.r2_tested, name, horizon)
        for name, lines in found.lines.items()
        for horizon, line in zip(found.intervals.horizons_s, lines[1:], strict=True)
        if math.isfinite(line.r2_tested)
    ]
    said = ["In the same interval, there is nothing to explain: all tested moves are equal."]
    if same:
        best, name = max(same)
        said = [f"In the same interval, {name} explains {best:.1%} of the variance of tested moves."]
    if later:
        best, name, horizon = max(later)
        said.append(
            f"Forecasts: the best of {len(later)} ({name}, next {horizon:g} s) explains {best:.1%} of the variance of tested moves."
            if best > 0
            else f"Forecasts: none of {len(later)} is better than the mean move on the tested hours."
        )
    if (law := found.depth_exponent) is not None:
        said.append(
            f"Depth: beta ~ depth^{law.beta:.2f} over {law.fitted} half hours (± {law.standard_error:.2f}); -1 in the paper's book."
        )
    if found.dropped:
        said.append(f"Left out: {found.dropped:,} intervals in which a side of the book was empty.")
    return said


def to_json(found: OfiImpact) -> dict[str, Any]:
    """All numbers."""
    law = found.depth_exponent
    return {
        "symbol": found.intervals.symbol,
        "interval_s": found.intervals.interval_s,
        "fitted": _hours(found, fitted=True),
        "tested": _hours(found, fitted=False),
        "dropped": found.dropped,
        "level_weights": found.weights.tolist(),
        "regressions": [
            {"regressor": name, "move": move, **_line(line)}
            for name, lines in found.lines.items()
            for move, line in zip(_moves(found), lines, strict=True)
        ],
        "half_hours": [
            {"from": time_of_day_text(one.start_ns), "depth_lots": one.depth_lots, **_line(one.line)}
            for one in found.periods
        ],
        "depth_exponent": None if law is None else {"value": law.beta, "standard_error": law.standard_error},
        "conclusions": conclusions(found),
    }


def write_ofi(found: OfiImpact, data: str, seed: int | None, path: Path) -> tuple[Path, Path, Path]:
    """Writes .html, .json and .png files with PATH's name; returns their paths. Raises ReportFileError if they cannot be written."""
    origin, image = current_origin(data, seed), draw(found)
    parts = [f"<p>{escape(said)}</p>" for said in [*conclusions(found), NOTE]]
    for shown in (line_table(found), period_table(found)):
        rows = list(zip(*([escape(str(cell)) for cell in column.cells] for column in shown.columns), strict=True))
        heads = [escape(str(column.header)) for column in shown.columns]
        parts.append(f"<h2>{escape(str(shown.title))}</h2>" + table(heads, rows))
    parts.append(png(image, "moves of the mid against order-flow imbalance, and beta against depth by half hour"))
    title = f"Price impact of order-flow imbalance in {found.intervals.symbol}"
    return write_with_picture(path, page(title, origin, parts), {"made": origin.to_json(), **to_json(found)}, image)


def draw(found: OfiImpact) -> bytes:
    """A PNG: moves against OFI with the fitted line, and beta against depth by half hour."""
    figure = new_figure(10, 4)
    left, right = figure.subplots(1, 2)
    x, y, line = found.intervals.ofi_lots[:, 0], found.intervals.moves_ticks, found.lines[BEST][0]
    ends = np.array([np.nanmin(x), np.nanmax(x)])
    left.plot(x, y, ".", ms=2, color="#2471a3", alpha=0.5)
    left.plot(ends, line.intercept + line.beta * ends, color="#c0392b", lw=1.2)
    left.set_xlabel("order-flow imbalance at the best prices, lots")
    left.set_ylabel("move of the mid in the same interval, ticks")
    left.set_title(
        f"{found.intervals.symbol}, {found.intervals.interval_s:g} s: R² {_text(line.r2, '.2f')}, tested {_text(line.r2_tested, '.2f')}"
    )
    right.errorbar(
        [one.depth_lots for one in found.periods], [one.line.beta for one in found.periods],
        [1.96 * one.line.standard_error for one in found.periods], fmt="o", ms=3, color="#2c3e50", lw=0.8,
    )  # fmt: skip
    right.set_xlabel("mean quantity at a best price, lots")
    right.set_ylabel("beta, ticks / lot")
    right.set_title("by half hour, ± 1.96 standard errors")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
    return picture(figure)


def _text(value: float, form: str) -> str:
    """The number, or a dash where there is none, as for the R² of a mid that does not move."""
    return "–" if math.isnan(value) else format(value, form)


def _hours(found: OfiImpact, *, fitted: bool) -> str:
    edges, split = found.intervals.edges_ns.tolist(), found.split_ns
    return window_text((edges[0], split) if fitted else (split, edges[-1]))


def _moves(found: OfiImpact) -> list[str]:
    return ["same interval", *(f"next {horizon:g} s" for horizon in found.intervals.horizons_s)]


def _line(line: Line) -> dict[str, Any]:
    numbers = {
        "beta": line.beta, "standard_error": line.standard_error, "lags": line.lags, "intercept": line.intercept,
        "fitted": line.fitted, "r2": line.r2, "tested": line.tested, "r2_tested": line.r2_tested,
    }  # fmt: skip
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}
