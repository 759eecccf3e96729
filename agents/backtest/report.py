"""The report of a backtest: tables, an HTML page, JSON and a plot."""

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.backtest.result import Result, RoundTrip
from serl.agents.pages.origin import Origin, current_origin
from serl.agents.pages.page import page, png, table, write_with_picture
from serl.agents.pages.picture import new_figure, picture, show_time_of_day
from serl.agents.students_t import mean_interval
from serl.exchange.config import time_of_day_text
from serl.exchange.reasons import rejections_text

TRADES_SHOWN = 200
SIDES = ("long", "short")


def money(value: Decimal) -> str:
    """Formats an amount with its sign and without trailing zeros beyond cents."""
    return f"{value:+,.2f}" if value == round(value, 2) else f"{value.normalize():+,f}"


def drawdown_text(result: Result) -> str:
    """Formats the largest drawdown as a positive amount."""
    return money(result.drawdown).removeprefix("+")


def closed_trades(result: Result) -> list[RoundTrip]:
    """The trades that have ended without a position."""
    return [trip for trip in result.trades if trip.profit_ticks is not None]


def lines(result: Result) -> list[tuple[str, str]]:
    """The summary of one run, as (name, value) rows."""
    counts = result.counts
    closed = closed_trades(result)
    won = sum(1 for trip in closed if (trip.profit_ticks or 0) > 0)
    positions = ", ".join(
        f"{lots:+,} {one.name}" for one, lots in zip(result.symbols, result.positions[-1].tolist(), strict=True) if lots
    )
    fees = [] if result.fee_microticks is None else [("fees, included", money(-result.fees))]
    return [
        ("profit", money(result.profit)),
        *fees,
        ("largest drawdown", drawdown_text(result)),
        ("position at the end", positions or "flat"),
        ("fills", f"{counts['fill']:,}, {int(result.fills['maker'].sum()):,} of them as maker"),
        ("orders", f"{counts['accepted']:,} accepted, {counts['rejected']:,} commands rejected"),
        *_rejected(result.rejections),
        ("trades", f"{len(closed):,} closed, {won:,} with a profit"),
        ("decisions", f"{result.decisions:,}, {result.decisions / max(result.wall_s, 1e-9):,.0f} a second"),
    ]


def summary(results: Sequence[Result]) -> list[tuple[str, str]]:
    """The summary of several seeds, as (name, value) rows: means with 95 % intervals."""
    found = [("seeds", f"{len(results)}")]
    for name, values in (
        ("profit", [one.profit for one in results]),
        ("largest drawdown", [one.drawdown for one in results]),
    ):
        estimate = mean_interval(values)
        assert estimate is not None
        found.append((name, "{:,.2f} [{:,.2f}, {:,.2f}]".format(*estimate)))
    found += _rejected(sum((Counter(one.rejections) for one in results), Counter[str]()))
    found.append(("seeds with a profit", f"{sum(1 for one in results if one.profit > 0)}"))
    found.append(("decisions", f"{sum(one.decisions for one in results):,}"))
    return found


def _rejected(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    return [("rejected", rejections_text(counts))] if counts else []


def numbers(results: Sequence[Result]) -> dict[str, Any]:
    """All numbers as JSON; amounts of money are strings, because they are exact."""
    estimate = mean_interval([one.profit for one in results])
    return {
        "strategy": results[0].name, "profit_mean_low_high": estimate,
        "runs": [
            {
                "settings": one.settings, "profit": str(one.profit), "fees": str(one.fees), "drawdown": str(one.drawdown), "counts": one.counts,
                "rejections": one.rejections, "decisions": one.decisions, "positions": dict(zip((each.name for each in one.symbols), one.positions[-1].tolist(), strict=True)),
                "trades": [trip._asdict() for trip in one.trades],
            }
            for one in results
        ],
    }  # fmt: skip


def write_report(results: Sequence[Result], path: Path) -> tuple[Path, Path, Path]:
    """Writes .html, .json and .png files with PATH's name; returns their paths. Raises ReportFileError if they cannot be written."""
    settings = results[0].settings
    several = f"; seeds {_seeds(results)}" if len(results) > 1 else ""
    origin = current_origin(f"{settings['market']}{several}", settings["seed"])
    picture = draw(results)
    record = {"made": origin.to_json(), **numbers(results)}
    return write_with_picture(path, html(results, origin, picture), record, picture)


def html(results: Sequence[Result], origin: Origin, picture: bytes) -> str:
    """The HTML page, with the plot."""
    first = results[0]
    parts = [
        table(
            ["", ""],
            [[escape(cell) for cell in row] for row in (lines(first) if len(results) == 1 else summary(results))],
            text=True,
        )
    ]
    parts.append(png(picture, "profit and position over time"))
    if len(results) > 1:
        rows = [
            [str(one.settings["seed"]), money(one.profit), drawdown_text(one), f"{len(one.fill_rows):,}", f"{len(closed_trades(one)):,}"]
            for one in results
        ]  # fmt: skip
        parts += ["<h2>Seeds</h2>", table(["seed", "profit", "largest drawdown", "fills", "closed trades"], rows)]
    else:
        parts += ["<h2>Trades</h2>", _trades(first)]
    settings = {**first.settings, "seed": _seeds(results)} if len(results) > 1 else first.settings
    shown = [[escape(name), escape(str(value))] for name, value in settings.items() if value is not None]
    parts += ["<h2>Settings</h2>", table(["setting", "value"], shown, text=True)]
    parts.append(
        "<p>Profit is cash plus the position at the mid, less fees. A trade starts and ends without a position; its profit is before fees. "
        "The drawdown is measured at the points of the curve.</p>"
    )
    return page(f"Backtest of {first.name}", origin, parts)


def _seeds(results: Sequence[Result]) -> str:
    return f"{results[0].settings['seed']} to {results[-1].settings['seed']}"


def _trades(result: Result) -> str:
    trips = result.trades
    rows = [
        [
            escape(result.symbols[trip.symbol].name), SIDES[trip.side], time_of_day_text(trip.start_ns),
            "open" if trip.end_ns is None else time_of_day_text(trip.end_ns), f"{trip.qty_lots:,}", f"{trip.fills:,}",
            "" if trip.profit_ticks is None else money(result.money(trip.symbol, trip.profit_ticks)),
        ]
        for trip in trips[:TRADES_SHOWN]
    ]  # fmt: skip
    more = f"<p>The first {TRADES_SHOWN:,} of {len(trips):,}.</p>" if len(trips) > TRADES_SHOWN else ""
    return table(["symbol", "side", "from", "to", "largest position", "fills", "profit"], rows) + more


def draw(results: Sequence[Result]) -> bytes:
    """A PNG plot: profit over time of every seed, and the positions of the first."""
    figure = new_figure(9, 5.5)
    top, bottom = figure.subplots(2, sharex=True, height_ratios=[2, 1])
    for one in results:
        top.plot(
            one.times_ns / 3.6e12, [float(value) for value in one.pnl], lw=1.0, alpha=1.0 if len(results) == 1 else 0.4
        )
    if len(results) > 1:
        curves = np.array([[float(value) for value in one.pnl] for one in results])
        top.plot(results[0].times_ns / 3.6e12, curves.mean(axis=0), color="#1c2330", lw=2.0, label="mean")
        top.legend(loc="best", fontsize=8, frameon=False)
    top.set_ylabel("profit")
    for place, symbol in enumerate(results[0].symbols):
        bottom.step(
            results[0].times_ns / 3.6e12, results[0].positions[:, place], where="post", lw=1.0, label=symbol.name
        )
    bottom.set_ylabel("lots" if len(results) == 1 else f"lots, seed {results[0].settings['seed']}")
    show_time_of_day(bottom)
    if len(results[0].symbols) <= 10:
        bottom.legend(loc="upper left", fontsize=8, frameon=False)
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
    return picture(figure)
