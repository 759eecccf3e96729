"""`serl minds start`: LLM traders on a served exchange."""

from pathlib import Path

import click

from serl.agents.traders.builtin import MINDS_FILE
from serl.cluster import LOCAL, on_option
from serl.exchange.cli_login import curve_option, token_options


@click.group(epilog="Example: serl minds start --config two-stocks")
def minds() -> None:
    """Run traders whose decisions a language model makes."""


@minds.command(epilog="Example: serl minds start --config two-stocks --connect tcp://127.0.0.1:5570")
@click.option("--config", "source", type=MINDS_FILE, required=True, help="A YAML file, or the name of one of serl's.")
@click.option("--connect", default="tcp://127.0.0.1:5570", show_default=True, help="The exchange's orders endpoint.")
@curve_option
@token_options("Token of the participants PERSONA-0, PERSONA-1, ...")
@click.option("--url", help="Base URL of an OpenAI-compatible endpoint instead of the configured model; with --model.")
@click.option("--model", help="Model at --url; without it tiny, coder or a GGUF file to serve on this machine.")
@click.option("--seed", type=click.IntRange(0), help="Seed of the model's answers instead of the configured one.")
@click.option(
    "--output", type=click.Path(path_type=Path, file_okay=False),
    help="Folder for statistics, decisions and the record of calls  [default: runs/NAME]",
)  # fmt: skip
@on_option("Serve the configured model on this machine, or by actors on a Ray cluster.")
@click.option("--no-events", is_flag=True, help="Ignore the configured events; the exchange's news are read.")
@click.option("--offline", is_flag=True, help="Answer from the record of calls in the output folder; call no model.")
def start(
    source: str, connect: str, curve: Path | None, token: str, url: str | None, model: str | None, seed: int | None,
    output: Path | None, on: str | None, no_events: bool, offline: bool,
) -> None:  # fmt: skip
    """Start the minds; they stop at the end of their hours, when their budget is spent, or with Ctrl-C.

    At the end their statistics are printed and written to statistics.json. In lockstep the market waits for the slowest mind. A repeated run with
    the same prompts is answered from the record of calls.
    """
    import asyncio
    import shlex

    from rich.console import Console
    from rich.status import Status

    from serl.exchange.config import time_of_day_text
    from serl.exchange.request import request_socket
    from serl.exchange.wire import Kind
    from serl.minds.config import load_minds
    from serl.minds.errors import FAILED, MindsError
    from serl.minds.files import CALLS, STATISTICS, DecisionFile, write_statistics
    from serl.minds.mind import ENDPOINT
    from serl.minds.models import model_client, require_packages, with_overrides
    from serl.minds.run import RunOptions, run_minds
    from serl.minds.statistics import table_text

    config, folder = load_minds(source)
    config = with_overrides(config, url, model, seed, events=not no_events)
    output = output or Path("runs") / config.name
    require_packages(config, offline=offline)
    with request_socket(connect, "queries", curve, token) as ask:
        ask(Kind.INFO)  # a large model takes minutes to load: without an exchange it is not loaded
    with (
        model_client(config, output / CALLS, offline=offline, on=on or LOCAL) as client,
        DecisionFile(output) as decisions,
        Status(f"{config.name}: logging in", console=Console()) as status,
    ):

        def report(time_ns: int, count: int) -> None:
            status.update(f"{config.name}: {time_of_day_text(time_ns % (86_400 * 10**9))}, {count:,} decisions")

        options = RunOptions(connect, token, curve, lambda text: click.echo(text, err=True), decisions.add, report)
        statistics = asyncio.run(run_minds(config, folder, client, options))
    write_statistics(output / STATISTICS, statistics)
    click.echo(table_text(statistics))
    if statistics["stopped_early"]:
        click.echo("stopped early")
    click.echo(f"wrote {output}; for a page: serl minds report {shlex.quote(str(output))}")
    if failed := [row["mind"] for row in statistics["minds"] if row["ended"].startswith(FAILED)]:
        raise MindsError(
            f"expected {len(statistics['minds'])} minds to finish, got an error in {', '.join(failed[:5])}"
            f"{' and others' if len(failed) > 5 else ''}; see above"
        )
    asked = [statistics["personas"][one.name] for one in config.personas if one.decides == "model"]
    prompts = sum(row["decisions"] for row in asked)
    if prompts and prompts == sum(row["refused"].get(ENDPOINT, 0) for row in asked):
        raise MindsError(
            f"expected answers from {client.endpoint.model}, got none to {prompts:,} prompts (the first error is above), so its minds did nothing; correct "
            "--url, --model or the key, and start again"
        )


@minds.command(epilog="Example: serl minds report runs/two-stocks")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="HTML file  [default: FOLDER/report.html]"
)
def report(folder: Path, output: Path | None) -> None:
    """Write a page about the run in FOLDER, also while it is in progress: personas, wealth, events, the forum, and every decision with what
    the mind saw and its reason. A JSON file with the figures is written next to it."""
    from serl.agents.pages.page import check_path
    from serl.minds.errors import MindsError
    from serl.minds.files import CALLS, DECISIONS, STATISTICS
    from serl.minds.report import write_report
    from serl.minds.report_rows import read_run

    run = read_run(folder)
    output = output or folder / "report.html"
    check_path(output)
    if {output.resolve(), output.with_suffix(".json").resolve()} & {
        (folder / n).resolve() for n in (DECISIONS, STATISTICS, CALLS)
    }:
        raise MindsError(f"{output}: expected a name that replaces no file of the run, got this one; give another")
    click.echo(f"wrote {', '.join(map(str, write_report(run, output)))}")
