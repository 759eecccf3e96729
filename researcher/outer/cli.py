"""`serl researcher`: run, look at, and report on the outer loop."""

import shlex
import sys
from pathlib import Path

import click

FOLDER = click.Path(path_type=Path, file_okay=False)


@click.group(epilog="Example: serl llm fetch tiny && serl researcher start")
def researcher() -> None:
    """A language model designs learning algorithms, and gets better from what the exchange reports."""


@researcher.command(
    epilog="Example: serl researcher start --url http://127.0.0.1:11434/v1 --model qwen2.5-coder:7b --form code"
)
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    default=Path("default"),
    show_default=True,
    help="YAML, or the name of a shipped configuration.",
)
@click.option(
    "--market",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file of bars, or a day with a book, to learn in; several days are allowed, the first is scored on.",
)
@click.option("--url", help="Of an OpenAI-compatible endpoint; without it a model is served here.")
@click.option("--model", help="tiny, coder, the path of a GGUF, or the endpoint's name of it.")
@click.option("--form", type=click.Choice(["spec", "code"]), help="Modules as specifications or as code.")
@click.option("--iterations", type=click.IntRange(min=1), help="At most.")
@click.option("--candidates", type=click.IntRange(min=1), help="Of an iteration.")
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="At most.")
@click.option("--tokens", type=click.IntRange(min=1), help="Of the language model, at most.")
@click.option("--seed", type=click.IntRange(min=0))
@click.option(
    "--on",
    "train_on",
    type=click.Choice(["local", "ray"]),
    help="Candidates train here, or on a Ray cluster (RAY_ADDRESS).",
)
@click.option("--output", type=FOLDER, help="Folder of the run; runs/NAME without it.")
@click.option("--resume", is_flag=True, help="Go on with the run in the folder.")
@click.option("--offline", is_flag=True, help="Answer from the record of calls alone.")
def start(
    path: Path, market: tuple[Path, ...], url: str | None, model: str | None, form: str | None, iterations: int | None, candidates: int | None, hours: float | None,
    tokens: int | None, seed: int | None, train_on: str | None, output: Path | None, resume: bool, offline: bool,
) -> None:  # fmt: skip
    """Runs the outer loop; Ctrl-C stops it, --resume goes on."""
    from serl.researcher.outer import run
    from serl.researcher.outer.config import load_config, parse_config, require_packages

    values = load_config(path, market).model_dump(mode="json")
    given = {
        "form": form,
        "iterations": iterations,
        "candidates": candidates,
        "hours_max": hours,
        "seed": seed,
        "train_on": train_on,
    }
    values |= {name: value for name, value in given.items() if value is not None}
    if tokens is not None:
        values["llm_budget"]["tokens_max"] = tokens
    config = run.with_endpoint(parse_config(values, str(path)), url, model)
    require_packages(config, offline=offline)
    from serl.researcher.outer.progress import watched  # it imports some of them

    for text in run.notices(config):
        click.echo(text, err=True)
    folder = output or Path("runs") / config.name
    database = run.begin(folder, config, shlex.join(["serl", *sys.argv[1:]]), resume=resume)
    try:
        with watched(config, folder, database) as watch:
            reason = run.research(config, folder, database, watch=watch, offline=offline)
        click.echo(f"ended: {reason}\nreport: serl researcher report {folder}")
    except KeyboardInterrupt:
        click.echo(
            f"stopped in iteration {database.iterations_done + 1}; go on with the same options and --resume", err=True
        )
        raise
    finally:
        database.close()


@researcher.command(epilog="Example: serl researcher status runs/researcher")
@click.argument("folder", type=FOLDER, default=Path("runs/researcher"))
def status(folder: Path) -> None:
    """Where a run stands."""
    from serl.researcher.outer.report import status_text
    from serl.researcher.outer.run import open_run

    database, config = open_run(folder)
    click.echo(status_text(database, config))
    database.close()


@researcher.command(epilog="Example: serl researcher report runs/researcher --output reports/researcher.html")
@click.argument("folder", type=FOLDER, default=Path("runs/researcher"))
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="HTML; FOLDER/report.html without it. A .json is written beside it.",
)
@click.option("--final", is_flag=True, help="Score the best on the test part too: once in a run, which it ends.")
@click.option("--ablations", type=FOLDER, help="Folder of `python -m benchmarks.proof`: its table is shown too.")
def report(folder: Path, output: Path | None, final: bool, ablations: Path | None) -> None:
    """Writes a page (and JSON): the best algorithm, PA by iteration, rejected modules by reason."""
    from serl.researcher.outer.report import write_report

    path = output or folder / "report.html"
    write_report(folder, path, final=final, ablations=ablations)
    click.echo(f"wrote {path} and {path.with_suffix('.json')}")
