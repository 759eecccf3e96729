"""`serl league`: plays executors against market makers."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from serl.agents.traders.builtin import POPULATION

if TYPE_CHECKING:
    from serl.agents.league.season import Season


@click.command(epilog="Example: serl league --rounds 0 --windows 32 --output runs/rules")
@click.option("--population", default="liquid", show_default=True, type=POPULATION, help="The traders of the market.")
@click.option(
    "--executor", "executors", multiple=True,
    help="twap, pov, ac, aggressive, passive, patience, or the file of a trained policy; may be repeated.  [default: twap, passive, patience]",
)  # fmt: skip
@click.option(
    "--maker", "makers", multiple=True,
    help="symmetric:TICKS, avellaneda-stoikov:RISK or glft:RISK; may be repeated.  [default: symmetric:1, avellaneda-stoikov:0.01]",
)  # fmt: skip
@click.option("--windows", type=int, help="Windows of each match.  [default: 256]")
@click.option("--seed", type=int, help="Seed of the windows.  [default: 1]")
@click.option("--rounds", type=int, help="Rounds of self-play; 0: nobody learns.  [default: 2]")
@click.option("--seeds", type=int, help="Seeds with which learners are trained.  [default: 3]")
@click.option("--executor-steps", type=int, help="Decisions of a learning executor in a round.  [default: 60000]")
@click.option("--maker-steps", type=int, help="Decisions of a learning maker in a round.  [default: 300000]")
@click.option("--days", "simulated_days", type=int, help="Days to train on, and to meet on.  [default: 16]")
@click.option("--duration", "duration_s", type=float, help="Seconds of a window.  [default: 300]")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), default=Path("runs/league"), show_default=True,
    help="Folder of the results.",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Continue the league in the folder.")
def league(
    population: str, executors: tuple[str, ...], makers: tuple[str, ...], windows: int | None, seed: int | None, rounds: int | None,
    seeds: int | None, executor_steps: int | None, maker_steps: int | None, simulated_days: int | None, duration_s: float | None,
    output: Path, resume: bool,
) -> None:  # fmt: skip
    """Let executors and market makers meet in one simulated market, each executor with each maker.

    Rules and trained policies meet first. Then an executor and a maker learn in rounds, against each other and all the rest (PPO). Prints the
    cross tables, and writes a page, JSON, a picture and the learners to OUTPUT. Ctrl-C loses no finished match or training; --resume
    continues. `serl dashboard --league OUTPUT` shows the page as it grows.
    """
    from serl.extras import require_reports

    require_reports("torch", "safetensors")
    from pydantic import ValidationError
    from rich.console import Console

    from serl.agents.league.report import terminal_tables, write_report
    from serl.agents.league.season import Season, SeasonConfig
    from serl.exchange.errors import ConfigError
    from serl.exchange.invalid import describe_invalid

    market = {"population": population, "simulated_days": simulated_days, "duration_s": duration_s}
    given = {
        "executors": executors or None, "makers": makers or None, "windows": windows, "seed": seed, "rounds": rounds, "seeds": seeds,
        "executor_steps": executor_steps, "maker_steps": maker_steps,
        "league": {name: value for name, value in market.items() if value is not None},
    }  # fmt: skip
    try:
        config = SeasonConfig.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise ConfigError(f"{describe_invalid(error, SeasonConfig, most=1)}; see serl league --help") from None
    season = Season(config, output, resume=resume)
    try:
        _play(season)
    finally:
        season.close()
    for table in terminal_tables(season):
        Console().print(table)
    click.echo(f"wrote {', '.join(map(str, write_report(season)))}")


def _play(season: "Season") -> None:
    """Plays the season with a progress bar on stderr; rewrites the page after each part."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from serl.agents.league.report import write_report

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("league", total=season.parts, completed=season.parts_done)

        def on_part() -> None:
            progress.advance(task)
            write_report(season)

        try:
            season.play(on_part)
        except KeyboardInterrupt:
            done = f"{season.parts_done} of {season.parts} matches and trainings"
            click.echo(f"stopped after {done}; continue with the same command and --resume", err=True)
            raise
