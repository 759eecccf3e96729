"""`serl llm export`: the tuned model of a run, for those who serve it elsewhere."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from serl.researcher.outer.tuned import Form

FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command(epilog="Example: serl llm export runs/researcher --to merged --output tuned")
@click.argument("run", type=FOLDER)
@click.option(
    "--to",
    "form",
    required=True,
    type=click.Choice(["peft", "merged"]),
    help="peft: the adapter, where norms were not tuned; merged: the whole model for transformers, vLLM, converters.",
)
@click.option("--output", required=True, type=FOLDER, help="A new or empty folder.")
def export(run: Path, form: "Form", output: Path) -> None:
    """Writes the model that a RUN of the researcher has tuned, as its last update left it."""
    from serl.researcher.outer.tuned import export_run

    updates = export_run(run, form, output)
    click.echo(f"wrote {output}: {form}, after {updates} updates")
