"""The impact of metaorders in a simulated market as a table, an HTML page, JSON and a plot."""

import math
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from serl.agents.impact.simulated import SimulatedImpact
from serl.agents.pages.origin import Origin, current_origin
from serl.agents.pages.page import page, png, table, write_with_picture
from serl.agents.realism.distances import CLUSTERS_MIN, Estimate
from serl.agents.realism.square_root_law import ImpactLaw, interval_text, plot_impact_law
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.simulate import fingerprint


def summary_table(found: SimulatedImpact, name: str) -> Table:
    """One row per size."""
    summary = Table(
        title=f"{name}, {found.schedule}, {found.law.runs} markets; V {found.day_lots:,.0f} lots, sigma {found.day_sigma_ticks:.0f} ticks"
    )
    for head in ("Q / V", "minutes", "ticks", "I / sigma", "95 %", "one duration later"):
        summary.add_column(head, justify="right")
    for place, size in enumerate(found.law.fractions):
        runs = [run for run in found.runs if run.qty_share == size]
        later = [run.later_ticks for run in runs if math.isfinite(run.later_ticks)]
        summary.add_row(
            f"{size:g}", f"{np.mean([run.duration_s for run in runs]) / 60:.1f}",
            f"{np.mean([run.impact_ticks for run in runs]):.1f}", f"{found.law.impacts[place]:.4f}",
            interval_text(found.law.low[place], found.law.high[place], 4), f"{np.mean(later):.1f}" if later else "closed",
        )  # fmt: skip
    return summary


def to_json(found: SimulatedImpact, population: PopulationConfig) -> dict[str, Any]:
    """All numbers, and the population from which they come."""
    law = found.law
    return {
        "population": {"name": population.name, "sha256": fingerprint(population)},
        "schedule": found.schedule,
        "day_lots": found.day_lots,
        "day_sigma_ticks": found.day_sigma_ticks,
        "delta": _estimate(law.delta),
        "prefactor": _estimate(law.prefactor),
        "sizes": [
            {"qty_share": share, "impact_over_sigma": value, "interval": _interval(low, high)}
            for share, value, low, high in zip(
                law.fractions.tolist(), law.impacts.tolist(), law.low.tolist(), law.high.tolist(), strict=True
            )
        ],
        "runs": [
            {
                "seed": run.seed, "qty_share": run.qty_share, "lots": run.lots, "filled_lots": run.filled_lots,
                "duration_s": run.duration_s, "impact_ticks": run.impact_ticks,
                "later_ticks": run.later_ticks if math.isfinite(run.later_ticks) else None,
            }
            for run in found.runs
        ],
    }  # fmt: skip


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": estimate.value,
        "interval": _interval(*estimate.interval),
    }


def _interval(low: float, high: float) -> list[float | None]:
    return [bound if math.isfinite(bound) else None for bound in (low, high)]


def law_lines(law: ImpactLaw) -> list[str]:
    """delta and Y with their intervals, or the reason why there are none."""
    named = (("delta", law.delta), ("Y", law.prefactor))
    lines = [f"{name} = {one.value:.3f} {interval_text(*one.interval, 3)}" for name, one in named]
    if law.runs < CLUSTERS_MIN:
        lines.append(f"expected {CLUSTERS_MIN} or more markets for intervals, got {law.runs}; give more --seeds")
    return lines


def write_simulated_impact(found: SimulatedImpact, population: PopulationConfig, path: Path) -> tuple[Path, Path, Path]:
    """Writes .html, .json and .png files with PATH's name; returns their paths. Raises ReportFileError if they cannot be written."""
    origin = current_origin(f"population {population.name} sha256 {fingerprint(population)[:16]}", found.runs[0].seed)
    numbers, picture = {"made": origin.to_json(), **to_json(found, population)}, plot_impact_law(found.law)
    return write_with_picture(path, html(found, population.name, origin, picture), numbers, picture)


def html(found: SimulatedImpact, name: str, origin: Origin, picture: bytes) -> str:
    """The HTML page, with the plot."""
    law = found.law
    shown = summary_table(found, name)
    rows = list(zip(*(map(str, column.cells) for column in shown.columns), strict=True))
    parts = [
        "<p>I / sigma = Y (Q / V)<sup>delta</sup>: the move of the mid that an extra metaorder causes, measured in "
        f"{law.runs} markets, each with and without it ({escape(found.schedule)}).</p>",
        table(["", "value", "95 %"], [["delta", f"{law.delta.value:.3f}", interval_text(*law.delta.interval, 3)],
                                      ["Y", f"{law.prefactor.value:.3f}", interval_text(*law.prefactor.interval, 3)]]),
        *(f"<p>{escape(line)}</p>" for line in law_lines(law)[2:]),
        png(picture, "impact over sigma against share of the volume"),
        table([escape(str(column.header)) for column in shown.columns], rows),
        f"<p>The day without a metaorder: V = {found.day_lots:,.0f} lots, sigma = {found.day_sigma_ticks:.0f} ticks.</p>",
    ]  # fmt: skip
    return page(f"Impact law of {name}", origin, parts)
