"""The report's figures as PNG."""

from collections.abc import Callable
from typing import Any

import numpy as np

from serl.agents.pages.picture import new_figure, picture
from serl.agents.realism.days import DayWindow
from serl.agents.realism.distances import bin_width, grid_step
from serl.agents.realism.impact_response import EVENT_TYPES, ImpactResponse
from serl.agents.realism.measure import BASELINE, FLOOR, SIMULATED, Measurement
from serl.agents.realism.scores import SCORES, Score
from serl.agents.realism.tape import Floats

COLOURS = {"real": "#555555", FLOOR: "#999999", SIMULATED: "#c0392b", BASELINE: "#2471a3"}
LABELS = {"real": "real", FLOOR: "real against real", SIMULATED: "simulated", BASELINE: "baseline"}
QUANTILES_SHOWN = (0.005, 0.995)
"""Histograms are drawn between these quantiles of the pooled sample."""
BINS_SHOWN = 60


def _png(draw: Callable[[Any], None], size: tuple[float, float]) -> bytes:
    """A PNG of the figure that `draw` fills."""
    from matplotlib import rc_context

    with rc_context({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 9}):
        figure = new_figure(*size)
        draw(figure)
        return picture(figure)


def distances(measurement: Measurement) -> bytes:
    """L1 of every score with its interval, one row per score."""
    names = [comparison.score.name for comparison in measurement.benchmarks[SIMULATED].scores]
    names += [comparison.score.name for comparison in measurement.benchmarks[SIMULATED].conditional]

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        rows = np.arange(len(names))[::-1]
        for name in measurement.names:
            benchmark = measurement.benchmarks[name]
            estimates = [comparison.distance.l1 for comparison in (*benchmark.scores, *benchmark.conditional)]
            bounds = np.array([estimate.interval for estimate in estimates])
            axes.hlines(rows, bounds[:, 0], bounds[:, 1], color=COLOURS[name], lw=3, alpha=0.35)
            values = [estimate.value for estimate in estimates]
            axes.plot(values, rows, "o", ms=5, color=COLOURS[name], label=LABELS[name])
        axes.set_yticks(rows, names)
        axes.axhline(2.5, color="#cccccc", lw=0.8)
        axes.set_xlim(0, 1)
        axes.set_xlabel("L1 distance (0: the same distribution, 1: nothing in common)")
        axes.grid(axis="both", alpha=0.2)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=3, frameon=False)

    return _png(draw, (7.5, 6.2))


def histograms(measurement: Measurement) -> bytes:
    """A small histogram of every unconditional score."""
    sources = {"real": measurement.real, SIMULATED: measurement.simulated}
    if measurement.baseline is not None:
        sources[BASELINE] = measurement.baseline

    def draw(figure: Any) -> None:
        grid = figure.subplots(-(-len(SCORES) // 4), 4)
        for axes, score in zip(grid.flat, SCORES, strict=False):
            _histogram(axes, score, sources)
        for axes in grid.flat[len(SCORES) :]:
            axes.set_axis_off()
        handles, labels = grid.flat[0].get_legend_handles_labels()
        grid.flat[len(SCORES)].legend(handles, labels, loc="center", frameon=False, fontsize=11)

    return _png(draw, (11, 11.5))


def _histogram(axes: Any, score: Score, sources: dict[str, DayWindow]) -> None:
    samples = {name: score.values(source.tape) for name, source in sources.items()}
    known = [sample for sample in samples.values() if len(sample)]
    if known:
        edges = _edges(known, score.discrete)
        for name, sample in samples.items():
            if not len(sample):
                continue
            counts, _ = np.histogram(np.clip(sample, edges[0], edges[-1]), edges)
            filled = {"fill": True, "alpha": 0.35} if name == "real" else {"lw": 1.3}
            axes.stairs(counts / len(sample), edges, color=COLOURS[name], label=LABELS[name], **filled)
    axes.set_title(score.name)
    axes.set_xlabel(score.unit, labelpad=1)
    axes.set_yticks([])
    axes.locator_params(axis="x", nbins=5)


def _edges(samples: list[Floats], discrete: bool) -> Floats:
    """Edges of shared bins over the central part of all samples; values outside count in the outermost bins."""
    low = min(float(np.quantile(sample, QUANTILES_SHOWN[0])) for sample in samples)
    high = max(float(np.quantile(sample, QUANTILES_SHOWN[1])) for sample in samples)
    step = min(grid_step(sample) for sample in samples)
    width = max((high - low) / BINS_SHOWN, 0.0 if discrete else min(bin_width(sample) for sample in samples), 1e-12)
    if step > 0:
        width = max(step, round(width / step) * step)
        low -= step / 2
    return np.asarray(low + width * np.arange(max(1, int(np.ceil((high - low) / width))) + 1), np.float64)


def responses(measurement: Measurement) -> bytes:
    """The six impact response functions."""
    drawn = ["real", *(name for name in measurement.names if name != FLOOR)]

    def draw(figure: Any) -> None:
        grid = figure.subplots(2, 3, sharex=True)
        for row, kind in enumerate(EVENT_TYPES):
            axes = grid[row % 2, row // 2]
            for name in drawn:
                _curve(axes, measurement.responses[name], row, name)
            axes.axhline(0, color="#cccccc", lw=0.8, zorder=0)
            axes.set_xscale("log")
            axes.set_title(kind)
            axes.grid(alpha=0.2)
        for axes in grid[:, 0]:
            axes.set_ylabel("R, ticks")
        for axes in grid[1]:
            axes.set_xlabel("lag, events at the touch")
        grid[0, 0].legend(frameon=False)

    return _png(draw, (10, 5.2))


def _curve(axes: Any, found: ImpactResponse, row: int, name: str) -> None:
    axes.plot(found.lags, found.mean_ticks[row], color=COLOURS[name], label=LABELS[name], lw=1.5)
    axes.fill_between(found.lags, found.low_ticks[row], found.high_ticks[row], color=COLOURS[name], alpha=0.18, lw=0)
