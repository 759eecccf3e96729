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
UNITS = {"PA": "bps", "PA_twap": "bps", "IS": "bps", "IMPACT": "bps", "RISK": "bps", "PA-std": "bps"}


ACTION_NAMES = {1: ("market",), 2: ("limit", "offset"), 3: ("market", "limit", "offset")}
"""By how many there are; see ExecutionVectorEnv."""


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
        f"<table><tr>{head}</tr>{body}</table>\n<h2>PA of orders, actions, and what is left over the window</h2>\n"
        f'<img alt="distributions of PA and of actions, what is left over the window" src="data:image/png;base64,{_figure(evaluation)}">\n</body></html>\n'
    )


def _figure(evaluation: Evaluation) -> str:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = evaluation.rows
    figure = Figure(figsize=(11, 2.1 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(rows), 3, squeeze=False, sharex="col")
    for (first, second, third), row in zip(axes, rows, strict=True):
        known = row.advantages_bps[np.isfinite(row.advantages_bps)]
        first.hist(known, bins=40, range=_shown(evaluation), color="#4a78b0")
        first.axvline(0, color="#999", linewidth=0.8)
        first.set_title(f"{row.name}: PA", fontsize=9)
        for place, name in enumerate(ACTION_NAMES[row.actions.shape[1]]):
            second.hist(row.actions[:, place], bins=40, alpha=0.6, label=name, density=True)
        second.set_title("actions", fontsize=9)
        second.legend(fontsize=7)
        share = np.linspace(0, 1, row.left.shape[1], endpoint=False)
        low, high = np.quantile(row.left, [0.1, 0.9], axis=0)
        third.fill_between(share, low, high, alpha=0.2, color="#4a78b0", linewidth=0)
        third.plot(share, row.left.mean(axis=0), color="#4a78b0")
        third.set_title("left, mean and 10-90 %", fontsize=9)
        third.set_ylim(-0.05, 1.05)
    for place, name in enumerate(("bps", "action", "share of the window")):
        axes[-1][place].set_xlabel(name)
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=100)
    return base64.b64encode(data.getvalue()).decode()


def _shown(evaluation: Evaluation) -> tuple[float, float]:
    """Where nearly all PA lie, the same for every row."""
    everything = np.concatenate([row.advantages_bps for row in evaluation.rows])
    known = everything[np.isfinite(everything)]
    return tuple(np.quantile(known, [0.005, 0.995])) if len(known) else (-1.0, 1.0)
