"""The impact law of a simulated market as a table, JSON and a picture."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.law import MeasuredLaw
from serl.agents.realism.distances import Estimate
from serl.agents.realism.law import plot_impact_law
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.simulate import fingerprint


def table_of(found: MeasuredLaw, name: str) -> Table:
    """A row a size."""
    table = Table(
        title=f"{name}, {found.schedule}, {found.law.runs} markets; V {found.day_lots:,.0f} lots, sigma {found.day_sigma_ticks:.0f} ticks"
    )
    for head in ("Q / V", "minutes", "ticks", "I / sigma", "95 %", "as long after"):
        table.add_column(head, justify="right")
    for place, size in enumerate(found.law.fractions):
        runs = [run for run in found.runs if run.qty_share == size]
        later = [run.later_ticks for run in runs if math.isfinite(run.later_ticks)]
        table.add_row(
            f"{size:g}", f"{np.mean([run.duration_s for run in runs]) / 60:.1f}",
            f"{np.mean([run.impact_ticks for run in runs]):.1f}", f"{found.law.impacts[place]:.4f}",
            f"[{found.law.low[place]:.4f}, {found.law.high[place]:.4f}]", f"{np.mean(later):.1f}" if later else "closed",
        )  # fmt: skip
    return table


def to_json(found: MeasuredLaw, population: PopulationConfig) -> dict[str, Any]:
    """All numbers, and what they were measured on."""
    law = found.law
    return {
        "population": {"name": population.name, "sha256": fingerprint(population)},
        "schedule": found.schedule,
        "day_lots": found.day_lots,
        "day_sigma_ticks": found.day_sigma_ticks,
        "delta": _estimate(law.delta),
        "prefactor": _estimate(law.prefactor),
        "sizes": [
            {"qty_share": share, "impact_over_sigma": value, "interval": [low, high]}
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
        "interval": [bound if math.isfinite(bound) else None for bound in estimate.interval],
    }


def write_law(found: MeasuredLaw, population: PopulationConfig, path: Path) -> tuple[Path, Path]:
    """Writes PATH (JSON) and the same name with .png; CalibrationError if it cannot be written."""
    png_path = path.with_suffix(".png")
    if png_path == path:
        raise CalibrationError(f"{path}: is the name of the picture beside the JSON; give one that ends in .json")
    try:
        path.write_text(json.dumps(to_json(found, population), indent=1, allow_nan=False) + "\n")
        plot_impact_law(found.law, png_path)
    except OSError as error:
        raise CalibrationError(
            f"{path}: cannot be written ({error.strerror}); give a file in a folder that exists"
        ) from None
    return path, png_path
