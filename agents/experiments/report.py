"""The result of an experiment as a table, an HTML page, JSON and a plot."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from rich import box
from rich.markup import escape as escape_markup
from rich.table import Table

from serl.agents.experiments.experiment import Experiment
from serl.agents.experiments.measures import describe
from serl.agents.experiments.picture import draw
from serl.agents.experiments.store import Results, to_json
from serl.agents.experiments.summary import Cell, Mean, summarise
from serl.agents.pages.origin import Origin, current_origin
from serl.agents.pages.page import page, png, table, write_with_picture
from serl.agents.traders.simulate import fingerprint
from serl.exchange.config import time_of_day_text

NAME = "results.html"
HEADS = ("measure", "arm", "mean", "95 %", "difference", "95 %", "p", "p (Holm)")
"""Column heads of the page's table."""


def number(value: float, digits: int = 4) -> str:
    """Formats a value with this many digits, or all digits before the decimal point if these are more."""
    if value == 0.0:
        return "0"
    return (
        f"{value:,.0f}"
        if abs(value) >= 10 ** (digits - 1)
        else f"{value:.{digits}g}"
        if abs(value) >= 1e-4
        else f"{value:.1e}"
    )


def _interval(mean: Mean | None) -> str:
    return "" if mean is None or mean.interval is None else f"[{number(mean.interval[0])}, {number(mean.interval[1])}]"


def _p(value: float | None) -> str:
    return "" if value is None else "< .001" if value < 0.001 else f"{value:.3f}".removeprefix("0")


def cells_text(cell: Cell, is_first: bool) -> list[str]:
    """The texts of a row under HEADS; the measure is named only in its first row."""
    mean, difference = cell.mean, cell.difference
    return [
        _name(cell) if is_first else "", cell.arm, "none" if mean is None else number(mean.mean), _interval(mean),
        "" if difference is None else f"{'+' if difference.mean > 0 else ''}{number(difference.mean)}", _interval(difference),
        _p(None if difference is None else difference.p), _p(None if difference is None else difference.p_holm),
    ]  # fmt: skip


def _rows(cells: Sequence[Cell]) -> list[tuple[Cell, list[str]]]:
    rows, last = [], ""
    for cell in cells:
        rows.append((cell, cells_text(cell, cell.measure != last)))
        last = cell.measure
    return rows


def summary_table(experiment: Experiment, cells: Sequence[Cell]) -> Table:
    """A section for each measure, a row for each arm; clear differences are bold."""
    found = Table(
        title=_title(experiment),
        box=box.SIMPLE_HEAD,
        caption="±: half of the 95 % interval. Bold: corrected p below .05",
        pad_edge=False,
    )
    for head in ("", "mean", "difference", "p (Holm)"):
        found.add_column(head, justify="right" if head else "left")
    last = ""
    for cell in cells:
        if cell.measure != last:
            found.add_row(_name(cell), style="italic")
        last, difference = cell.measure, cell.difference
        found.add_row(
            f"  {escape_markup(cell.arm)}", _spread(cell.mean), _spread(difference, sign="+"), _p(None if difference is None else difference.p_holm),
            style="bold" if cell.is_clear else None,
        )  # fmt: skip
    return found


def _name(cell: Cell) -> str:
    title, unit = describe(cell.measure)
    return f"{title}, {unit}" if unit else title


def _spread(mean: Mean | None, sign: str = "") -> str:
    """A mean and half of its interval."""
    if mean is None:
        return "" if sign else "none"
    text = f"{sign if mean.mean > 0 else ''}{number(mean.mean)}"
    return text if mean.interval is None else f"{text} ± {number((mean.interval[1] - mean.interval[0]) / 2, 3)}"


def _title(experiment: Experiment) -> str:
    count = len(experiment.seeds)
    return f"{experiment.name}: {count} seed{'s' * (count > 1)}, differences to {experiment.baseline.name}"


def numbers(experiment: Experiment, results: Results, origin: Origin) -> dict[str, Any]:
    """All numbers, by seed, as plain JSON."""
    return {
        "made": origin.to_json(), "name": experiment.name, "baseline": experiment.baseline.name, "seeds": list(experiment.seeds),
        "arms": [
            {
                "name": arm.name, "overrides": arm.overrides, "population": arm.population.name, "sha256": fingerprint(arm.population),
                "until": time_of_day_text(arm.end_ns),
            }
            for arm in experiment.arms
        ],
        "summary": [_cell_json(cell) for cell in summarise(experiment, results)],
        "runs": [
            {"arm": arm.name, "seed": seed, "values": to_json(results[arm.name, seed])}
            for seed in experiment.seeds for arm in experiment.arms
        ],
    }  # fmt: skip


def _cell_json(cell: Cell) -> dict[str, Any]:
    mean, difference = cell.mean, cell.difference
    return {
        "measure": cell.measure, "unit": describe(cell.measure)[1], "arm": cell.arm, "mean": mean and mean.mean,
        "interval": mean and mean.interval, "seeds": mean.seeds if mean else 0,
        "difference": difference and {
            "mean": difference.mean, "interval": difference.interval, "seeds": difference.seeds, "p": difference.p, "p_holm": difference.p_holm,
        },
    }  # fmt: skip


def experiment_origin(experiment: Experiment) -> Origin:
    """The command, the arms' populations and the versions."""
    data = ", ".join(
        f"{arm.name}: {arm.population.name} sha256 {fingerprint(arm.population)}" for arm in experiment.arms
    )
    return current_origin(f"{data}; seeds {', '.join(map(str, experiment.seeds))}", experiment.seeds[0])


def write_report(experiment: Experiment, results: Results, folder: Path) -> tuple[Path, Path, Path]:
    """Writes results.html, .json and .png to a folder; returns their paths. Raises ReportFileError if they cannot be written."""
    origin, picture = experiment_origin(experiment), draw(experiment, results)
    text = html(experiment, summarise(experiment, results), origin, picture)
    return write_with_picture(folder / NAME, text, numbers(experiment, results, origin), picture)


def html(experiment: Experiment, cells: Sequence[Cell], origin: Origin, picture: bytes) -> str:
    """The HTML page, with the plot."""
    baseline = escape(experiment.baseline.name)
    rows = [
        [f"<strong>{escape(text)}</strong>" if cell.is_clear else escape(text) for text in texts]
        for cell, texts in _rows(cells)
    ]
    tested = sum(1 for cell in cells if cell.difference is not None and cell.difference.p is not None)
    arms = [
        [escape(arm.name), escape(", ".join(f"{key}: {value}" for key, value in arm.overrides.items()) or "the population as it is"),
         f"{escape(arm.population.open)}-{time_of_day_text(arm.end_ns)}"]
        for arm in experiment.arms
    ]  # fmt: skip
    parts = [
        f"<p>Each arm is simulated with the same {len(experiment.seeds)} seeds. Differences are an arm minus {baseline}, paired by seed, with "
        f"95 % t-intervals and two-sided p-values; Holm's correction counts all {tested} differences. Bold, and a star in the picture: corrected p below .05.</p>",
        png(picture, "mean and 95 % interval of each measure by arm"),
        table([escape(head) for head in HEADS], rows),
        "<h2>Arms</h2>",
        table(["arm", "changes", "time"], arms, text=True),
        "<p>Traders follow the rules of their kind in every arm; they do not know which arm they are in. "
        "PnL is cash plus the position at the last mid.</p>",
    ]
    return page(f"Experiment {experiment.name}", origin, parts)
