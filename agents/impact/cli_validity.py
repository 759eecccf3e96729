"""`serl impact --validity`: checks whether a market responds to parent orders as real markets do."""

from pathlib import Path

import click

from serl.agents.impact.responses import Responses

DURATION_S, SHARES = 600.0, ".03,.1,.3"
"""Defaults: a parent order's time, and its sizes as shares of the volume in that time."""


def measure_validity(
    day: Path | None, population: str | None, shares: list[float], seeds: range, duration_s: float, window: str | None,
    symbol: str | None, output: Path, as_json: bool, answering: str | None = None,
) -> None:  # fmt: skip
    """Measures the population, the replayed day, or both, and with `answering` the day that gives way with this coefficient; prints the checks and
    writes the report."""
    import json

    from rich.console import Console
    from rich.progress import Progress, TextColumn

    from serl.agents.execution.answering.model import NONE
    from serl.agents.impact.responses import plan_trials
    from serl.agents.impact.validity import check_validity
    from serl.agents.impact.validity_replay import replayed_responses
    from serl.agents.impact.validity_report import (
        REPLAY_NOTE,
        check_table,
        size_table,
        to_json,
        write_validity,
    )
    from serl.agents.impact.validity_simulated import markets_needed, simulated_responses
    from serl.agents.pages.page import check_path
    from serl.agents.realism.days import day_origin, load_day, parse_window
    from serl.agents.traders.population import load_population
    from serl.agents.traders.simulate import fingerprint

    check_path(output.with_suffix(".html"), day, population)
    times = None if window is None else parse_window(window, "--window")
    config = None if population is None else load_population(population)
    history = None if day is None else load_day(day)
    markets: list[Responses] = []
    data: list[str] = []
    columns = (*Progress.get_default_columns(), TextColumn("{task.completed:g} of {task.total:g}"))
    with Progress(*columns, console=Console(stderr=as_json), transient=True) as progress:
        if config is not None:
            task = progress.add_task("markets", total=markets_needed(len(set(shares)), len(seeds)))
            markets.append(
                simulated_responses(config, shares, seeds, duration_s, lambda: progress.update(task, advance=1))
            )
            data.append(f"population {config.name} sha256 {fingerprint(config)[:16]}")
        if history is not None:
            kinds = [NONE] if answering is None else [NONE, answering]
            replays = progress.add_task("replays", total=len(kinds) * len(plan_trials(len(seeds), len(set(shares)))))
            markets += [
                replayed_responses(
                    history, shares, len(seeds), duration_s, times, symbol,
                    lambda: progress.update(replays, advance=1), kind,
                )
                for kind in kinds
            ]  # fmt: skip
            data.append(day_origin(history))
    checks = [check_validity(found, seed=seeds.start) for found in markets]
    written = write_validity(markets, checks, "; ".join(data), seeds.start, output)
    if as_json:
        click.echo(json.dumps(to_json(markets, checks), allow_nan=False))
        return
    console = Console()
    for shown in (check_table(markets, checks), *map(size_table, markets)):
        console.print(shown)
    if history is not None:
        click.echo(REPLAY_NOTE)
    for market in markets:
        if market.note:
            click.echo(f"{market.market} gives way to the order (docs/answering.md):\n{market.note}")
    click.echo(f"wrote {', '.join(map(str, written))}")
