"""`serl execute` works a parent order on a running exchange; `serl volume-curve` fits the volume curve that VWAP needs."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from serl.exchange.cli_login import curve_option, replace_option, token_options

if TYPE_CHECKING:
    from serl.agents.execution.executor import Execution, Executor
    from serl.agents.execution.order import ParentOrder
    from serl.agents.execution.policies.policy import Policy
    from serl.agents.execution.report import Benchmark
    from serl.agents.signals.forecaster import Forecaster
    from serl.history.day import Day

DAY_S = 86_400


@click.command(
    epilog="Example: serl execute twap --symbol AMZN --side sell --qty 5000 --window 10:00-10:30 --day amzn.day"
)
@click.argument("name", metavar="POLICY", required=False)
@click.option("--policy", help="Same as POLICY.")
@click.option("--symbol", required=True, help="Symbol to trade.")
@click.option("--side", required=True, type=click.Choice(["buy", "sell"]), help="Buy or sell.")
@click.option("--qty", required=True, type=int, help="Quantity in lots.")
@click.option("--window", required=True, help="Window in exchange time, like 10:00-10:30.")
@click.option("--interval", default=30.0, show_default=True, help="Seconds between decisions.")
@click.option(
    "--mode", type=click.Choice(["market", "limit", "hybrid"]), help="Action mode; default: the policy's first."
)
@click.option("--volume-curve", type=click.Path(path_type=Path), help="vwap: a file of `serl volume-curve`.")
@click.option("--rate", default=0.1, show_default=True, help="pov: own share of all volume.")
@click.option("--risk-aversion", default=1e-6, show_default=True, help="ac: λ, per tick and lot.")
@click.option("--volatility", default=2.0, show_default=True, help="ac: σ, ticks per square root of a second.")
@click.option("--impact", default=1.0, show_default=True, help="ac: η, ticks times seconds per lot.")
@click.option(
    "--cross-share",
    default=0.2,
    show_default=True,
    help="passive: share of the window, at its end, in which it crosses.",
)
@click.option(
    "--forecaster",
    type=click.Path(path_type=Path),
    help="The file whose forecasts the trained policy observes; they are made from the feed.",
)
@click.option("--connect", default="tcp://127.0.0.1:5570", show_default=True, help="Orders endpoint of the exchange.")
@click.option("--name", "participant", default="executor", show_default=True, help="Participant name.")
@replace_option
@curve_option
@token_options("Token of the participant")
@click.option("--day", type=click.Path(path_type=Path), help="The day file that is being replayed; needed for PA_twap.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    default=Path("reports"),
    show_default=True,
    help="Folder for the report.",
)
@click.option("--progress", type=click.Path(path_type=Path), help="JSON lines file for `serl dashboard --execution`.")
@click.option(
    "--flow",
    type=click.Path(path_type=Path),
    help="Folder for the order flow of the execution: `serl dashboard --flow`.",
)
def execute(
    name: str | None, policy: str | None, symbol: str, side: str, qty: int, window: str, interval: float, mode: str | None, volume_curve: Path | None,
    rate: float, risk_aversion: float, volatility: float, impact: float, cross_share: float, forecaster: Path | None, connect: str,
    participant: str, replace: bool, curve: Path | None, token: str, day: Path | None, report: Path, progress: Path | None, flow: Path | None,
) -> None:  # fmt: skip
    """Work a parent order on a running exchange and report what it cost.

    POLICY is twap, vwap, pov, ac (Almgren-Chriss), aggressive, passive, patience, or the file of a trained policy. What is unfilled at the end of the
    window crosses the book.
    """
    from serl.agents.execution import report as reports
    from serl.agents.execution.environment.forecasts import ServedForecasts
    from serl.agents.execution.executor import Executor
    from serl.agents.execution.order import ParentOrder
    from serl.agents.execution.policies.choose import make_policy, packages_of
    from serl.agents.execution.policies.policy import require_mode
    from serl.agents.execution.progress import OrderFlowLog, ProgressFile
    from serl.agents.realism.days import parse_window
    from serl.clients.blocking import connect as log_in
    from serl.exchange.records import Side
    from serl.extras import require_reports
    from serl.history.day import read_day

    if (name is None) == (policy is None):
        raise click.UsageError("expected one policy, either as POLICY or with --policy")
    require_reports(*packages_of(name or policy or ""))
    if curve is not None and curve.is_file():
        raise click.UsageError(
            f"--curve: expected a key folder, got the file {curve}; give a volume curve with --volume-curve"
        )
    times = parse_window(window, "--window")
    order = ParentOrder(symbol, Side[side.upper()], qty, *times, _nanoseconds("--interval", interval))
    chosen = make_policy(
        name or policy or "", curve=volume_curve, rate=rate, risk_aversion=risk_aversion, volatility=volatility, impact=impact,
        cross_share=cross_share,
    )  # fmt: skip
    used = mode or chosen.modes[0]
    require_mode(chosen, used)
    forecasting = _forecasting(chosen, forecaster)
    reports.import_drawing()
    _make_folder(report)
    replayed = None if day is None else read_day(day)
    benchmark = None if replayed is None else _in_process_benchmark(replayed, order, chosen, used, forecasting)
    # an interrupted command must not leave unattended orders
    with log_in(connect, participant, token, curve=curve, cancel_on_disconnect=True, replace=replace) as client:
        progress_file = None if progress is None else ProgressFile(progress, participant, order, chosen)
        order_flow_log = None if flow is None else OrderFlowLog(flow, participant, chosen.name, symbol)
        forecasts = None if forecasting is None else ServedForecasts(*forecasting)
        executor = Executor(client, order, chosen, used, progress_file, order_flow_log, forecasts)
        click.echo(f"{participant}: waiting for {window} to {side} {qty:,} {symbol}")
        tick_size = float(client.instrument(symbol).tick_size)
        execution = _run_or_tell(executor)
    summary = reports.summarise(execution, benchmark)
    _show(f"{chosen.name} {side} {qty:,} {symbol}, {window}", reports.lines(summary, tick_size))
    paths = reports.write_report(execution, summary, tick_size, report)
    click.echo(f"wrote {', '.join(map(str, paths))}")


def _nanoseconds(option: str, seconds: float) -> int:
    """Converts seconds to nanoseconds. Raises ConfigError for a time that is not an interval of a day."""
    from serl.exchange.errors import ConfigError

    if not 0 < seconds <= DAY_S:
        raise ConfigError(f"{option}: expected more than 0 and up to {DAY_S} s, got {seconds:g}; give seconds, like 30")
    return round(seconds * 1_000_000_000)


def _make_folder(folder: Path) -> None:
    """Creates the folder of the report before anything is traded. Raises ReportFileError if no file can be written there."""
    from serl.agents.pages.errors import ReportFileError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        got = "" if os.access(folder, os.W_OK) else "no permission to write"
    except OSError as error:
        got = error.strerror or str(error)
    if got:
        raise ReportFileError(f"--report {folder}: expected a writable folder, got {got}; give another")


def _run_or_tell(executor: "Executor") -> "Execution":
    """Runs the order. On an interruption or an error, prints what is filled so far, because no report will be written."""
    from serl.exchange.errors import SerlError

    try:
        return executor.run()
    except (KeyboardInterrupt, SerlError):
        filled_lots = sum(qty for _, _, qty, _ in executor.market.own_fills)
        click.echo(
            f"stopped early: {filled_lots:,} of {executor.order.qty_lots:,} lots are filled so far; the exchange cancels the open orders"
        )
        raise


def _forecasting(policy: "Policy", path: Path | None) -> "tuple[Forecaster, str] | None":
    """Loads the forecaster of a file; returns it and its name. Raises ConfigError unless it is the one whose forecasts the policy observes."""
    from serl.agents.execution.environment.forecasts import forecaster_name
    from serl.agents.signals.forecaster_file import read_forecaster
    from serl.exchange.errors import ConfigError

    forecaster = None if path is None else read_forecaster(path)
    expected = "" if policy.interface is None else policy.interface.forecaster
    name = "" if path is None else forecaster_name(path)
    if name and not expected:
        raise ConfigError(f"--forecaster: expected none, {policy.name} observes no forecasts, got {name}; leave it out")
    if name != expected:
        raise ConfigError(
            f"--forecaster: expected {expected}, whose forecasts {policy.name} observes, got {name or 'none'}; give that file"
        )
    return None if forecaster is None else (forecaster, name)


def _in_process_benchmark(
    day: "Day", order: "ParentOrder", policy: "Policy", mode: str, forecasting: "tuple[Forecaster, str] | None"
) -> "Benchmark":
    from serl.agents.execution.inprocess import replay_with, replay_with_twap
    from serl.agents.execution.policies.volume import Vwap
    from serl.agents.execution.report import Benchmark
    from serl.agents.realism.days import day_origin

    if isinstance(policy, Vwap):
        policy.curve.require_unseen([day])
    steps = replay_with(day, order, policy, mode, forecasting)
    return Benchmark(replay_with_twap(day, order), steps, day_origin(day))


def _show(title: str, rows: list[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, show_header=False)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


@click.command(epilog="Example: serl volume-curve monday.day tuesday.day -o curve.json")
@click.argument("days", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="JSON file to write.")
@click.option("--width", default=300.0, show_default=True, help="Width of a bucket in seconds.")
def volume_curve(days: tuple[Path, ...], output: Path, width: float) -> None:
    """Fit the volume curve of VWAP to training DAYS: day files other than the one to execute on."""
    from serl.agents.execution.policies.volume import VolumeCurve
    from serl.exchange.atomic_file import require_other_file
    from serl.history.day import read_day

    require_other_file(output, *days)
    _nanoseconds("--width", width)
    curve = VolumeCurve.fit([read_day(path) for path in days], width)
    curve.save(output)
    click.echo(
        f"wrote {output}: {len(curve.shares)} buckets of {width:g} s from {len(days)} day{'s' if len(days) > 1 else ''}"
    )
