"""Validity checks as tables, an HTML page, JSON and a plot, with several markets side by side."""

import math
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from serl.agents.impact.responses import STEPS, TIME, Responses
from serl.agents.impact.validity import Check, fit_size_law
from serl.agents.pages.origin import current_origin
from serl.agents.pages.page import page, png, table, write_with_picture
from serl.agents.pages.picture import new_figure, picture
from serl.agents.realism.square_root_law import draw_impact_law
from serl.agents.realism.tape import Floats

COLOURS = ("#f39c12", "#27ae60", "#2471a3", "#c0392b", "#2c3e50")
REPLAY_NOTE = (
    "Nobody reacts in a replayed day: its response is the liquidity that the order took and history did not replace, and it "
    "ends when history's orders have refilled the book. Its verdicts say what a replay lacks, not how the real market behaves."
)


def check_table(markets: list[Responses], checks: list[list[Check]]) -> Table:
    """One row per check, with the number, its interval and the verdict for each market."""
    shown = Table(title=f"orders over {markets[0].duration_s:g} s, 95 % intervals over runs", show_lines=True)
    shown.add_column("check")
    shown.add_column("expected", no_wrap=True)
    for market in markets:
        shown.add_column(f"{market.market}\n{market.runs} {market.run_name}", no_wrap=True)
    for row in zip(*checks, strict=True):
        cells = [f"{_number(check)}\n{check.verdict}" for check in row]
        shown.add_row(f"{row[0].name}\n({row[0].unit})", _expected(row[0]), *cells)
    return shown


def size_table(found: Responses) -> Table:
    """One row per size: what was sent and how far it moved the mid."""
    shown = Table(
        title=f"{found.market}: V {found.volume_lots:,.0f} lots, sigma {found.sigma_ticks:.1f} ticks in the order's time"
    )
    for head in ("Q / V", "filled", "buy, ticks", "sell, ticks", "half way", "at the end", "later: 1 x", "2 x", "5 x"):
        shown.add_column(head, justify="right")
    mean = found.impact_ticks.mean(axis=0)
    for number, share in enumerate(found.shares.tolist()):
        times = [STEPS // 2, STEPS, 2 * STEPS, 3 * STEPS, 6 * STEPS]
        ticks = [*mean[:, number, STEPS].tolist(), *mean.mean(axis=0)[number, times].tolist()]
        shown.add_row(f"{share:g}", f"{found.filled[number]:.0%}", *(f"{value:+z.2f}" for value in ticks))
    return shown


def write_validity(
    markets: list[Responses], checks: list[list[Check]], data: str, seed: int, path: Path
) -> tuple[Path, Path, Path]:  # fmt: skip
    """Writes .html, .json and .png files with PATH's name; returns their paths. Raises ReportFileError if they cannot be written."""
    origin, image = current_origin(data, seed), draw(markets, seed)
    numbers = {"made": origin.to_json(), **to_json(markets, checks)}
    tables = [check_table(markets, checks), *map(size_table, markets)]
    parts = [f"<p>{escape(REPLAY_NOTE)}</p>"] if any(market.run_name != "seeds" for market in markets) else []
    parts += [f"<p>{escape(market.market)}: {escape(market.note)}</p>" for market in markets if market.note]
    parts += [_html(tables[0], text=True), png(image, "impact against size and against time")]
    parts += [f"<h2>{escape(str(shown.title))}</h2>" + _html(shown) for shown in tables[1:]]
    return write_with_picture(path, page("Response to parent orders", origin, parts), numbers, image)


def to_json(markets: list[Responses], checks: list[list[Check]]) -> dict[str, Any]:
    """All numbers: the checks and mean responses of each market."""
    return {"markets": [_market(*both) for both in zip(markets, checks, strict=True)]}


def draw(markets: list[Responses], seed: int) -> bytes:
    """A PNG: for each market impact against size with its fit, and against time, with the decay. seed: of the resamples, as in the checks."""
    figure = new_figure(10, 4 * len(markets))
    grid = figure.subplots(len(markets), 2, squeeze=False)
    for (left, right), found in zip(grid, markets, strict=True):
        _draw_sizes(left, found, seed)
        _draw_times(right, found)
    return picture(figure)


def _draw_sizes(axes: Any, found: Responses, seed: int) -> None:
    law = fit_size_law(found, seed=seed)
    axes.set_title(f"{found.market}: impact at the end of the order", fontsize=9)
    if law is not None:
        draw_impact_law(axes, law)
    else:
        impact = found.impact_ticks[:, :, :, STEPS].mean(axis=(0, 1)) / found.sigma_ticks
        axes.plot(found.shares, impact, "o", color="#c0392b")
        axes.set_xscale("log")
        axes.set_xlabel("Q / V")
        axes.set_ylabel(r"$I / \sigma$: no law, a mean is not positive")
    axes.minorticks_off()
    axes.set_xticks(found.shares, [f"{share:g}" for share in found.shares])


def _draw_times(axes: Any, found: Responses) -> None:
    curves = found.impact_ticks.mean(axis=1)
    axes.axvspan(0, 1, color="#f0f0f0", zorder=0)
    axes.axhline(0, color="#999999", lw=0.8, zorder=0)
    for number, share in enumerate(found.shares.tolist()):
        mean, colour = curves[:, number].mean(axis=0), COLOURS[number % len(COLOURS)]
        error: Floats = 1.96 * curves[:, number].std(axis=0, ddof=1) / np.sqrt(found.runs)
        axes.plot(TIME, mean, color=colour, lw=1.2, label=f"{share:g} of the volume")
        axes.fill_between(TIME, mean - error, mean + error, color=colour, alpha=0.12, lw=0)
    end = curves[:, -1, STEPS].mean()
    axes.plot([1, TIME[-1]], [end * 2 / 3] * 2, ls="--", color="#999999", label="two thirds of the largest")
    axes.set_xlabel("durations after the start (grey: the order is worked)")
    axes.set_ylabel("impact on the mid, ticks")
    axes.set_title(f"mean of both sides, {found.runs} {found.run_name}; bands: ± 1.96 standard errors", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.2)
    axes.legend(frameon=False, fontsize=7)


def _market(found: Responses, checks: list[Check]) -> dict[str, Any]:
    return {
        "market": found.market, "runs": found.runs, "run": found.run_name, "duration_s": found.duration_s,
        "note": found.note, "volume_lots": found.volume_lots, "sigma_ticks": found.sigma_ticks, "qty_shares": found.shares.tolist(),
        "filled": found.filled.tolist(), "time": TIME.tolist(),
        "impact_ticks": dict(zip(("buy", "sell"), found.impact_ticks.mean(axis=0).tolist(), strict=True)),
        "checks": [
            {
                "name": check.name, "number": check.unit, "value": _finite(check.value),
                "interval": [_finite(check.low), _finite(check.high)],
                "expected": [_finite(check.least), _finite(check.most)], "verdict": check.verdict,
            }
            for check in checks
        ],
    }  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(check: Check) -> str:
    if not math.isfinite(check.value):
        return "none"
    interval = f"[{check.low:.2f}, {check.high:.2f}]" if math.isfinite(check.high - check.low) else "(no interval)"
    return f"{check.value:.2f} {interval}"


def _expected(check: Check) -> str:
    if math.isinf(check.most):
        return f"above {check.least:g}"
    return f"below {check.most:g}" if math.isinf(check.least) else f"{check.least:g} to {check.most:g}"


def _html(shown: Table, *, text: bool = False) -> str:
    rows = list(zip(*([escape(str(cell)) for cell in column.cells] for column in shown.columns), strict=True))
    return table([escape(str(column.header)) for column in shown.columns], rows, text=text)
