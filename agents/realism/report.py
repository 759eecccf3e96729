"""The realism report: one self-contained HTML file, and its numbers as JSON next to it."""

import math
from html import escape
from pathlib import Path

from serl.agents.pages.origin import Origin, current_origin
from serl.agents.pages.page import page, png, table, write
from serl.agents.realism import figures
from serl.agents.realism.days import DayWindow
from serl.agents.realism.distances import Estimate
from serl.agents.realism.facts import FACTS, shared_text
from serl.agents.realism.impact_response import EVENT_TYPES
from serl.agents.realism.measure import BASELINE, FLOOR, SIMULATED, Measurement, to_json

HEADS = {FLOOR: "real against real", SIMULATED: "simulated", BASELINE: "baseline", "real": "real"}


def write_report(measurement: Measurement, path: Path) -> tuple[Path, Path]:
    """Writes PATH and a .json file with the same name; returns their paths. Raises ReportFileError if they cannot be written."""
    sources = (measurement.real, measurement.simulated, measurement.baseline)
    origin = current_origin(
        "; ".join(f"{one.name}: {one.origin}" for one in sources if one is not None), measurement.seed
    )
    return write(path, html(measurement, origin), {"made": origin.to_json(), **to_json(measurement)})


def html(measurement: Measurement, origin: Origin) -> str:
    """The report as HTML."""
    symbol, other = measurement.real.tape.symbol, measurement.simulated.tape.symbol
    title = f"Realism of {other} ({measurement.simulated.name}) against {symbol} ({measurement.real.name})"
    parts = [
        _sources(measurement),
        "<h2>Summary</h2>",
        "<p>Distances over the 21 unconditional scores. The floor compares the first half of the real window with the second.</p>",
        _summary(measurement),
        "<h2>Distances of each score</h2>",
        png(figures.distances(measurement), "L1 distances"),
        _scores(measurement),
        "<h2>Distributions</h2>",
        "<p>Grey: real. Drawn between the 0.5 % and 99.5 % quantiles; values outside are in the outermost bins.</p>",
        png(figures.histograms(measurement), "histograms of scores"),
        "<h2>Impact responses</h2>",
        "<p>R(l) = E[e (m(t+l-1) - m(t-1))] in ticks after each type of event at the touch, with 95 % bands.</p>",
        png(figures.responses(measurement), "impact response functions"),
        _impact(measurement),
        "<h2>Stylised facts</h2>",
        _facts(measurement),
        *_predictive(measurement),
        f"<p><small>Intervals: 95 %, {measurement.bootstraps} bootstraps, seed {measurement.seed}. Intervals of distances "
        "resample messages as if they were independent, the others resample blocks in time. Definitions: "
        "docs/realism.md.</small></p>",
    ]
    return page(title, origin, parts)


def number(estimate: Estimate | None, digits: int = 3) -> str:
    """Formats a value with its interval, if it has one, in small print; n/a if there is no value."""
    if estimate is None or not math.isfinite(estimate.value):
        return "n/a"
    low, high = estimate.interval
    known = len(estimate.resampled) > 0 and math.isfinite(high - low)
    interval = f" <small>[{low:.{digits}f}, {high:.{digits}f}]</small>" if known else ""
    return f"{estimate.value:.{digits}f}{interval}"


def _sources(measurement: Measurement) -> str:
    def row(name: str, source: DayWindow) -> list[str]:
        tape = source.tape
        counts = [f"{len(tape):,}", f"{int(tape.trades.sum()):,}", f"{tape.levels}"]
        return [name, escape(source.name), escape(tape.symbol), source.window, *counts]

    rows = [row("real", measurement.real), row("simulated", measurement.simulated)]
    if measurement.baseline is not None:
        rows.append(row("baseline", measurement.baseline))
    return table(["", "file", "symbol", "window", "messages", "trades", "levels"], rows)


def _summary(measurement: Measurement) -> str:
    summaries = {name: benchmark.summary() for name, benchmark in measurement.benchmarks.items()}
    rows = []
    for distance, label in (("l1", "L1"), ("wasserstein", "Wasserstein-1")):
        for statistic, title in (("mean", "mean"), ("median", "median"), ("iqm", "inter-quartile mean")):
            values = [number(summaries[name][distance][statistic]) for name in measurement.names]
            rows.append([f"{label}, {title}", *values])
    shared = {name: measurement.agreements(name) for name in measurement.names}
    rows.append(["stylised facts shared", *(shared_text(shared[name]) for name in measurement.names)])
    impact = [f"{measurement.response_distances(name).mean():.3f}" for name in measurement.names]
    rows.append(["impact responses, mean difference in ticks", *impact])
    return table(["", *(HEADS[name] for name in measurement.names)], rows)


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
    return table(["score", *heads], rows)


def _impact(measurement: Measurement) -> str:
    distances = [measurement.response_distances(name) for name in measurement.names]
    rows = []
    for row, kind in enumerate(EVENT_TYPES):
        values = ["n/a" if math.isnan(found[row]) else f"{found[row]:.3f}" for found in distances]
        counts = [f"{int(measurement.responses[name].counts[row]):,}" for name in ("real", *measurement.names[1:])]
        rows.append([kind, *values, *counts])
    heads = [f"difference<br>{HEADS[name]}" for name in measurement.names]
    return table(["event", *heads, *(f"events<br>{HEADS[name]}" for name in ("real", *measurement.names[1:]))], rows)


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
    totals = {name: shared_text(shared[name]) for name in measurement.names}
    rows.append(["agreements", "", totals[FLOOR], *(cell for name in names for cell in ("", totals[name]))])
    heads = [cell for name in names for cell in (HEADS[name], "as real")]
    return table(["fact", "real", "halves agree", *heads], rows)


def _predictive(measurement: Measurement) -> list[str]:
    score = measurement.predictive
    if score is None:
        return []
    rows = [
        ["simulated data", number(score.simulated)],
        ["the first half of the real window", number(score.real)],
        ["no training: the mid does not change", number(score.no_change)],
    ]
    if score.baseline is not None:
        rows.insert(1, ["the baseline", number(score.baseline)])
    text = (
        "<p>Mean absolute error, in ticks, of forecasts of the mid 10 messages ahead in the second half of the real window "
        f"({score.test_windows:,} forecasts). The same small LSTM is trained on each of:</p>"
    )
    return ["<h2>Predictive score</h2>", text, table(["trained on", "error, ticks"], rows)]
