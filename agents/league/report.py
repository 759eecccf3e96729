"""The cross tables of a season: in the terminal, as an HTML page, JSON and a plot."""

import math
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.markup import escape as escape_markup
from rich.table import Table

from serl.agents.league.league import Cell
from serl.agents.league.season import Cells, Season
from serl.agents.pages.origin import Origin, current_origin
from serl.agents.pages.page import page, png, table, write_with_picture
from serl.agents.pages.picture import new_figure, picture

NAME = "league.html"
Mean = tuple[float, float]
"""(mean, half of its 95 % interval)."""


class Measure(NamedTuple):
    """A cross table."""

    title: str
    key: str
    of: Callable[[Cell], Mean]
    digits: int
    colours: str
    """Name of a matplotlib colour map."""


MEASURES = (
    Measure("executor: price advantage over the VWAP, bps", "pa_bps", lambda cell: cell.means()[0], 2, "RdYlGn"),
    Measure("market maker: profit, ticks per lot of a quote", "profit_ticks", lambda cell: cell.means()[1], 1, "Blues"),
)
NOTE = (
    "Rows: executors; columns: market makers. Each pair meets in the same windows of simulated test days. ±: half of the 95 % interval over days "
    "(Student's t); learners are averaged over their training seeds."
)


def _text(measure: Measure, cell: Cell | None) -> str:
    """Formats a cell; empty for a match that is not played yet."""
    if cell is None:
        return ""
    value, half = measure.of(cell)
    if math.isnan(value):
        return "no trades"
    return f"{value:.{measure.digits}f}" + (f" ± {half:.{measure.digits}f}" if math.isfinite(half) else "")


def _rows(season: Season, cells: Cells, measure: Measure) -> list[list[str]]:
    """Table rows, one per executor: its name, then its text against each maker."""
    return [
        [executor, *(_text(measure, cells.get((executor, maker))) for maker in season.maker_names)]
        for executor in season.executor_names
    ]


def terminal_tables(season: Season) -> list[Table]:
    """One table for each side."""
    found, cells = [], season.cells
    for measure in MEASURES:
        shown = Table(title=measure.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for head in ("", *season.maker_names):
            shown.add_column(escape_markup(head), justify="right" if head else "left")
        for row in _rows(season, cells, measure):
            shown.add_row(*map(escape_markup, row))
        found.append(shown)
    return found


def write_report(season: Season) -> tuple[Path, Path, Path]:
    """Writes league.html, .json and .png to the season's folder; returns their paths."""
    config = season.config
    market = config.league
    data = (
        f"{market.population} (fingerprint {season.population}), {config.windows} windows of {market.duration_s:g} s on {market.simulated_days} "
        f"test days, orders of {market.share_min:.0%} to {market.share_max:.0%} of the expected volume; {season.parts_done} of {season.parts} parts done"
    )
    origin, drawn, cells = current_origin(data, config.seed), draw(season), season.cells
    parts = [f"<p>{escape(NOTE)}</p>", png(drawn, "heat maps of the tables below")]
    for measure in MEASURES:
        rows = [[escape(text) for text in row] for row in _rows(season, cells, measure)]
        parts += [f"<h2>{escape(measure.title)}</h2>", table(["", *map(escape, season.maker_names)], rows)]
    return write_with_picture(season.folder / NAME, page("League", origin, parts), numbers(season, origin), drawn)


def numbers(season: Season, origin: Origin) -> dict[str, Any]:
    """The settings, and the means of all matches with half of their intervals; null for NaN."""
    cells = [
        {"executor": executor, "maker": maker, "windows": len(cell.days)}
        | {measure.key: dict(zip(("mean", "half"), map(_finite, measure.of(cell)), strict=True)) for measure in MEASURES}
        for (executor, maker), cell in season.cells.items()
    ]  # fmt: skip
    return {"made": origin.to_json(), "season": season.config.model_dump(mode="json"), "cells": cells}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def draw(season: Season) -> bytes:
    """A PNG with a heat map of each table."""
    from matplotlib import rc_context

    rows, columns, cells = season.executor_names, season.maker_names, season.cells
    with rc_context({"font.size": 8, "axes.titlesize": 9}):
        figure = new_figure(3.2 + 2.4 * len(columns), 1.2 + 0.4 * len(rows))
        panels = figure.subplots(1, len(MEASURES), sharey=True)
        for axes, measure in zip(panels, MEASURES, strict=True):
            values = np.array([
                [measure.of(cells[row, column])[0] if (row, column) in cells else np.nan for column in columns] for row in rows
            ])  # fmt: skip
            _heat_map(axes, measure, values, rows, columns)
        return picture(figure)


def _heat_map(axes: Any, measure: Measure, values: Any, rows: list[str], columns: list[str]) -> None:
    """Draws a heat map; the colour scale of advantages is centred at 0, that of profits starts at 0."""
    largest = float(np.nanmax(np.abs(values), initial=1e-9))
    axes.imshow(
        values, cmap=measure.colours, vmin=-largest if measure.colours == "RdYlGn" else 0, vmax=largest, aspect="auto"
    )
    for (row, column), value in np.ndenumerate(values):
        if math.isfinite(value):
            is_dark = abs(value) > (0.6 if measure.colours == "Blues" else 0.85) * largest
            axes.text(
                column, row, f"{value:.{measure.digits}f}", ha="center", va="center", color="white" if is_dark else "black",
            )  # fmt: skip
    axes.set_xticks(range(len(columns)), columns, rotation=20, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_title(measure.title, loc="left")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
