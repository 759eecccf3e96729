"""`serl agents start`: a population trades on a served exchange, in host processes."""

import multiprocessing
import signal
import time
from pathlib import Path
from typing import Any

import click

from serl.agents.traders.shipped import POPULATION
from serl.exchange.cli_login import curve_option, token_options

HOSTS_MAX = 64
UNKNOWN = -(1 << 63)
"""The shared offset before the first host sets it."""


@click.group(epilog="Example: serl agents start --population liquid")
def agents() -> None:
    """Run populations of traders on a served exchange."""


@agents.command(epilog="Example: serl agents start --population small --hosts 2")
@click.option(
    "--population", type=POPULATION, required=True, help="A YAML file, or the name of one that comes with serl."
)
@click.option(
    "--hosts", type=click.IntRange(1, HOSTS_MAX), default=1, show_default=True, help="Number of host processes."
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--connect", default="tcp://127.0.0.1:5570", show_default=True, help="The exchange's orders endpoint.")
@curve_option
@token_options("Token of the participants traders-NAME-0, traders-NAME-1, ...")
@click.option("--until", default=None, help="Time of the population's day to stop at; its close by default.")
@click.option(
    "--wait-for-open",
    is_flag=True,
    help="On a scaled clock before the population's open: wait for it instead of starting the day at once.",
)
@click.option(
    "--flow",
    type=click.Path(path_type=Path),
    help="Folder for counts of what each kind of trader sends, for `serl dashboard --flow`.",
)
@click.option("--cancel-on-disconnect", is_flag=True, help="Cancel the orders of a host that dies.")
def start(
    population: str, hosts: int, seed: int, connect: str, curve: Path | None, token: str, until: str | None, wait_for_open: bool,
    flow: Path | None, cancel_on_disconnect: bool,
) -> None:  # fmt: skip
    """Start the hosts; they stop at the population's close, at --until, or with Ctrl-C.

    On a live exchange the population's day starts at once. On a scaled clock within the day, the traders join at the exchange's time of
    day; outside it the day starts at once. In lockstep the day is the exchange's.

    If a host dies, the others continue and the exit status reports the failure.
    """
    from rich.console import Console
    from rich.status import Status

    from serl.agents.traders.errors import PopulationError, SimulationError
    from serl.agents.traders.flow_file import clear_flow_files
    from serl.agents.traders.population import load_population
    from serl.exchange.config import time_of_day_ns

    config = load_population(population)
    until_ns = config.close_ns if until is None else time_of_day_ns(until)
    if until_ns <= config.open_ns:
        raise PopulationError(f"--until: expected a time after {config.open}, got {until}; give a later one")
    if hosts > config.traders:
        raise PopulationError(
            f"--hosts: expected at most {config.traders}, one per trader, got {hosts}; give fewer hosts"
        )
    if flow is not None:
        clear_flow_files(flow, config.name, HOSTS_MAX)
    context = multiprocessing.get_context("spawn")
    progress = _shared_progress(context, hosts)
    offset = context.Value("q", UNKNOWN)
    workers = [
        context.Process(
            target=_run_host,
            args=(
                config.model_dump(),
                seed,
                connect,
                curve,
                token,
                host,
                hosts,
                until_ns,
                cancel_on_disconnect,
                flow,
                wait_for_open,
                offset,
                progress,
            ),
        )
        for host in range(hosts)
    ]
    started_s = time.monotonic()
    for worker in workers:
        worker.start()
    try:
        with Status(f"{config.traders:,} traders in {hosts} hosts are logging in", console=Console()) as status:
            while any(worker.is_alive() for worker in workers):
                time.sleep(0.2)
                status.update(_status_text(config, progress, time.monotonic() - started_s))
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()
        click.echo(_status_text(config, progress, time.monotonic() - started_s))
    failed = [str(host) for host, worker in enumerate(workers) if worker.exitcode not in (0, -signal.SIGTERM)]
    if failed:
        raise SimulationError(f"expected {hosts} hosts to finish, got an error in host {', '.join(failed)}; see above")


def _shared_progress(context: Any, hosts: int) -> Any:
    """Three numbers per host, without a lock: a host that is terminated while it held one would never return it."""
    return context.RawArray("q", 3 * hosts)


def _status_text(config: Any, progress: Any, elapsed_s: float) -> str:
    from serl.exchange.config import time_of_day_text

    values = list(progress)
    time_ns, passed_ns, commands = min(values[::3]), min(values[1::3]), sum(values[2::3])
    if time_ns == 0:
        return f"{config.traders:,} traders are logging in or waiting for the exchange's clock"
    speed = passed_ns * 1e-9 / elapsed_s
    return f"{time_of_day_text(time_ns)} of the population's day, {commands:,} commands, {speed:,.1f} x real time"


def _run_host(
    values: dict[str, Any], seed: int, endpoint: str, curve: Path | None, token: str, host: int, hosts: int, until_ns: int,
    cancel: bool, flow: Path | None, wait_for_open: bool, offset: Any, progress: Any,
) -> None:  # fmt: skip
    """The main function of a host process."""
    import sys

    from serl.garbage import collect_rarely

    collect_rarely()
    from serl.agents.traders.host import Host
    from serl.agents.traders.population import check_population
    from serl.exchange.errors import SerlError

    def report(running: Host) -> None:
        progress[3 * host : 3 * host + 3] = [running.time_ns, running.time_ns - running.start_ns, running.commands]

    def share_offset(offset_ns: int) -> int:
        with offset.get_lock():
            if offset.value == UNKNOWN:
                offset.value = offset_ns
            return int(offset.value)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent receives Ctrl-C too and terminates this process
    try:
        running = Host(
            check_population(values, "population"), seed, endpoint, host=host, hosts=hosts, token=token,
            cancel_on_disconnect=cancel, until_ns=until_ns, flow=flow, wait_for_open=wait_for_open,
            share_offset=share_offset, curve=curve,
        )  # fmt: skip
        try:
            running.run(report)
            report(running)
        finally:
            running.close()
    except SerlError as error:
        click.echo(f"error: host {host}: {error}", err=True)
        sys.exit(2)
