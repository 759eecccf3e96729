"""How a population ranks policies, as a table, an HTML page, JSON and a plot."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from serl.agents.calibration.ranking import Ranking
from serl.agents.learning.evaluation import Estimate
from serl.agents.learning.table import estimate_text
from serl.agents.pages.origin import Origin, current_origin
from serl.agents.pages.page import page, png, table, write_with_picture
from serl.agents.pages.picture import new_figure, picture
from serl.agents.realism.distances import CLUSTERS_MIN

HEADS = ("PA in bps", "day", "population", "difference")


def _rows(found: Ranking) -> list[list[str]]:
    columns = zip(found.names, found.day, found.population, found.differences, strict=True)
    ordered = sorted(columns, key=lambda row: -row[1].value)
    return [[name, *map(estimate_text, estimates)] for name, *estimates in ordered]


def summary_table(found: Ranking, title: str) -> Table:
    """One row per policy, the day's best first."""
    shown = Table(title=title, box=None, padding=(0, 1, 0, 0), pad_edge=False)  # fits into eighty columns
    for head in HEADS:
        shown.add_column(head, justify="left" if head == HEADS[0] else "right", no_wrap=head == HEADS[0])
    for row in _rows(found):
        shown.add_row(*(cell.replace("[", r"\[") for cell in row))
    return shown


def sentences(found: Ranking) -> list[str]:
    """The conclusions from the table, in sentences."""
    counts = [
        f"{orders} orders in {clusters} {unit}"
        for orders, clusters, unit in zip(found.orders, found.clusters, found.units, strict=True)
    ]
    few = f", of which {CLUSTERS_MIN} are needed: give longer --hours" if min(found.clusters) < CLUSTERS_MIN else ""
    return [
        f"rank correlation {estimate_text(found.correlation)}, largest difference {found.largest_difference_bps:.2f} bps",
        "difference: population - day, after subtracting the mean over the policies from both",
        f"day: {counts[0]}; population: {counts[1]}; intervals of 95 % over these{few}",
    ]


def to_json(found: Ranking) -> dict[str, Any]:
    """All numbers."""
    columns = {"day": found.day, "population": found.population, "difference": found.differences}
    return {
        "rank_correlation": _json(found.correlation),
        "largest_difference_bps": found.largest_difference_bps,
        "pa_bps": {
            name: {column: _json(estimates[number]) for column, estimates in columns.items()}
            for number, name in enumerate(found.names)
        },
        "orders": list(found.orders), "clusters": list(found.clusters), "units": list(found.units),
    }  # fmt: skip


def _json(one: Estimate) -> dict[str, Any]:
    return {"value": one.value, "interval": one.interval}


def plot(found: Ranking) -> bytes:
    """A plot of PA in the population against PA on the day, with intervals; on the line both are equal."""
    from matplotlib import colormaps

    figure = new_figure(7, 6)
    axes, colours = figure.subplots(), colormaps["tab20"].colors
    colours = colours[::2] + colours[1::2]
    for name, real, simulated, colour in zip(found.names, found.day, found.population, colours, strict=False):
        bars = ([[one.value - one.low], [one.high - one.value]] for one in (real, simulated))
        across, up = bars
        axes.errorbar(
            real.value,
            simulated.value,
            xerr=across,
            yerr=up,
            fmt="o",
            markersize=4,
            linewidth=0.8,
            label=name,
            color=colour,
        )
    ends = [end for one in (*found.day, *found.population) for end in (one.value, one.low, one.high)]
    low, high = np.nanmin(ends), np.nanmax(ends)
    axes.plot([low, high], [low, high], color="grey", linewidth=0.8)
    axes.set(xlabel="PA in the replayed day, bps", ylabel="PA in the population, bps", title=f"rank correlation {estimate_text(found.correlation)}")  # fmt: skip
    axes.legend(fontsize=8, ncols=2)
    return picture(figure)


def write_ranking(found: Ranking, data: str, title: str, seed: int, path: Path) -> tuple[Path, Path, Path]:
    """Writes .html, .json and .png files with PATH's name; returns their paths. Raises ReportFileError if they cannot be written. data: source of the
    numbers."""
    origin, image = current_origin(data, seed), plot(found)
    return write_with_picture(
        path, _html(found, title, origin, image), {"made": origin.to_json(), **to_json(found)}, image
    )


def _html(found: Ranking, title: str, origin: Origin, image: bytes) -> str:
    parts = [f"<p>{sentence}.</p>" for sentence in sentences(found)]
    parts += [png(image, "PA in the population against PA in the day"), table(HEADS, _rows(found))]
    return page(title, origin, parts)
