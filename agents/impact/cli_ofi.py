"""`serl impact --ofi`: measures how far order-flow imbalance explains the mid, now and later."""

from pathlib import Path

import click

INTERVAL_S, HORIZONS = 10.0, "1,10,60"
"""Defaults, in seconds."""


def measure_ofi(
    day: Path | None, population: str | None, seed: int, interval_s: float, horizons_s: list[float], window: str | None,
    split: str | None, symbol: str | None, output: Path, as_json: bool,
) -> None:  # fmt: skip
    """Fits the hours of a day, or of a simulated day, before the split (by default their middle), tests the others, prints and writes the report."""
    import json

    from rich.console import Console

    from serl.agents.impact.errors import ImpactError
    from serl.agents.impact.ofi import cut_intervals, fit_ofi
    from serl.agents.impact.ofi_report import NOTE, conclusions, line_table, period_table, to_json, write_ofi
    from serl.agents.pages.page import check_path
    from serl.agents.realism.days import day_origin, load_day, parse_window
    from serl.agents.realism.tape import SECOND_NS, build_tape
    from serl.agents.traders.population import load_population
    from serl.agents.traders.simulate import fingerprint, simulate
    from serl.exchange.config import RECORDED_HOURS, time_of_day_ns

    check_path(output.with_suffix(".html"), day, population)
    if not 0.001 <= interval_s <= 86_400:
        raise ImpactError(f"--interval: expected 0.001 to 86400 s, got {interval_s:g}; give seconds, like 10")
    times = None if window is None else parse_window(window, "--window")
    split_ns = None if split is None else time_of_day_ns(split, "--split", RECORDED_HOURS)
    if population is not None:
        config = load_population(population)
        history, data = simulate(config, seed), f"population {config.name} sha256 {fingerprint(config)}"
    else:
        assert day is not None  # the command checks that one of the two is given
        history = load_day(day)
        data = f"{day.name}: {day_origin(history)}"
    tape = build_tape(history, symbol=symbol)
    first, last = times or (tape.span()[0] // SECOND_NS * SECOND_NS, tape.span()[1])
    intervals = cut_intervals(tape, (first, last), round(interval_s * SECOND_NS), horizons_s)
    middle = int(intervals.edges_ns[len(intervals.edges_ns) // 2])
    found = fit_ofi(intervals, middle if split_ns is None else split_ns)
    written = write_ofi(found, data, None if population is None else seed, output)
    if as_json:
        click.echo(json.dumps(to_json(found), allow_nan=False))
        return
    console = Console()
    for shown in (line_table(found), period_table(found)):
        console.print(shown)
    for said in (*conclusions(found), NOTE, f"wrote {', '.join(map(str, written))}"):
        click.echo(said)


def parse_horizons(text: str) -> list[float]:
    """Parses seconds like '1,10,60'. Raises ImpactError for anything else."""
    from serl.agents.impact.errors import ImpactError

    try:
        horizons = [float(part) for part in text.split(",")]
    except ValueError:
        horizons = []
    if not horizons or not all(0.001 <= horizon <= 86_400 for horizon in horizons):
        raise ImpactError(f"--horizons: expected 0.001 to 86400 s, got {text!r}; separate them by commas, like 1,10,60")
    return horizons
