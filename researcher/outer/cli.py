"""`serl researcher`: start, inspect and report runs of the outer loop."""

import shlex
import sys
from pathlib import Path

import click

from serl.cluster import on_option
from serl.ranges import FloatRange

FOLDER = click.Path(path_type=Path, file_okay=False)


@click.group(epilog="Example: serl llm fetch tiny && serl researcher start")
def researcher() -> None:
    """Let a language model design learning algorithms and learn from their scores."""


@researcher.command(
    epilog="Example: serl researcher start --url http://127.0.0.1:11434/v1 --model qwen2.5-coder:7b --form code"
)
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    default=Path("default"),
    show_default=True,
    help="YAML file, or the name of a shipped configuration.",
)
@click.option(
    "--market",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File of bars, or day with a book, to train in; may be repeated for days. The final score is measured on the first.",
)
@click.option(
    "--url", help="Base URL of an OpenAI-compatible endpoint; without it serl serves a model on this machine."
)
@click.option("--model", help="tiny, coder, the path of a GGUF file, or the model name at the endpoint.")
@click.option("--form", type=click.Choice(["spec", "code"]), help="Write modules as specifications or as code.")
@click.option("--iterations", type=click.IntRange(min=1), help="Maximum number of iterations.")
@click.option("--candidates", type=click.IntRange(min=1), help="Candidates per iteration.")
@click.option("--hours", type=FloatRange(min=0, min_open=True), help="Maximum hours of the run.")
@click.option("--tokens", type=click.IntRange(min=1), help="Maximum tokens of the language model.")
@click.option("--seed", type=click.IntRange(min=0))
@on_option("Train candidates on this machine, or on a Ray cluster (that of RAY_ADDRESS without an address).")
@click.option(
    "--adapter",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Start from what an earlier run taught the model: its tuning/adapter.safetensors.",
)
@click.option(
    "--experience",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Also learn from the scored modules of earlier runs: their tuning/experience.jsonl.",
)
@click.option("--output", type=FOLDER, help="Folder of the run  [default: runs/NAME]")
@click.option("--resume", is_flag=True, help="Continue the run in the folder.")
@click.option("--offline", is_flag=True, help="Answer from the record of calls only; call no language model.")
def start(
    path: Path, market: tuple[Path, ...], url: str | None, model: str | None, form: str | None, iterations: int | None, candidates: int | None, hours: float | None,
    tokens: int | None, seed: int | None, on: str | None, adapter: Path | None, experience: Path | None, output: Path | None, resume: bool, offline: bool,
) -> None:  # fmt: skip
    """Design, train and score learning algorithms, iteration by iteration. Ctrl-C stops the run; --resume continues it."""
    from serl.researcher.outer import run
    from serl.researcher.outer.config import load_config, parse_config, require_packages, with_experience

    values = load_config(path, market).model_dump(mode="json")
    overrides = {
        "form": form,
        "iterations": iterations,
        "candidates": candidates,
        "hours_max": hours,
        "seed": seed,
        "train_on": on,
    }
    values |= {name: value for name, value in overrides.items() if value is not None}
    if tokens is not None:
        values["llm_budget"]["tokens_max"] = tokens
    config = run.with_endpoint(parse_config(values, str(path)), url, model)
    config = with_experience(config, adapter, experience)
    require_packages(config, offline=offline)
    if config.uses_llm and not offline:
        run.require_reachable_endpoints(config)
    from serl.researcher.outer.progress import show_progress  # it imports optional packages
    from serl.researcher.outer.report import idle_models

    for text in run.notices(config):
        click.echo(text, err=True)
    folder = output or Path("runs") / config.name
    config = run.with_secret_days(config, folder, resume=resume)
    database = run.begin(folder, config, shlex.join(["serl", *sys.argv[1:]]), resume=resume)
    try:
        with show_progress(config, folder, database) as callbacks:
            reason = run.research(config, folder, database, callbacks=callbacks, offline=offline)
        for text in idle_models(database):
            click.echo(text, err=True)
        click.echo(f"ended: {reason}\nreport: serl researcher report {folder}")
    except KeyboardInterrupt:
        click.echo(
            f"stopped in iteration {database.iterations_done + 1}; continue with the same options and --resume",
            err=True,
        )
        raise
    finally:
        database.close()


@researcher.command(epilog="Example: serl researcher status runs/researcher")
@click.argument("folder", type=FOLDER, default=Path("runs/researcher"))
def status(folder: Path) -> None:
    """Show the progress of a run."""
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
    help="HTML file; a .json is written next to it  [default: FOLDER/report.html]",
)
@click.option(
    "--final",
    is_flag=True,
    help="Also train the best candidate and the incumbent anew and compare them on the test part: once per run, and it ends the run.",
)
@click.option("--ablations", type=FOLDER, help="Folder of `python -m benchmarks.proof`; adds its table.")
def report(folder: Path, output: Path | None, final: bool, ablations: Path | None) -> None:
    """Write an HTML report and JSON: the best algorithm, PA by iteration, rejected modules by reason."""
    from serl.researcher.outer.report import write_report

    path = output or folder / "report.html"
    try:
        write_report(folder, path, final=final, ablations=ablations)
    except KeyboardInterrupt:
        if final:
            click.echo("stopped; the same command goes on with the final score", err=True)
        raise
    click.echo(f"wrote {path} and {path.with_suffix('.json')}")
