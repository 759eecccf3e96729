"""The table of an evaluation as Markdown, CSV, JSON and an HTML page with plots."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from serl.agents.execution.metrics import IS_MEANING
from serl.agents.learning.evaluation import CONFIDENCE, MEASURES, Estimate, Evaluation
from serl.agents.pages.origin import Origin, current_origin
from serl.agents.pages.page import page, png, table, write
from serl.agents.pages.picture import new_figure, picture
from serl.agents.realism.distances import CLUSTERS_MIN

UNITS = {
    "PA": "bps",
    "PA_mid": "bps",
    "PA_rule": "bps",
    "PA_twap": "bps",
    "IS": "bps",
    "IMPACT": "bps",
    "RISK": "bps",
    "PA-std": "bps",
    "FEES": "bps",
}
MEANINGS = {
    "PA": "against the market's VWAP, higher is better",
    "PA_mid": "at mids, without spread, impact and fees",
    "PA_rule": "PA minus that of `patience` on the same order",
    "PA_twap": "against a TWAP of the same order, higher is better",
    "IS": IS_MEANING,
    "IMPACT": "the part of IS from the mid's moves that our trades caused",
    "RISK": "IS minus IMPACT",
    "PA-std": "standard deviation of PA over orders",
    "WR": "win rate, the share of orders with PA > 0",
    "WR_twap": "the share of orders with PA_twap > 0",
    "GLR": "gain-loss ratio, the mean gain over the mean loss in PA",
    "AFI": "unfilled share at the end of the window, before forced completion",
    "FFR": "filled share, forced completion included",
    "FEES": "what the fills were charged, in PA and IS",
}
"""The meaning of each measure in MEASURES, for the note under a table; docs/execution.md and docs/learning.md define the measures."""
TERMINAL_MEASURES = ("PA", "FEES", "PA_rule", "PA_twap", "WR", "AFI")
TABLE_FILE = "evaluation.md"
JSON_FILE = "evaluation.json"
NO_INTERVAL = "(no interval)"
ACTION_NAMES = {1: ("market",), 2: ("limit", "offset"), 3: ("market", "limit", "offset")}
"""Names of actions by their number; see ExecutionVectorEnv."""


@dataclass(frozen=True)
class Section:
    """The evaluation in one market."""

    evaluation: Evaluation
    provenance: str
    """A line about the origin of policies and orders."""


def write_tables(sections: Sequence[Section], folder: Path) -> list[Path]:
    """Writes evaluation.md, .csv, .html and .json to a folder; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / TABLE_FILE, folder / "evaluation.csv"]
    for path, text in zip(paths, (markdown(sections), comma_separated(sections)), strict=True):
        path.write_text(text)
    data = " ".join(f"{section.evaluation.market}: {section.provenance}" for section in sections)
    origin = current_origin(data, sections[0].evaluation.seed)
    return [*paths, *write(folder / "evaluation.html", html(sections, origin), to_json(sections, origin))]


def _ends(estimate: Estimate, form: str = "{:.2f} {:.2f}") -> str:
    """Formats the ends of the interval."""
    return form.format(estimate.low, estimate.high) if np.isfinite(estimate.low) else NO_INTERVAL


def estimate_text(estimate: Estimate) -> str:
    """Formats a value with its interval; a GLR without any gain or any loss is undefined."""
    if math.isnan(estimate.value):
        return "undefined"
    return f"{estimate.value:.2f} {_ends(estimate, '[{:.2f}, {:.2f}]')}"


def _shown(evaluation: Evaluation, measures: Sequence[str] = tuple(MEASURES)) -> list[str]:
    """The measures that an evaluation has; fees only if the market charges some."""
    return [name for name in measures if all(name in row.estimates for row in evaluation.rows)]


def _headers(evaluation: Evaluation) -> list[str]:
    return [f"{name} {UNITS[name]}" if name in UNITS else name for name in _shown(evaluation)]


def note(evaluation: Evaluation, measures: Sequence[str] = tuple(MEASURES)) -> str:
    """Explains the intervals, and the measures that the evaluation has."""
    return (
        f"{evaluation.orders} orders, seed {evaluation.seed}; intervals: {CONFIDENCE:.0%} bootstrap over {evaluation.clusters} {evaluation.unit}"
        f"{f', of which {CLUSTERS_MIN} are needed' if evaluation.clusters < CLUSTERS_MIN else ''}; "
        f"{evaluation.without_trades} orders have no PA because nobody else traded in their window. "
        f"{'; '.join(f'{name}: {MEANINGS[name]}' for name in _shown(evaluation, measures))}."
    )


def terminal_note(evaluation: Evaluation, folder: Path) -> str:
    """The note under terminal_table, which says where to find the measures that it leaves out. folder: the folder of `write_tables`."""
    left_out = [name for name in _shown(evaluation) if name not in TERMINAL_MEASURES]
    return f"{note(evaluation, TERMINAL_MEASURES)}\nmore columns ({', '.join(left_out)}): {folder / TABLE_FILE}"


def markdown(sections: Sequence[Section]) -> str:
    """One table per market, one row per contender."""
    lines = []
    for section in sections:
        one = section.evaluation
        headers = ["policy", *_headers(one), "orders"]
        lines += [f"## {one.market}", "", f"| {' | '.join(headers)} |", "|" + "---|" * len(headers)]
        for row in one.rows:
            cells = [row.name, *(estimate_text(row.estimates[name]) for name in _shown(one)), str(one.orders)]
            lines.append(f"| {' | '.join(cells)} |")
        lines += ["", note(one), "", section.provenance, ""]
    return "\n".join(lines)


def terminal_table(evaluation: Evaluation) -> Table:
    """A table for a terminal of 80 columns, with each interval below its value. It has only TERMINAL_MEASURES; the files have all measures."""
    table = Table(
        title=f"{evaluation.market}, prices in bps",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("policy", no_wrap=True)
    measures = _shown(evaluation, TERMINAL_MEASURES)
    for name in measures:
        table.add_column(name, justify="right", no_wrap=True)
    for row in evaluation.rows:
        shown = (row.estimates[name] for name in measures)
        table.add_row(row.name, *(f"{one.value:.2f}\n[dim]{_ends(one)}" for one in shown))
    return table


def comma_separated(sections: Sequence[Section]) -> str:
    """One row per market, contender and measure: value, low, high, orders."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["market", "policy", "measure", "value", "low", "high", "orders"])
    for one in (section.evaluation for section in sections):
        for row in one.rows:
            for name, value in row.estimates.items():
                writer.writerow([one.market, row.name, name, value.value, value.low, value.high, one.orders])
    return text.getvalue()


def to_json(sections: Sequence[Section], origin: Origin) -> dict[str, Any]:
    """All numbers; null for NaN."""
    return {"made": origin.to_json(), "confidence": CONFIDENCE, "markets": markets_json(sections)}


def markets_json(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """The numbers of each market; null for NaN."""
    return [
        {
            "market": one.market, "facts": section.provenance, "orders": one.orders, "without_trades": one.without_trades,
            "clusters": one.clusters, "unit": one.unit, "seed": one.seed,
            "policies": [{"policy": row.name} | {name: _estimate_json(value) for name, value in row.estimates.items()} for row in one.rows],
        }
        for section in sections for one in (section.evaluation,)
    ]  # fmt: skip


def _estimate_json(estimate: Estimate) -> Any:
    numbers = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {name: float(number) if np.isfinite(number) else None for name, number in numbers.items()}


def html(sections: Sequence[Section], origin: Origin) -> str:
    """A self-contained HTML page."""
    return page("Evaluation", origin, [_html_section(section.evaluation) for section in sections])


def _html_section(one: Evaluation) -> str:
    rows = [
        [escape(row.name)] + [f"{value.value:.2f}<br><small>{_ends(value)}</small>" for value in row.estimates.values()]
        for row in one.rows
    ]
    parts = [f"<h2>{escape(one.market)}</h2>", table(["policy", *map(escape, _headers(one))], rows)]
    return "\n".join(
        [
            *parts,
            f"<p>{escape(note(one))}</p>",
            png(_figure(one), "PA of orders, actions, and the remaining share over the window"),
        ]
    )


def _figure(evaluation: Evaluation) -> bytes:
    rows = evaluation.rows
    figure = new_figure(11, 2.1 * len(rows))
    axes = figure.subplots(len(rows), 3, squeeze=False, sharex="col")
    for (first, second, third), row in zip(axes, rows, strict=True):
        finite = row.columns["pa"][np.isfinite(row.columns["pa"])]
        first.hist(finite, bins=40, range=_histogram_range(evaluation), color="#4a78b0", histtype="stepfilled")
        first.axvline(0, color="#999", linewidth=0.8)
        first.set_title(f"{row.name}: PA", fontsize=9)
        for index, name in enumerate(ACTION_NAMES[row.actions.shape[1]]):
            second.hist(row.actions[:, index], bins=40, alpha=0.6, label=name, density=True, histtype="stepfilled")
        second.set_title("actions", fontsize=9)
        second.legend(fontsize=7)
        share = np.linspace(0, 1, row.remaining.shape[1], endpoint=False)
        low, high = np.quantile(row.remaining, [0.1, 0.9], axis=0)
        third.fill_between(share, low, high, alpha=0.2, color="#4a78b0", linewidth=0)
        third.plot(share, row.remaining.mean(axis=0), color="#4a78b0")
        third.set_title("remaining, mean and 10-90 %", fontsize=9)
        third.set_ylim(-0.05, 1.05)
    for column, name in enumerate(("bps", "action", "share of the window")):
        axes[-1][column].set_xlabel(name)
    return picture(figure, dpi=100)


def _histogram_range(evaluation: Evaluation) -> tuple[float, float]:
    """A range that contains 99 % of all PA, the same for every row."""
    advantages = np.concatenate([row.columns["pa"] for row in evaluation.rows])
    finite = advantages[np.isfinite(advantages)]
    return tuple(np.quantile(finite, [0.005, 0.995])) if len(finite) else (-1.0, 1.0)
