"""`serl data` shows the training, validation and test parts of data files; `serl bar-costs` estimates the costs of the market of bars."""

import json
from pathlib import Path

import click

from serl.ranges import FloatRange


@click.command(epilog="Example: serl data nasdaq.parquet LOBSTER_SampleFile_AMZN_2012-06-21_5.zip")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
def data(files: tuple[Path, ...], as_json: bool) -> None:
    """Show how FILES (bars in Parquet, day files, LOBSTER zips) are split, what is dropped, and their fingerprints."""
    from serl.extras import require_day_files

    require_day_files()
    from rich.console import Console
    from rich.table import Table

    from serl.agents.execution.data import bar_dataset, book_dataset, split_rows
    from serl.agents.realism.days import load_day

    datasets = [
        bar_dataset(file) if file.suffix == ".parquet" else book_dataset(file, load_day(file)) for file in files
    ]
    headers = ("data", "part", "stocks", "dates", "stock-days", "hours", "from - to")
    if as_json:
        rows = [dict(zip(headers, row, strict=True)) for row in split_rows(datasets)]
        fingerprints = {
            dataset.name: {"fingerprint": dataset.fingerprint, "sha256": dataset.sha256} for dataset in datasets
        }
        click.echo(
            json.dumps(
                {"parts": rows, "data": fingerprints, "counts": {dataset.name: dataset.counts for dataset in datasets}}
            )
        )
        return
    for dataset in datasets:
        table = Table(title=f"{dataset.name}, fingerprint {dataset.fingerprint}", title_justify="left")
        for header in headers[1:]:
            table.add_column(header, justify="right" if header in headers[2:6] else "left")
        for row in split_rows([dataset]):
            table.add_row(*row[1:])
        Console().print(table)
        click.echo(", ".join(f"{name} {count:,}" for name, count in dataset.counts.items()) + "\n")


@click.command(epilog="Example: serl bar-costs LOBSTER_SampleFile_AMZN_2012-06-21_5.zip")
@click.argument("days", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--bar", "bar_s", default=60.0, show_default=True, type=FloatRange(1, 86_400), help="Length of a bar in seconds."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the slices.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def bar_costs(days: tuple[Path, ...], bar_s: float, seed: int, as_json: bool) -> None:
    """Estimate impact_bps and half_spread_bps of the market of bars from DAYS with a book.

    Slices of 0.5 to 5 % of a bar's mean volume take the displayed book. With the impact shown, bars charge them as much in total as the book did.
    `of mean`: impact per share of the mean volume of a bar; `half spread`: displayed, mean over time; `from bars`: estimated as for
    `market.spreads: stock`; `above it`: the mean cost above half the spread.
    """
    from serl.extras import require_day_files

    require_day_files()
    import dataclasses

    from rich.console import Console
    from rich.table import Table

    from serl.agents.execution.bar_costs import fit_costs
    from serl.agents.realism.days import load_day

    found = [fit_costs(load_day(day), bar_s, seed=seed) for day in days]
    if as_json:
        click.echo(json.dumps({"bar_s": bar_s, "seed": seed, "days": [dataclasses.asdict(one) for one in found]}))
        return
    headers = ("day", "impact", "95 %", "of mean", "half spread", "from bars", "above it")
    table = Table(title=f"bars of {bar_s:g} s, seed {seed}, in bps; interval over bars", title_justify="left")
    for header in headers:
        table.add_column(header, justify="left" if header == "day" else "right")
    for one in found:
        table.add_row(
            one.symbol, f"{one.impact_bps:.2f}", f"{one.impact_low_bps:.2f} to {one.impact_high_bps:.2f}",
            f"{one.impact_of_mean_volume_bps:.2f}", f"{one.half_spread_bps:.2f}", f"{one.half_spread_from_bars_bps:.2f}",
            f"{one.excess_bps:.2f}",
        )  # fmt: skip
    Console().print(table)
