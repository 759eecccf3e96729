"""The host processes of a population and their progress."""

import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import click

from serl.agents.traders.errors import PopulationError
from serl.agents.traders.flow_file import clear_flow_files
from serl.agents.traders.population import PopulationConfig

HOSTS_MAX = 64
UNKNOWN = -(1 << 63)
"""The shared offset before the first host sets it."""
SHUTDOWN_S = 4.0
"""Time for a host to stop before it is killed."""
DEFERRED = signal.SIGINT, signal.SIGTERM


@dataclass(frozen=True)
class HostSettings:
    """Settings of the hosts of a population. All hosts have the same settings, except for their tokens."""

    population: PopulationConfig
    seed: int
    endpoint: str
    hosts: int
    until_ns: int
    """Time of the population's day at which it stops."""
    tokens: tuple[str, ...]
    """One per host."""
    curve: Path | None = None
    cancel_on_disconnect: bool = False
    flow: Path | None = None
    wait_for_open: bool = False

    def __post_init__(self) -> None:
        """Raises PopulationError if there are more hosts than traders, or than a population may have."""
        if self.hosts > (most := min(self.population.independent_traders, HOSTS_MAX)):
            raise PopulationError(
                f"--hosts: expected at most {most}{', one per trader' if most < HOSTS_MAX else ''}, got {self.hosts}; give fewer hosts"
            )


class HostProcesses:
    """The processes of a population's hosts. They compile immediately, and log in after `let_log_in`."""

    def __init__(self, settings: HostSettings) -> None:
        """Starts the processes. Raises FlowFileError if the flow folder cannot be written."""
        if settings.flow is not None:
            clear_flow_files(settings.flow, settings.population.name, HOSTS_MAX)
        self.settings = settings
        self.started_s = time.monotonic()
        context = multiprocessing.get_context("spawn")
        self._progress = shared_progress(context, settings.hosts)
        self._offset = context.Value("q", UNKNOWN)  # keep a reference: a host that starts later opens it by name
        self._connections: list[Connection] = []
        self.processes: list[BaseProcess] = []
        try:
            with starting_processes():
                for host in range(settings.hosts):
                    self._start(context, host)
        except BaseException:
            self.stop()
            raise

    def _start(self, context: Any, host: int) -> None:
        ours, its = context.Pipe()
        process = context.Process(target=_run_host, args=(self.settings, host, its, self._offset, self._progress))
        process.start()
        its.close()
        self._connections.append(ours)
        self.processes.append(process)

    def wait_until_compiled(self) -> None:
        """Waits until each host has compiled what it needs, or has ended."""
        for connection in self._connections:
            connection.poll(None)

    def let_log_in(self) -> None:
        """Lets the hosts log in, once the exchange is running."""
        for connection in self._connections:
            try:
                connection.send(None)
            except OSError:  # it has ended
                continue

    @property
    def running(self) -> bool:
        """Whether any host is still running."""
        return any(process.is_alive() for process in self.processes)

    @property
    def failed(self) -> list[int]:
        """Numbers of the hosts that have ended with an error."""
        return [
            host for host, process in enumerate(self.processes) if process.exitcode not in (None, 0, -signal.SIGTERM)
        ]

    @property
    def status(self) -> str:
        """The progress of the population, in one line."""
        return status_text(self.settings.population, self._progress, time.monotonic() - self.started_s)

    def stop(self) -> None:
        """Terminates the hosts that are still running, and waits until they have ended."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.join(SHUTDOWN_S)
            if process.exitcode is None:
                process.kill()
                process.join()
        for connection in self._connections:
            connection.close()


@contextmanager
def starting_processes() -> Iterator[None]:
    """Protects processes that are started in this context from SIGINT: Ctrl-C reaches all processes of a terminal, but these should end with this
    one. A signal to this process is delayed until they have received what it sends them, without which they end with a traceback. Use it in the
    main thread."""
    resource_tracker.ensure_running()  # it unblocks SIGINT when it starts
    came: list[int] = []
    # a mask alone is not enough: another thread would take the signal, and Python would handle it here
    handlers = {number: signal.signal(number, lambda number, _frame: came.append(number)) for number in DEFERRED}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def shared_progress(context: Any, hosts: int) -> Any:
    """Three numbers per host, without a lock, because a host that is terminated while it holds one would never release it."""
    return context.RawArray("q", 3 * hosts)


def status_text(population: PopulationConfig, progress: Any, elapsed_s: float) -> str:
    """Formats the progress of a population in one line. progress: from `shared_progress`."""
    from serl.exchange.config import time_of_day_text

    values = list(progress)
    time_ns, passed_ns, commands = min(values[::3]), min(values[1::3]), sum(values[2::3])
    if time_ns == 0:
        return f"{population.traders:,} traders are logging in or waiting for the exchange's clock"
    speed = passed_ns * 1e-9 / elapsed_s
    return f"{time_of_day_text(time_ns)} of the population's day, {commands:,} commands, {speed:,.1f} x real time"


def _run_host(settings: HostSettings, host: int, connection: Connection, offset: Any, progress: Any) -> None:
    """The main function of a host process."""
    from serl.garbage import collect_rarely

    collect_rarely()
    from serl.agents.traders.host import Host
    from serl.agents.traders.population import check_population
    from serl.exchange.errors import SerlError

    def report(running: Host) -> None:
        progress[3 * host : 3 * host + 3] = [running.time_ns, running.time_ns - running.start_ns, running.commands]

    try:
        population = check_population(settings.population.model_dump(), "population")  # imports its modules here too
        running = Host(
            population, settings.seed, settings.endpoint, host=host, hosts=settings.hosts,
            token=settings.tokens[host], cancel_on_disconnect=settings.cancel_on_disconnect, until_ns=settings.until_ns,
            flow=settings.flow, wait_for_open=settings.wait_for_open, share_offset=_share(offset), curve=settings.curve,
            before_login=lambda: _wait_to_log_in(connection),
        )  # fmt: skip
        try:
            running.run(report)
            report(running)
        finally:
            running.close()
    except SerlError as error:
        click.echo(f"error: host {host}: {error}", err=True)
        sys.exit(2)


def _wait_to_log_in(connection: Connection) -> None:
    """Reports that this host has compiled, and waits until it may log in. Exits if the parent process has ended."""
    try:
        connection.send(None)
        connection.recv()
    except (EOFError, OSError):
        sys.exit(2)


def _share(offset: Any) -> Callable[[int], int]:
    """Returns a function that shares the clock offset of the first host with all hosts."""

    def share(offset_ns: int) -> int:
        with offset.get_lock():
            if offset.value == UNKNOWN:
                offset.value = offset_ns
            return int(offset.value)

    return share
