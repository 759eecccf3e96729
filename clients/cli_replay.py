"""`serl replay`: replays a day of history into a running exchange."""

import time
from pathlib import Path

import click

from serl.exchange.cli_login import curve_option, token_options
from serl.exchange.config import time_of_day_text
from serl.exchange.errors import ConfigError

DISPLACED = "UNKNOWN_ORDER"
CAUSES = {
    DISPLACED: ": the orders that they name are gone: other participants traded with them, or the day was played into a book that already had orders",
    "HALTED": ": the symbol is halted; resume it with serl exchange operate resume",
    "WRONG_PHASE": ": the symbol is closed; open it with serl exchange operate continuous",
    "KILLED": ": the kill switch of the replay's participant is on; lift it with serl exchange kill history --off",
    "OUTSIDE_BAND": ": the exchange has narrower price bands than history",
    "BOOK_FULL": ": the exchange's limits are too small for this day",
}
"""Why commands of the history are rejected and what to do about it, by reason."""


def parse_speed(text: str) -> float | None:
    """Parses the option --speed; None for max."""
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise ConfigError(f"--speed: expected max or a positive number, got {text!r}")
    return speed


@click.command(epilog="Example: serl replay amzn.day --speed 60 --connect tcp://127.0.0.1:5570")
@click.argument("day", type=click.Path(path_type=Path))
@click.option("--connect", default="tcp://127.0.0.1:5570", show_default=True, help="Orders endpoint of the exchange.")
@click.option("--speed", default="max", show_default=True, help="Multiple of real time, or max.")
@click.option("--from", "start", help="Time of day at which --speed begins; everything before is sent at once.")
@click.option("--to", "end", help="Time of day at which to stop.")
@click.option(
    "--wait-for", default=0, type=click.IntRange(0), help="Wait until this many other participants are logged in."
)
@curve_option
@token_options("Token of the participant 'history'")
def replay(
    day: Path, connect: str, speed: str, start: str | None, end: str | None, wait_for: int, curve: Path | None, token: str
) -> None:  # fmt: skip
    """Replay the day file DAY (see `serl day`) into a running exchange."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from serl.clients.replay import END_NS, Progress, ReplayError
    from serl.clients.replay_accounts import create_replayer
    from serl.exchange.config import RECORDED_HOURS, time_of_day_ns
    from serl.history.day import read_day

    pace = parse_speed(speed)
    from_ns = time_of_day_ns(start, "--from", RECORDED_HOURS) if start else 0
    to_ns = time_of_day_ns(end, "--to", RECORDED_HOURS) if end else END_NS
    recorded = read_day(day, accounts=True)
    replayer = create_replayer(recorded, connect, pace, token, from_ns, to_ns, curve)
    console = Console()
    started_s = time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        replayer.wait_for(wait_for)
        started_s = time.perf_counter()
        with Bar(*columns, console=console, disable=not console.is_terminal) as bar:
            task = bar.add_task("opening", total=len(replayer.rows))

            def show(progress: Progress) -> None:
                bar.update(task, completed=progress.answered, description=time_of_day_text(progress.time_ns))

            replayer.run(show)
    except KeyboardInterrupt:
        click.echo(
            f"stopped at {time_of_day_text(replayer.progress.time_ns)}, {replayer.progress.answered:,} commands executed"
        )
        raise
    finally:
        replayer.close()
    elapsed_s = time.perf_counter() - started_s
    progress = replayer.progress
    click.echo(
        f"replayed {progress.answered:,} of {progress.rows:,} commands up to {time_of_day_text(progress.time_ns)} in {elapsed_s:.2f} s "
        f"({progress.answered / elapsed_s:,.0f}/s)"
    )
    if recorded.news:
        click.echo(f"  {replayer.news.published:,} of {len(recorded.news):,} news messages published")
    for reason, count in progress.rejected.items():
        click.echo(f"  {count:,} rejected with {reason}{CAUSES.get(reason, '')}")
    unexpected = progress.rejected.keys() - {DISPLACED}
    if (
        unexpected and not recorded.reference.participants
    ):  # with participants, what was rejected on the recorded day is rejected again
        raise ReplayError(
            f"expected the exchange to take every command, got {sum(progress.rejected[each] for each in unexpected):,} rejected with "
            f"{', '.join(sorted(unexpected))}; see above"
        )
