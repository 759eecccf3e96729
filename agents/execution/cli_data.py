"""`serl data`: the training, validation and test parts of data files."""

import json
from pathlib import Path

import click


@click.command(epilog="Example: serl data nasdaq.parquet LOBSTER_SampleFile_AMZN_2012-06-21_5.zip")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--tick-size",
    default=0.01,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Tick size of bars.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
def data(files: tuple[Path, ...], tick_size: float, as_json: bool) -> None:
    """Show how FILES (bars in Parquet, day files, LOBSTER zips) are split, what is dropped, and their fingerprints."""
    from rich.console import Console
    from rich.table import Table

    from serl.agents.execution.data import bar_dataset, book_dataset, split_rows
    from serl.agents.realism.days import load_day

    datasets = [
        bar_dataset(file, tick_size) if file.suffix == ".parquet" else book_dataset(file, load_day(file))
        for file in files
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
