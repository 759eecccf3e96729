"""The table of an evaluation as Markdown, CSV and HTML with plots."""

import base64
import csv
import io
from html import escape
from pathlib import Path

import numpy as np

from serl.agents.learning.evaluation import CONFIDENCE, MEASURES, Estimate, Evaluation

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; max-width: 1080px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 3px 10px; text-align: right; border-bottom: 1px solid #e4e4e4; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { background: #f6f6f6; }
small { color: #777; } img { max-width: 100%; }
"""
UNITS = {"PA": "bps", "PA_twap": "bps", "IS": "bps", "PA-std": "bps"}


def write_tables(evaluation: Evaluation, folder: Path, facts: str) -> list[Path]:
    """evaluation.md, .csv and .html in a folder; facts: a line that says where policies and orders come from."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"md": markdown(evaluation, facts), "csv": comma_separated(evaluation), "html": html(evaluation, facts)}
    paths = []
    for suffix, text in texts.items():
        paths.append(folder / f"evaluation.{suffix}")
        paths[-1].write_text(text)
    return paths


def _number(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _heads() -> list[str]:
    return [f"{name} {UNITS[name]}" if name in UNITS else name for name in MEASURES]


def note(evaluation: Evaluation) -> str:
    """What the intervals are."""
    what = f"{evaluation.days} symbol-days" if evaluation.clustered else "orders, as there is one symbol-day only"
    return (
        f"{evaluation.orders} orders, seed {evaluation.seed}; brackets: {CONFIDENCE:.0%} bootstrap over {what}; "
        f"{evaluation.without_trades} orders without trades of others in their window have no PA."
    )


def markdown(evaluation: Evaluation, facts: str) -> str:
    """One row a contender."""
    heads = ["policy", *_heads(), "orders"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in evaluation.rows:
        cells = [row.name, *(_number(row.estimates[name]) for name in MEASURES), str(evaluation.orders)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", note(evaluation), "", facts, ""])


def comma_separated(evaluation: Evaluation) -> str:
    """One row a contender and measure: value, low, high, orders."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["policy", "measure", "value", "low", "high", "orders"])
    for row in evaluation.rows:
        for name, one in row.estimates.items():
            writer.writerow([row.name, name, one.value, one.low, one.high, evaluation.orders])
    return text.getvalue()


def html(evaluation: Evaluation, facts: str) -> str:
    """A page that stands alone."""
    head = "".join(f"<th>{escape(name)}</th>" for name in ("policy", *_heads()))
    body = "".join(
        f"<tr><td>{escape(row.name)}</td>"
        + "".join(
            f"<td>{one.value:.2f} <small>[{one.low:.2f}, {one.high:.2f}]</small></td>" for one in row.estimates.values()
        )
        + "</tr>"
        for row in evaluation.rows
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Evaluation</title><style>{STYLE}</style></head>'
        f"<body>\n<h1>Evaluation</h1>\n<p>{escape(note(evaluation))}</p>\n<p>{escape(facts)}</p>\n"
        f"<table><tr>{head}</tr>{body}</table>\n<h2>PA of orders, and actions</h2>\n"
        f'<img alt="distributions of PA and of actions" src="data:image/png;base64,{_figure(evaluation)}">\n</body></html>\n'
    )


def _figure(evaluation: Evaluation) -> str:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = evaluation.rows
    figure = Figure(figsize=(10, 2.2 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(rows), 2, squeeze=False, sharex="col")
    for (left, right), row in zip(axes, rows, strict=True):
        known = row.advantages_bps[np.isfinite(row.advantages_bps)]
        left.hist(known, bins=40, color="#4a78b0")
        left.axvline(0, color="#999", linewidth=0.8)
        left.set_title(f"{row.name}: PA", fontsize=9)
        for place in range(row.actions.shape[1]):
            right.hist(row.actions[:, place], bins=40, alpha=0.6, label=f"action {place}", density=True)
        right.set_title(f"{row.name}: actions", fontsize=9)
        right.legend(fontsize=7)
    axes[-1][0].set_xlabel("bps")
    axes[-1][1].set_xlabel("action")
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=100)
    return base64.b64encode(data.getvalue()).decode()
