"""An evaluation as a table, a page, JSON and a picture of calibration."""

from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from serl.agents.pages.origin import current_origin
from serl.agents.pages.page import page, png, table, write_with_picture
from serl.agents.pages.picture import picture
from serl.agents.signals.evaluation import ECE, ROWS, Evaluation, conclusions
from serl.agents.signals.forecaster import MODELS
from serl.agents.signals.labels import NAMES
from serl.agents.signals.scores import BINS, MEASURES, Score
from serl.exchange.config import time_of_day_text

HEADS = ("macro F1", "accuracy", "Brier", "ECE")
SHOWN_SHARE = 0.005
"""The smallest share of the forecasts in a bin of the picture."""


def note(found: Evaluation) -> str:
    """How to read the table."""
    hours = hours_text(found.forecaster.training.hours)
    return (
        f"After the slash: the training hours ({hours}). In brackets: 95 % intervals, {found.blocks} blocks of "
        f"{found.block_s} s resampled. Published: {found.forecaster.model}, whose log loss was smaller on the last quarter of the training hours."
    )


def hours_text(hours: tuple[int, int]) -> str:
    """'10:00-13:00' of nanoseconds after midnight."""
    return "-".join(time_of_day_text(one)[:5] if one % (60 * 10**9) == 0 else time_of_day_text(one) for one in hours)


def score_table(found: Evaluation, hours: tuple[int, int], *, wide: bool = False) -> Table:
    """One row per horizon and model; wide: in Markdown, with an interval beside its value instead of below."""
    title = None if wide else f"{found.forecaster.symbol}: trend of the mid, tested {hours_text(hours)}"
    shown = Table(title=title, box=box.MARKDOWN if wide else box.SIMPLE_HEAD, pad_edge=wide)
    shown.add_column("in")
    shown.add_column("forecast")
    for head in HEADS:
        shown.add_column(head, justify="right")
    trained = {(row["horizon_s"], row["model"]): row for row in found.forecaster.training.scores}
    for (horizon, name), one in found.scores.items():
        seconds = found.forecaster.horizons_s[horizon]
        before = trained.get((seconds, name), {})
        cells = [_cell(one, number, before.get(measure), wide) for number, measure in enumerate(MEASURES)]
        shown.add_row(
            f"{seconds:g} s" if name == ROWS[0] else "", name, *cells, end_section=not wide and name == ROWS[-1]
        )
    return shown


def _cell(score: Score, number: int, trained: float | None, wide: bool) -> str:
    value, low, high = (f"{one[number]:.3f}".removeprefix("0") for one in (score.values, score.low, score.high))
    if trained is not None:
        value = f"{value} / {trained:.3f}".replace("/ 0", "/ ")
    return f"{value}{' ' if wide else chr(10)}[{low}, {high}]"


def share_sentence(found: Evaluation) -> str:
    """The labels of each horizon."""
    parts = []
    for horizon, seconds in enumerate(found.forecaster.horizons_s):
        one = found.scores[horizon, ROWS[0]]
        shares = ", ".join(f"{name} {share:.0%}" for name, share in zip(NAMES, one.shares, strict=True))
        parts.append(
            f"{seconds:g} s: {one.count:,} forecasts, flat up to {found.forecaster.thresholds_ticks[horizon]:g} ticks; {shares}"
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
    """Writes .html, .json and .png of PATH's name; ReportFileError if they cannot be written."""
    origin, image = current_origin(data, seed), draw(found)
    shown = score_table(found, hours, wide=True)
    rows = list(zip(*([escape(str(cell)) for cell in column.cells] for column in shown.columns), strict=True))
    parts = [f"<p>{escape(said)}</p>" for said in (*conclusions(found), share_sentence(found), note(found))]
    parts.append(table([escape(str(column.header)) for column in shown.columns], rows))
    parts.append(png(image, "accuracy against confidence, by horizon"))
    title = f"Forecasts of {found.forecaster.symbol}"
    return write_with_picture(
        path, page(title, origin, parts), {"made": origin.to_json(), **to_json(found, hours)}, image
    )


def draw(found: Evaluation) -> bytes:
    """A PNG: how often forecasts of a confidence are right, a panel per horizon."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    horizons = found.forecaster.horizons_s
    figure, panels = plt.subplots(1, len(horizons), figsize=(3.6 * len(horizons), 3.6), layout="constrained", squeeze=False)  # fmt: skip
    for number, axes in enumerate(panels[0]):
        axes.plot([0, 1], [0, 1], color="#999999", lw=0.8)
        for name, colour in zip(MODELS, ("#2471a3", "#c0392b"), strict=True):
            one = found.scores[number, name]
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
