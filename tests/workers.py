"""`--workers N`: tests in N forks of this process, which has imported and collected everything.

Each fork takes the next file of tests when it has finished one, and sends its reports here. pytest-xdist starts interpreters that each
import and collect everything again: ten seconds of processor time for each, where all tests of a run take ten minutes.
"""

import itertools
import multiprocessing
import os
import traceback
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

FORK = multiprocessing.get_context("fork")
NUMBER_BYTES = 4


class Queue:
    """The numbers 0 to count - 1 in a pipe: each is read by one process."""

    def __init__(self, count: int) -> None:
        self._reader, writer = os.pipe()
        with open(writer, "wb") as file:
            file.write(b"".join(number.to_bytes(NUMBER_BYTES, "little") for number in range(count)))

    def take(self) -> int | None:
        """The next number; None when there is none left."""
        taken = os.read(self._reader, NUMBER_BYTES)
        return int.from_bytes(taken, "little") if taken else None


class Sender:
    """A plugin of a worker: sends what the terminal has to know."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config, self._connection = config, connection

    def send(self, **message: Any) -> None:
        """Sends a message."""
        self._connection.send(message)

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        """Says which test is next."""
        self.send(started=nodeid, location=location)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Sends a report."""
        self.send(report=self._config.hook.pytest_report_to_serializable(config=self._config, report=report))


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option."""
    parser.addoption("--workers", type=int, default=0, metavar="N", help="run the tests in N forks of this process")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Runs all tests; without workers, pytest does."""
    count = session.config.option.workers
    if not count or session.config.option.collectonly or session.testsfailed:
        return None
    files = [list(items) for _, items in itertools.groupby(session.items, key=lambda item: item.path)]
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    queue = Queue(len(files))
    workers: dict[Connection, BaseProcess] = {}
    try:
        for number in range(count):
            ours, its = FORK.Pipe(duplex=False)
            process = FORK.Process(target=work, args=(session, files, queue, its, number))
            process.start()
            its.close()  # so that it is closed once the worker has ended
            workers[ours] = process
        gather(session, workers)
    finally:
        for process in workers.values():
            process.terminate()
            process.join()
    return True


def gather(session: pytest.Session, workers: dict[Connection, BaseProcess]) -> None:
    """Passes the workers' reports on until all have ended."""
    running: dict[Connection, dict[str, Any]] = {}
    listening = list(workers)
    while listening:
        for connection in wait(listening):
            assert isinstance(connection, Connection)
            try:
                message = connection.recv()
            except EOFError:
                listening.remove(connection)
                workers[connection].join()
                if connection in running:
                    report(session, lost(running[connection], workers[connection].exitcode))
                continue
            if "started" in message:
                running[connection] = message
            elif "ended" in message:
                running.pop(connection, None)
            elif "error" in message:
                raise RuntimeError(f"a worker failed:\n{message['error']}")
            else:
                report(session, session.config.hook.pytest_report_from_serializable(config=session.config, data=message["report"]))  # fmt: skip


def report(session: pytest.Session, done: pytest.TestReport) -> None:
    """Passes a report on. Raises what ends the session, after the first failure with -x."""
    session.config.hook.pytest_runtest_logreport(report=done)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)


def lost(running: dict[str, Any], status: int | None) -> pytest.TestReport:
    """The report of a test whose worker died."""
    location = tuple(running["location"])
    text = f"the worker ended with status {status} in this test; the tests after it in this file have not run"
    return pytest.TestReport(running["started"], location, {}, "failed", text, "call")


def work(session: pytest.Session, files: list[list[pytest.Item]], queue: Queue, connection: Connection, number: int) -> None:  # fmt: skip
    """Runs files of tests until there are none left."""
    sender = Sender(session.config, connection)
    try:
        prepare(session.config, number)
        session.config.pluginmanager.register(sender)
        run(session, files, queue)
        sender.send(ended=number)
    except KeyboardInterrupt:
        pass
    except BaseException:
        sender.send(error=traceback.format_exc())


def prepare(config: pytest.Config, number: int) -> None:
    """What of this process's state the workers must not share: the terminal, the files of captured output, the folder of temporary files."""
    plugins: Any = config.pluginmanager
    plugins.unregister(name="terminalreporter")
    capture = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.getbasetemp() / f"worker-{number}"
    factory._basetemp.mkdir()


def run(session: pytest.Session, files: list[list[pytest.Item]], queue: Queue) -> None:
    """Runs files of tests. The next file is taken before the last test of one, because fixtures live on that both need."""
    number = queue.take()
    while number is not None:
        items, number = files[number], None
        for item, following in itertools.zip_longest(items, items[1:]):
            if following is None and (number := queue.take()) is not None:
                following = files[number][0]
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                return
