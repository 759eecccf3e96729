"""`--workers N`: tests in N forks of this process, which has imported and collected everything.

Each fork takes file after file, and sends its reports here. pytest-xdist starts interpreters that each import and collect everything
again: ten seconds of processor time for each. `--meanwhile COMMAND` runs while the tests are collected, and has to end well before the first begins.
"""

import itertools
import multiprocessing
import os
import shlex
import signal
import subprocess
import traceback
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

STOP_S = 10
FORK = multiprocessing.get_context("fork")


class Schedule:
    """Which test is next, among all workers: the next one of the same file, for its fixtures; then a file that nobody has begun, then one with
    others."""

    def __init__(self, items: list[pytest.Item]) -> None:
        self.files = [list(same) for _, same in itertools.groupby(items, key=lambda item: item.path)]
        self._taken = FORK.Array("l", len(self.files))
        self._file: int | None = None

    def take(self) -> pytest.Item | None:
        """The next test of this process; None when there is none left."""
        with self._taken.get_lock():
            left = [len(items) - taken for items, taken in zip(self.files, self._taken.get_obj(), strict=True)]
            if self._file is None or not left[self._file]:
                self._file = self._choose(left)
            if self._file is None:
                return None
            self._taken[self._file] += 1
            return self.files[self._file][-left[self._file]]

    def _choose(self, left: list[int]) -> int | None:
        begun = self._taken.get_obj()
        unbegun = next((number for number, taken in enumerate(begun) if not taken), None)
        if unbegun is not None:
            return unbegun
        most = max(range(len(left)), key=left.__getitem__, default=None)
        return most if most is not None and left[most] else None


class Sender:
    """A plugin of a worker: sends what the terminal has to know."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config, self._connection = config, connection

    def send(self, kind: str, value: Any) -> None:
        """Sends a message."""
        self._connection.send((kind, value))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Says which test is next."""
        self.send("started", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Sends a report."""
        self.send("report", self._config.hook.pytest_report_to_serializable(config=self._config, report=report))


class Meanwhile:
    """A plugin: a command that runs while the tests are collected."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._process = subprocess.Popen(shlex.split(command))

    def wait(self) -> None:
        """Returns once the command has ended; ends the session if it failed."""
        if self._process.wait():
            pytest.exit(f"{self._command}: failed with status {self._process.returncode}", returncode=1)

    def pytest_unconfigure(self) -> None:
        """Ends the command with a session that ends early."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    parser.addoption("--workers", type=int, default=0, metavar="N", help="run the tests in N forks of this process")
    parser.addoption("--meanwhile", metavar="COMMAND", help="run this while the tests are collected")


def pytest_configure(config: pytest.Config) -> None:
    """Starts the command, whose output is not captured."""
    if command := config.option.meanwhile:
        with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            config.pluginmanager.register(Meanwhile(command), "meanwhile")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Runs all tests; without workers, pytest does."""
    if meanwhile := session.config.pluginmanager.getplugin("meanwhile"):
        meanwhile.wait()
    count = session.config.option.workers
    if not count or session.config.option.collectonly or session.testsfailed:
        return None
    session.config._tmp_path_factory.getbasetemp()  # pyrefly: ignore[missing-attribute]
    schedule = Schedule(session.items)
    workers: dict[Connection, BaseProcess] = {}
    try:
        for number in range(count):
            ours, its = FORK.Pipe(duplex=False)
            process = FORK.Process(target=work, args=(session, schedule, its, number))
            process.start()
            its.close()  # so that it is closed once the worker has ended
            workers[ours] = process
        gather(session, workers)
    finally:
        for process in workers.values():
            stop(process)
    return True


def stop(process: BaseProcess) -> None:
    """Interrupts a worker that still runs, which ends its fixtures."""
    if process.is_alive() and process.pid is not None:
        os.kill(process.pid, signal.SIGINT)
        process.join(STOP_S)
        process.terminate()
    process.join()


def gather(session: pytest.Session, workers: dict[Connection, BaseProcess]) -> None:
    """Passes the workers' reports on until all have ended. Tests that a worker took with it are failures."""
    to_do = {item.nodeid: item.location for item in session.items}
    running: dict[Connection, str] = {}
    listening = list(workers)
    while listening:
        for connection in wait(listening):
            assert isinstance(connection, Connection)
            kind, value = receive(connection)
            if kind == "started":
                running[connection] = value
            elif kind == "report":
                done = session.config.hook.pytest_report_from_serializable(config=session.config, data=value)
                if done.when == "teardown":
                    del to_do[done.nodeid], running[connection]
                report(session, done)
            elif kind == "error":
                raise RuntimeError(f"a worker failed:\n{value}")
            else:
                listening.remove(connection)
                workers[connection].join()
                if connection in running:
                    nodeid, status = running[connection], workers[connection].exitcode
                    report(session, failed(nodeid, to_do.pop(nodeid), f"its process ended with status {status}"))
    for nodeid, location in to_do.items():
        report(session, failed(nodeid, location, "has not run: the process that had taken it ended"))


def receive(connection: Connection) -> tuple[str, Any]:
    """The next message of a worker."""
    try:
        return connection.recv()
    except EOFError:
        return "ended", None


def report(session: pytest.Session, done: pytest.TestReport) -> None:
    """Passes a report on. Raises what ends the session, after the first failure with -x."""
    session.config.hook.pytest_runtest_logreport(report=done)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)


def failed(nodeid: str, location: tuple[str, int | None, str], text: str) -> pytest.TestReport:
    """The report of a test that its worker cannot send."""
    return pytest.TestReport(nodeid, location, {}, "failed", text, "call")


def work(session: pytest.Session, schedule: Schedule, connection: Connection, number: int) -> None:
    """A worker: runs tests until there are none left."""
    sender = Sender(session.config, connection)
    try:
        prepare(session.config, number)
        session.config.pluginmanager.register(sender)
        run(session, schedule)
    except KeyboardInterrupt:
        pass
    except BaseException:
        sender.send("error", traceback.format_exc())
    finally:
        session._setupstate.teardown_exact(None)


def prepare(config: pytest.Config, number: int) -> None:
    """What of this process's state the workers must not share: the terminal, the files of captured output, the folder of temporary files."""
    plugins: Any = config.pluginmanager
    plugins.unregister(name="terminalreporter")
    capture = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    factory: Any = config._tmp_path_factory  # pyrefly: ignore[missing-attribute]
    factory._basetemp = factory.getbasetemp() / f"worker-{number}"
    factory._basetemp.mkdir()


def run(session: pytest.Session, schedule: Schedule) -> None:
    """Runs tests. Each is told the next one, because fixtures live on that both need."""
    item = schedule.take()
    while item is not None and not session.shouldfail:
        following = schedule.take()
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following
