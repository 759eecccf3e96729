"""`serl agents start`: a population trades on a served exchange, in host processes."""

import time
from pathlib import Path

import click

from serl.agents.traders.builtin import FORECASTER, POPULATION
from serl.exchange.cli_login import curve_option, token_options
from serl.ranges import SEED_MAX

POLL_S = 0.2


@click.group(epilog="Example: serl agents start --population liquid")
def agents() -> None:
    """Run populations of traders on a served exchange."""


@agents.command(epilog="Example: serl agents start --population small --hosts 2")
@click.option(
    "--population", type=POPULATION, required=True, help="A YAML file, or the name of one that comes with serl."
)
@click.option("--hosts", type=click.IntRange(1), default=1, show_default=True, help="Number of host processes.")
@click.option("--seed", type=click.IntRange(0, SEED_MAX), default=1, show_default=True)
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
    help="Folder for counts of what each kind of trader sends and holds, for `serl dashboard --flow`.",
)
@FORECASTER
@click.option("--cancel-on-disconnect", is_flag=True, help="Cancel the orders of a host that dies.")
def start(
    population: str, hosts: int, seed: int, connect: str, curve: Path | None, token: str, until: str | None, wait_for_open: bool,
    flow: Path | None, forecaster: Path | None, cancel_on_disconnect: bool,
) -> None:  # fmt: skip
    """Start the hosts; they stop at the population's close, at --until, or with Ctrl-C.

    On a live exchange the population's day starts at once. On a scaled clock within the day, the traders join at the exchange's time of
    day; outside it the day starts at once. In lockstep the day is the exchange's.

    If a host dies, the others continue and the exit status reports the failure.
    """
    from rich.console import Console
    from rich.status import Status

    from serl.agents.traders.errors import PopulationError, SimulationError
    from serl.agents.traders.forecasters import load_with_forecaster
    from serl.agents.traders.host_processes import HostProcesses, HostSettings
    from serl.exchange.config import time_of_day_ns

    config = load_with_forecaster(population, forecaster)
    until_ns = config.close_ns if until is None else time_of_day_ns(until, "--until")
    if until_ns <= config.open_ns:
        raise PopulationError(f"--until: expected a time after {config.open}, got {until}; give a later one")
    workers = HostProcesses(
        HostSettings(
            config, seed, connect, hosts, until_ns, (token,) * hosts, curve, cancel_on_disconnect, flow, wait_for_open
        )
    )
    try:
        workers.let_log_in()
        with Status(f"{config.traders:,} traders in {hosts} hosts are logging in", console=Console()) as status:
            while workers.running:
                time.sleep(POLL_S)
                status.update(workers.status)
    finally:
        workers.stop()
        click.echo(workers.status)
    if failed := workers.failed:
        raise SimulationError(
            f"expected {hosts} hosts to finish, got an error in host {', '.join(map(str, failed))}; see above"
        )
