"""The impact of metaorders in a replay as JSON and as a picture."""

import json
import math
from pathlib import Path
from typing import Any

from serl.agents.realism.errors import RealismError
from serl.agents.realism.metaorder import ReplayImpact
from serl.agents.realism.tape import clock

COLOURS = ("#f5b7b1", "#ec7063", "#c0392b", "#7b241c", "#2c3e50")


def parse_shares(text: str) -> list[float]:
    """'.01,.1' as numbers; RealismError if it is something else."""
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError:
        shares = []
    if not shares or not all(math.isfinite(share) and share > 0 for share in shares):
        raise RealismError(f"qty-share: positive numbers with commas between are due, like .01,.03,.1, got {text!r}")
    return shares


def to_json(found: ReplayImpact, name: str, origin: str) -> dict[str, Any]:
    """All numbers, and what they were measured on."""
    return {
        "data": {"name": name, "origin": origin, "symbol": found.symbol},
        "side": found.side.name.lower(),
        "window": f"{clock(found.start_ns)}-{clock(found.end_ns)}",
        "window_lots": found.window_lots,
        "day_lots": found.day_lots,
        "sigma_window_ticks": found.sigma_ticks if math.isfinite(found.sigma_ticks) else None,
        "time_s": ((found.grid_ns - found.start_ns) / 1e9).tolist(),
        "orders": [
            {
                "qty_share": order.qty_share,
                "qty_lots": order.qty_lots,
                "filled_lots": order.filled_lots,
                "impact_at_end_ticks": order.at_end_ticks,
                "impact_ticks": order.impact_ticks.tolist(),
            }
            for order in found.orders
        ],
    }


def write_impact(found: ReplayImpact, name: str, origin: str, path: Path) -> tuple[Path, Path]:
    """Writes PATH (JSON) and the same name with .png; RealismError if the folder cannot be written to."""
    png_path = path.with_suffix(".png")
    if png_path == path:
        raise RealismError(f"{path}: is the name of the picture beside the JSON; give one that ends in .json")
    try:
        path.write_text(json.dumps(to_json(found, name, origin), indent=1, allow_nan=False) + "\n")
        _plot(found, png_path)
    except OSError as error:
        raise RealismError(
            f"{path}: cannot be written ({error.strerror}); give a file in a folder that exists"
        ) from None
    return path, png_path


def _plot(found: ReplayImpact, path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    minutes = (found.grid_ns - found.start_ns) / 60e9
    for number, order in enumerate(found.orders):
        label = f"{order.qty_share:.3g} of the volume: {order.filled_lots:,} of {order.qty_lots:,} lots"
        axes.plot(minutes, order.impact_ticks, color=COLOURS[number % len(COLOURS)], lw=1.3, label=label)
    axes.axvspan(0, (found.end_ns - found.start_ns) / 60e9, color="#eeeeee", zorder=0, label="metaorder at work")
    axes.axhline(0, color="#999999", lw=0.8)
    axes.set_xlabel(f"minutes after {clock(found.start_ns)}")
    axes.set_ylabel("impact on the mid, ticks")
    axes.set_title(f"{found.side.name.lower()} {found.symbol}, replayed day: mid with the metaorder less mid without")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.2)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)
