"""An evaluation as a table, an HTML page, JSON and a plot of calibration."""

from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from serl.agents.pages.origin import current_origin
from serl.agents.pages.page import page, png, table, write_with_picture
from serl.agents.pages.picture import new_figure, picture
from serl.agents.signals.conclusions import conclusions
from serl.agents.signals.evaluation import ECE, FILL, TARGETS, TREND, VOLUME, Evaluation, Target
from serl.agents.signals.forecaster import MODELS
from serl.agents.signals.scores import BINS, Score
from serl.exchange.config import time_of_day_text

HEADS = {
    "macro_f1": "macro F1", "accuracy": "accuracy", "brier": "Brier", "ece": "ECE", "explained": "explained", "absolute_error": "absolute error",
    "ratio": "forecast / traded",
}  # fmt: skip
"""Column heads of the measures."""
TITLES = {TREND: "trend of the mid", FILL: "fill of an order at the touch", VOLUME: "volume"}
COLOURS = ("#2471a3", "#c0392b", "#7d3c98")
"""Colours of the trend models."""
SHOWN_SHARE = 0.005
"""The smallest share of forecasts for which a bin is plotted."""


def note(found: Evaluation) -> str:
    """How to read the table."""
    hours = hours_text(found.forecaster.training.hours)
    return (
        f"After the slash: the training hours ({hours}). In brackets: 95 % intervals, {found.blocks} blocks of "
        f"{found.block_s} s resampled. Published: {found.forecaster.model}, whose log loss was the smallest on the last quarter of the training hours."
    )


def hours_text(hours: tuple[int, int]) -> str:
    """Formats hours in ns after midnight as '10:00-13:00'."""
    return "-".join(time_of_day_text(one)[:5] if one % (60 * 10**9) == 0 else time_of_day_text(one) for one in hours)


def score_tables(found: Evaluation, hours: tuple[int, int], *, wide: bool = False) -> list[Table]:
    """A table for each of TARGETS, with a row per horizon and model. wide: for Markdown, with an interval beside its value instead of below."""
    return [_score_table(found, target, hours, wide) for target in TARGETS]


def _score_table(found: Evaluation, target: Target, hours: tuple[int, int], wide: bool) -> Table:
    title = None if wide else f"{found.forecaster.symbol}: {TITLES[target]}, tested {hours_text(hours)}"
    shown = Table(title=title, box=box.MARKDOWN if wide else box.SIMPLE_HEAD, pad_edge=wide)
    shown.add_column("in")
    shown.add_column(target.name if wide else "forecast")
    for measure in target.measures:
        shown.add_column(HEADS[measure], justify="right")
    trained = {
        (row["horizon_s"], row["model"]): row
        for row in found.forecaster.training.scores
        if row["forecast"] == target.name
    }
    for (horizon, name), one in found.of(target).items():
        seconds = found.forecaster.horizons_s[horizon]
        before = trained.get((seconds, name), {})
        cells = [_cell(one, number, before.get(measure), wide) for number, measure in enumerate(target.measures)]
        is_first, is_last = name == target.rows[0], name == target.rows[-1]
        shown.add_row(f"{seconds:g} s" if is_first else "", name, *cells, end_section=not wide and is_last)
    return shown


def _cell(score: Score, number: int, trained: float | None, wide: bool) -> str:
    value, low, high = (_number(float(one[number])) for one in (score.values, score.low, score.high))
    if trained is not None:
        value = f"{value} / {_number(trained)}"
    return f"{value}{' ' if wide else chr(10)}[{low}, {high}]"


def _number(value: float) -> str:
    """Formats a number as .123 or -.123, without the zero before the decimal point."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


def share_sentence(found: Evaluation) -> str:
    """A sentence with the shares of the labels at each horizon."""
    parts, trends, fills, volumes = [], *(found.of(target) for target in TARGETS)
    for horizon, seconds in enumerate(found.forecaster.horizons_s):
        one = trends[horizon, TREND.rows[0]]
        shares = ", ".join(f"{name} {share:.0%}" for name, share in zip(TREND.classes, one.shares, strict=True))
        parts.append(
            f"{seconds:g} s: {one.count:,} forecasts, flat up to {found.forecaster.thresholds_ticks[horizon]:g} ticks; {shares}; "
            f"{fills[horizon, FILL.rows[0]].shares[1]:.1%} of orders filled; {volumes[horizon, VOLUME.rows[0]].mean_lots:,.1f} lots traded"
        )
    return "Labels. " + ". ".join(parts) + "."


def to_json(found: Evaluation, hours: tuple[int, int]) -> dict[str, Any]:
    """All numbers."""
    training = found.forecaster.training
    return {
        "symbol": found.forecaster.symbol, "tested": hours_text(hours), "trained": hours_text(training.hours),
        "trained_on": list(training.days), "published": found.forecaster.model, "log_loss_calibration": training.log_loss,
        "thresholds_ticks": found.forecaster.thresholds_ticks.tolist(), "blocks": found.blocks, "block_s": found.block_s, "scores": found.to_json(),
        "training_scores": training.scores, "conclusions": conclusions(found),
    }  # fmt: skip


def write_report(
    found: Evaluation, hours: tuple[int, int], data: str, seed: int, path: Path
) -> tuple[Path, Path, Path]:
    """Writes .html, .json and .png files with PATH's name; returns their paths. Raises ReportFileError if they cannot be written."""
    origin, image = current_origin(data, seed), draw(found)
    parts = [f"<p>{escape(said)}</p>" for said in (*conclusions(found), share_sentence(found), note(found))]
    for target, shown in zip(TARGETS, score_tables(found, hours, wide=True), strict=True):
        rows = list(zip(*([escape(str(cell)) for cell in column.cells] for column in shown.columns), strict=True))
        parts.append(f"<h2>{escape(TITLES[target].capitalize())}</h2>")
        parts.append(table([escape(str(column.header)) for column in shown.columns], rows))
    parts.append(png(image, "accuracy against confidence, by horizon"))
    title = f"Forecasts of {found.forecaster.symbol}"
    return write_with_picture(
        path, page(title, origin, parts), {"made": origin.to_json(), **to_json(found, hours)}, image
    )


def draw(found: Evaluation) -> bytes:
    """A PNG plot of how often forecasts are right at each confidence, with a panel per horizon."""
    horizons = found.forecaster.horizons_s
    figure = new_figure(3.6 * len(horizons), 3.6)
    panels = figure.subplots(1, len(horizons), squeeze=False)
    for number, axes in enumerate(panels[0]):
        axes.plot([0, 1], [0, 1], color="#999999", lw=0.8)
        for name, colour in zip(MODELS, COLOURS, strict=True):
            one = found.scores[TREND, number, name]
            count, confidence, right = one.bins[one.bins[:, 0] >= max(1, SHOWN_SHARE * one.count)].T
            sizes = 4 + 80 * np.sqrt(count / max(1, one.count))
            label = f"{name}, ECE {one.values[ECE]:.3f}"
            axes.plot(confidence / count, right / count, color=colour, lw=0.9)
            axes.scatter(confidence / count, right / count, sizes, color=colour, alpha=0.7, label=label)
        axes.set_title(f"{found.forecaster.symbol}, {horizons[number]:g} s")
        axes.set_xlabel(f"mean confidence of a bin ({BINS} bins)")
        axes.set_ylabel("share that was right")
        axes.set_xlim(0.3, 1)
        axes.set_ylim(0, 1)
        axes.legend(fontsize=7, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
    return picture(figure)
