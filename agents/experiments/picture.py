"""The plot of an experiment: a panel for each measure, with the mean and interval of each arm."""

import math
from typing import Any

from serl.agents.experiments.experiment import Experiment
from serl.agents.experiments.measures import PNL, describe
from serl.agents.experiments.store import Results
from serl.agents.experiments.summary import Cell, summarise
from serl.agents.pages.picture import new_figure, picture

COLUMNS = 4
COLOURS = ("#555555", "#c0392b", "#2471a3", "#1e8449", "#8e44ad", "#d68910", "#117a65", "#7b241c")
"""Colours of the arms; the first is the baseline's."""


def draw(experiment: Experiment, results: Results) -> bytes:
    """A PNG plot: one panel per measure of the market, then one panel for the profit and loss of all groups of traders."""
    from matplotlib import rc_context

    cells = [cell for cell in summarise(experiment, results) if cell.mean is not None]
    market = list(dict.fromkeys(cell.measure for cell in cells if not cell.measure.startswith(f"{PNL}.")))
    groups = list(dict.fromkeys(cell.measure for cell in cells if cell.measure.startswith(f"{PNL}.")))
    rows = math.ceil(len(market) / COLUMNS)
    below = 0.55 + 0.1 * len(groups) if groups else 0.0
    style = {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 9}
    with rc_context(style):
        heights = [1.0] * rows + [below] * bool(groups)
        figure = new_figure(10, max(2.2, 2.1 * sum(heights)))
        grid = figure.add_gridspec(max(1, len(heights)), COLUMNS, height_ratios=heights or None)
        for place, measure in enumerate(market):
            axes = figure.add_subplot(grid[place // COLUMNS, place % COLUMNS])
            _panel(axes, experiment, [cell for cell in cells if cell.measure == measure])
        if groups:
            _groups(figure.add_subplot(grid[rows, :]), experiment, cells, groups)
        return picture(figure)


def _panel(axes: Any, experiment: Experiment, cells: list[Cell]) -> None:
    """Draws a measure, with the arms side by side."""
    names = [arm.name for arm in experiment.arms]
    for cell in cells:
        place = names.index(cell.arm)
        _point(axes, cell, place, COLOURS[place % len(COLOURS)], vertical=True)
    is_narrow = max(map(len, names)) * len(names) > 24
    axes.set_xticks(
        range(len(names)), names, rotation=20 * is_narrow, ha="right" if is_narrow else "center", rotation_mode="anchor"
    )
    axes.set_xlim(-0.6, len(names) - 0.4)
    title, unit = describe(cells[0].measure)
    axes.set_title(f"{title}, {unit}" if unit else title, loc="left")
    axes.grid(axis="y", alpha=0.2)


def _groups(axes: Any, experiment: Experiment, cells: list[Cell], groups: list[str]) -> None:
    """Draws profit and loss: a row for each group of traders, a colour for each arm. The scale is symmetric, and logarithmic beyond its middle."""
    names = [arm.name for arm in experiment.arms]
    for cell in cells:
        if cell.measure in groups:
            arm = names.index(cell.arm)
            shift = 0.6 * ((arm + 0.5) / len(names) - 0.5)
            _point(
                axes, cell, groups.index(cell.measure) + shift, COLOURS[arm % len(COLOURS)], vertical=False,
                label=cell.arm if cell.measure == groups[0] else None,
            )  # fmt: skip
    axes.axvline(0, color="#999999", lw=0.8)
    axes.set_yticks(range(len(groups)), [name.partition(".")[2] for name in groups])
    axes.set_ylim(len(groups) - 0.4, -0.6)
    size = [abs(cell.mean.mean) for cell in cells if cell.measure in groups and cell.mean]
    axes.set_xscale("symlog", linthresh=max(1e-6, sorted(size)[len(size) // 4]))
    axes.set_title("PnL of a trader by group, money", loc="left")
    axes.grid(axis="x", alpha=0.2)
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncol=len(names), borderaxespad=0.2)


def _point(axes: Any, cell: Cell, place: float, colour: str, *, vertical: bool, label: str | None = None) -> None:
    assert cell.mean is not None
    value, interval = cell.mean.mean, cell.mean.interval
    if interval is not None:
        (axes.vlines if vertical else axes.hlines)(place, *interval, color=colour, lw=2.5, alpha=0.45)
    x, y = (place, value) if vertical else (value, place)
    axes.plot(x, y, "o", ms=5, color=colour, label=label)
    if cell.is_clear:
        axes.annotate("*", (x, y), (5, 0), textcoords="offset points", color=colour, fontsize=12, va="center")
