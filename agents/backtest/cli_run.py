"""`serl run`: runs a strategy file on a served exchange."""

from pathlib import Path

import click

from serl.exchange.cli_login import curve_option, replace_option, token_options
from serl.ranges import FloatRange


@click.command(epilog="Example: serl run mybot.py --connect tcp://127.0.0.1:5570 --window 09:30-10:00")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--strategy", "name", help="Name of the strategy, if FILE has several.")
@click.option("--connect", default="tcp://127.0.0.1:5570", show_default=True, help="Orders endpoint of the exchange.")
@click.option(
    "--name", "participant", default="strategy", show_default=True,
    help="Participant name; a compiled strategy's is traders-STRATEGY-0.",
)  # fmt: skip
@click.option("--window", help="When the strategy trades, like 10:00-11:00 in exchange time; needed in lockstep.")
@click.option(
    "--latency-us", type=FloatRange(0, 60e6, min_open=True), default=1.0, show_default=True,
    help="Compiled strategies: latency of their commands in microseconds; other strategies have the latency of their account.",
)  # fmt: skip
@replace_option
@curve_option
@token_options("Token of the participant")
def run(
    file: Path, name: str | None, connect: str, participant: str, window: str | None, latency_us: float, replace: bool, curve: Path | None, token: str
) -> None:  # fmt: skip
    """Run the strategy in FILE (see `serl backtest`) on a served exchange, on any clock, until the end of the window or Ctrl-C.

    Its open orders are cancelled when it ends.
    """
    from rich.console import Console
    from rich.status import Status

    from serl.agents.backtest.load import load_strategy, user_code
    from serl.agents.backtest.report import money
    from serl.agents.backtest.served import A_DAY_NS, run_compiled, run_served
    from serl.agents.backtest.strategy import Strategy
    from serl.agents.realism.days import parse_window
    from serl.agents.traders.registry import Kind
    from serl.clients.blocking import connect as log_in
    from serl.exchange.config import time_of_day_text
    from serl.exchange.reasons import rejections_text

    loaded = load_strategy(file, name)
    window_ns = None if window is None else parse_window(window, "--window")
    with Status(f"{loaded.name} waits for the exchange's clock", console=Console()) as status:

        def report(time_ns: int, decisions: int) -> None:
            status.update(f"{loaded.name} {time_of_day_text(time_ns)}, {decisions:,} decisions")

        if isinstance(loaded.found, Kind):
            if replace:
                raise click.UsageError("--replace: expected a strategy in Python, got a compiled one; leave it out")
            outcome = run_compiled(
                loaded.found,
                connect,
                window_ns or A_DAY_NS,
                latency_us=latency_us,
                token=token,
                curve=curve,
                on_progress=report,
            )
        else:
            with user_code(file, "a run"):
                strategy: Strategy = loaded.found()
            with (
                log_in(connect, participant, token, curve=curve, cancel_on_disconnect=True, replace=replace) as client,
                user_code(file, "a run"),
            ):
                outcome = run_served(strategy, client, window_ns, report)
    click.echo(f"{loaded.name}: {outcome.decisions:,} decisions, {outcome.fills:,} fills")
    if outcome.rejections:
        click.echo(f"rejected: {rejections_text(outcome.rejections)}")
    if outcome.refusals:
        refused = ", ".join(f"{count:,} {code}" for code, count in outcome.refusals.items())
        click.echo(f"not accepted by the exchange: {refused} (docs/protocol.md, Error codes)")
    for symbol, lots in outcome.positions.items():
        profit = outcome.profits[symbol]
        click.echo(
            f"{symbol}: position {lots:+,} lots, profit {'unknown: no mid' if profit is None else money(profit)}"
        )
