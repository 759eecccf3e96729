"""`serl data`: what is trained, validated and tested on."""

import json
from pathlib import Path

import click


@click.command(epilog="Example: serl data nasdaq.parquet LOBSTER_SampleFile_AMZN_2012-06-21_5.zip")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--tick-size", default=0.01, show_default=True, type=click.FloatRange(min=0, min_open=True), help="Of bars."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
def data(files: tuple[Path, ...], tick_size: float, as_json: bool) -> None:
    """Shows how FILES (bars in Parquet, day files, LOBSTER zips) are split, what was dropped, and their fingerprints."""
    from rich.console import Console
    from rich.table import Table

    from serl.agents.execution.data import bar_dataset, book_dataset, table_of
    from serl.agents.realism.days import load_day

    datasets = [
        bar_dataset(file, tick_size) if file.suffix == ".parquet" else book_dataset(file, load_day(file))
        for file in files
    ]
    heads = ("data", "part", "stocks", "dates", "stock-days", "hours", "from - to")
    if as_json:
        rows = [dict(zip(heads, row, strict=True)) for row in table_of(datasets)]
        fingerprints = {one.name: {"fingerprint": one.fingerprint, "sha256": one.sha256} for one in datasets}
        click.echo(
            json.dumps({"parts": rows, "data": fingerprints, "counts": {one.name: one.counts for one in datasets}})
        )
        return
    for dataset in datasets:
        table = Table(title=f"{dataset.name}, fingerprint {dataset.fingerprint}", title_justify="left")
        for head in heads[1:]:
            table.add_column(head, justify="right" if head in heads[2:6] else "left")
        for row in table_of([dataset]):
            table.add_row(*row[1:])
        Console().print(table)
        click.echo(", ".join(f"{name} {count:,}" for name, count in dataset.counts.items()) + "\n")
