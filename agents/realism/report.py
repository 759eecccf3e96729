"""The realism report: one HTML file that stands alone, and its numbers as JSON beside it."""

import base64
import json
import math
from html import escape
from pathlib import Path

from serl.agents.realism import figures
from serl.agents.realism.days import Source
from serl.agents.realism.distances import Estimate
from serl.agents.realism.errors import RealismError
from serl.agents.realism.facts import FACTS
from serl.agents.realism.impact import EVENT_TYPES
from serl.agents.realism.measure import BASELINE, FLOOR, SIMULATED, Measurement, to_json

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; max-width: 1080px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; } h2 { font-size: 1.2em; margin-top: 2em; }
table { border-collapse: collapse; margin: .8em 0; font-size: 13px; }
th, td { padding: 3px 10px; text-align: right; border-bottom: 1px solid #e4e4e4; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { background: #f6f6f6; }
small { color: #777; } img { max-width: 100%; } .yes { color: #1e8449; } .no { color: #c0392b; }
"""
HEADS = {FLOOR: "real against real", SIMULATED: "simulated", BASELINE: "baseline", "real": "real"}


def write_report(measurement: Measurement, path: Path) -> tuple[Path, Path]:
    """Writes PATH and, beside it, the same name with .json; RealismError if the folder cannot be written to."""
    json_path = path.with_suffix(".json")
    if json_path == path:
        raise RealismError(f"{path}: is the name of the JSON beside the report; give one that ends in .html")
    try:
        json_path.write_text(json.dumps(to_json(measurement), indent=1, allow_nan=False) + "\n")
        path.write_text(html(measurement))
    except OSError as error:
        raise RealismError(
            f"{path}: cannot be written ({error.strerror}); give a file in a folder that exists"
        ) from None
    return path, json_path


def html(measurement: Measurement) -> str:
    """The report."""
    symbol, other = measurement.real.tape.symbol, measurement.simulated.tape.symbol
    title = f"Realism of {other} ({measurement.simulated.name}) against {symbol} ({measurement.real.name})"
    parts = [
        f"<h1>{escape(title)}</h1>",
        _sources(measurement),
        "<h2>Summary</h2>",
        "<p>Distances over the 21 unconditional scores; the floor is the first half of the real window against the second.</p>",
        _summary(measurement),
        "<h2>Distances of each score</h2>",
        _image(figures.distances(measurement), "L1 distances"),
        _scores(measurement),
        "<h2>Distributions</h2>",
        "<p>Grey: real. Drawn between the 0.5 % and 99.5 % quantiles; what lies outside is in the outermost bins.</p>",
        _image(figures.histograms(measurement), "histograms of scores"),
        "<h2>Impact responses</h2>",
        "<p>R(l) = E[e (m(t+l-1) - m(t-1))] in ticks after each type of event at the touch, with 95 % bands.</p>",
        _image(figures.responses(measurement), "impact response functions"),
        _impact(measurement),
        "<h2>Stylised facts</h2>",
        _facts(measurement),
        *_predictive(measurement),
        f"<p><small>Intervals: 95 %, {measurement.bootstraps} bootstraps, seed {measurement.seed}. Those of distances resample "
        "messages as if they were independent, the others resample blocks in time. Definitions: docs/realism.md.</small></p>",
    ]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(parts) + "\n</body></html>\n"


def number(estimate: Estimate | None, digits: int = 3) -> str:
    """A value with its interval in small print, n/a without one."""
    if estimate is None or not math.isfinite(estimate.value):
        return "n/a"
    low, high = estimate.interval
    interval = f" <small>[{low:.{digits}f}, {high:.{digits}f}]</small>" if len(estimate.resampled) else ""
    return f"{estimate.value:.{digits}f}{interval}"


def _image(png: bytes, text: str) -> str:
    return f'<img alt="{escape(text)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def _table(heads: list[str], rows: list[list[str]]) -> str:
    """Cells are HTML already."""
    head = "".join(f"<th>{cell}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _sources(measurement: Measurement) -> str:
    def row(name: str, source: Source) -> list[str]:
        tape = source.tape
        origin = f"<small>{escape(source.origin)}</small>"
        counts = [f"{len(tape):,}", f"{int(tape.trades.sum()):,}", f"{tape.levels}"]
        return [name, escape(source.name), escape(tape.symbol), source.window, *counts, origin]

    rows = [row("real", measurement.real), row("simulated", measurement.simulated)]
    if measurement.baseline is not None:
        rows.append(row("baseline", measurement.baseline))
    return _table(["", "file", "symbol", "window", "messages", "trades", "levels", "made from"], rows)


def _summary(measurement: Measurement) -> str:
    summaries = {name: benchmark.summary() for name, benchmark in measurement.benchmarks.items()}
    rows = []
    for distance, label in (("l1", "L1"), ("wasserstein", "Wasserstein-1")):
        for statistic, words in (("mean", "mean"), ("median", "median"), ("iqm", "inter-quartile mean")):
            values = [number(summaries[name][distance][statistic]) for name in measurement.names]
            rows.append([f"{label}, {words}", *values])
    shared = {name: measurement.agreements(name) for name in measurement.names}
    rows.append(
        ["stylised facts shared", *(f"{shared[name].count(True)} of {len(FACTS)}" for name in measurement.names)]
    )
    impact = [f"{measurement.response_distances(name).mean():.3f}" for name in measurement.names]
    rows.append(["impact responses, mean difference in ticks", *impact])
    return _table(["", *(HEADS[name] for name in measurement.names)], rows)


def _scores(measurement: Measurement) -> str:
    rows = []
    groups = [
        (*measurement.benchmarks[name].scores, *measurement.benchmarks[name].conditional) for name in measurement.names
    ]
    for comparisons in zip(*groups, strict=True):
        cells = [escape(comparisons[0].score.name)]
        for comparison in comparisons:
            cells += [number(comparison.distance.l1), number(comparison.distance.wasserstein)]
        rows.append(cells)
    heads = [f"{kind}<br>{HEADS[name]}" for name in measurement.names for kind in ("L1", "W1")]
    return _table(["score", *heads], rows)


def _impact(measurement: Measurement) -> str:
    distances = [measurement.response_distances(name) for name in measurement.names]
    rows = []
    for row, kind in enumerate(EVENT_TYPES):
        values = ["n/a" if math.isnan(found[row]) else f"{found[row]:.3f}" for found in distances]
        counts = [f"{int(measurement.responses[name].counts[row]):,}" for name in ("real", *measurement.names[1:])]
        rows.append([kind, *values, *counts])
    heads = [f"difference<br>{HEADS[name]}" for name in measurement.names]
    return _table(["event", *heads, *(f"events<br>{HEADS[name]}" for name in ("real", *measurement.names[1:]))], rows)


def _facts(measurement: Measurement) -> str:
    names = measurement.names[1:]
    shared = {name: measurement.agreements(name) for name in measurement.names}
    marks = {True: '<span class="yes">yes</span>', False: '<span class="no">no</span>', None: "n/a"}
    rows = []
    for row, fact in enumerate(FACTS):
        cells = [f"{escape(fact.name)}<br><small>{escape(fact.measure)}, {escape(fact.expected)}</small>"]
        cells += [number(measurement.facts["real"].estimates[row]), marks[shared[FLOOR][row]]]
        for name in names:
            cells += [number(measurement.facts[name].estimates[row]), marks[shared[name][row]]]
        rows.append(cells)
    totals = {name: f"{shared[name].count(True)} of {len(FACTS)}" for name in measurement.names}
    rows.append(["agreements", "", totals[FLOOR], *(cell for name in names for cell in ("", totals[name]))])
    heads = [cell for name in names for cell in (HEADS[name], "as real")]
    return _table(["fact", "real", "halves agree", *heads], rows)


def _predictive(measurement: Measurement) -> list[str]:
    score = measurement.predictive
    if score is None:
        return []
    rows = [
        ["simulated data", number(score.simulated)],
        ["the first half of the real window", number(score.real)],
        ["nothing: the mid does not change", number(score.no_change)],
    ]
    if score.baseline is not None:
        rows.insert(1, ["the baseline", number(score.baseline)])
    text = (
        "<p>Mean absolute error, in ticks, of forecasts of the mid 10 messages ahead in the second half of the real window "
        f"({score.test_windows:,} forecasts), by the same small LSTM trained on each of:</p>"
    )
    return ["<h2>Predictive score</h2>", text, _table(["trained on", "error, ticks"], rows)]
