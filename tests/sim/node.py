"""The exchange process on its machine: started, run turn by turn, killed, cut from power, restarted."""

import itertools
import signal
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from random import Random
from typing import Any

import yaml

from serl.exchange import config, server
from serl.exchange.config import ExchangeConfig
from serl.exchange.core import Core
from serl.exchange.errors import SerlError
from serl.exchange.journal import commit, event_store, journal, meta, missed
from serl.exchange.market import Market
from serl.exchange.unread_replies import UnreadReplies
from tests.sim import threads
from tests.sim.disk import Disk, Image, Installed
from tests.sim.threads import Current, Process, Thread, pause


class _Threading:
    """`threading` for the journal."""

    Thread, Event, Lock = threads.Thread, threads.Event, threads.Lock


class _Connections:
    """In place of the exchange's limit of TCP descriptors, which a simulated network does not have: its turns are where others may run."""

    wait_s = 1.0

    def __init__(self, *arguments: object) -> None:
        del arguments

    def unread_replies(self, bytes_max: int) -> UnreadReplies:
        """Without effect: no connection has a descriptor."""
        return UnreadReplies(bytes_max, lambda descriptor: None)

    def check(self, *arguments: object) -> None:
        """Called once in each turn of the exchange's loop."""
        pause()


class _Secrets:
    """`secrets` from the seed."""

    random = Random(0)

    @classmethod
    def randbits(cls, bits: int) -> int:
        """As secrets.randbits."""
        return cls.random.getrandbits(bits)

    @classmethod
    def token_hex(cls, count: int) -> str:
        """As secrets.token_hex."""
        return cls.random.randbytes(count).hex()


class _Names:
    """Names of temporary files: counted."""

    def __init__(self) -> None:
        self.numbers = itertools.count()

    def __next__(self) -> str:
        return f"{next(self.numbers):08d}"


NAMES = _Names()


def install() -> None:
    """Replaces what an exchange has of its operating system besides clock, network and files."""
    for module in (journal, commit, event_store, missed):
        replaced: Any = module
        replaced.threading = _Threading
    for module, name, value in (
        (commit, "os", threads.PIPES),
        (meta, "secrets", _Secrets),
        (journal, "RESERVED_ROWS", 16),
        (config, "RESERVED_ROWS", 16),
        (server, "signal", _Signals()),
        (config, "yaml", _Yaml()),
        (server, "Connections", _Connections),
        (server, "raise_descriptor_limit", lambda count: count),
        (server, "kept_operator_token", lambda *arguments: nullcontext()),
        (tempfile, "_get_candidate_names", lambda: NAMES),
    ):
        setattr(module, name, value)
    _once(server, "warm_loop")
    _once(server, "warm_rule_book")
    Market.warm = staticmethod(lambda: None)  # pyrefly: ignore[method-assign]


def _once(module: Any, name: str) -> None:
    """Compiled code is loaded once in a process that starts exchanges by the thousand."""
    function = getattr(module, name)
    done: list[bool] = []

    def call() -> None:
        if not done:
            function()
            done.append(True)

    setattr(module, name, call)


class _Yaml:
    """`yaml` that reads the same text once."""

    YAMLError = yaml.YAMLError
    safe_load = staticmethod(cache(yaml.safe_load))


class _Signals:
    """`signal` without signals: a simulated process is killed in other ways."""

    SIGINT, SIGTERM, Signals = signal.SIGINT, signal.SIGTERM, signal.Signals

    @staticmethod
    def signal(number: int, function: object) -> object:
        """Keeps nothing."""
        return function


class Node:
    """One machine with a disk and, now and then, an exchange process."""

    def __init__(self, settings: ExchangeConfig, disk: Disk, random: Random) -> None:
        self.config, self.disk, self.random = settings, disk, random
        self.exchange: server.Exchange | None = None
        self.process: Process | None = None
        self.starts = 0
        self.wants_snapshot = False
        self.error: BaseException | None = None
        #: called with the core of each start, before the exchange does anything
        self.on_recovery: Callable[[Core], None] = lambda core: None
        _Secrets.random = Random(random.random())
        NAMES.numbers = itertools.count()
        Installed.disk = disk

    @property
    def is_running(self) -> bool:
        """Whether the process lives and serves."""
        return self.exchange is not None and self._main is not None and not self._main.greenlet.dead

    def start(self) -> None:
        """Starts a process. It serves from its next steps on, or ends with `error`."""
        self.starts += 1
        self.exchange, self.error = None, None
        self.process = Process(self.random)
        Current.process = self.process
        node = self

        class RecordedCore(Core):
            """Tells what each start has recovered."""

            def _recover(self) -> Any:
                recovery = super()._recover()
                self.recovery = recovery
                node.on_recovery(self)
                return recovery

        patched: Any = server
        patched.Core = RecordedCore
        try:
            self._main: Thread = Thread(self._serve, name="exchange")
            self._main.start()
        finally:
            Current.process = None

    def _serve(self) -> None:
        node = self

        class Operated(server.Exchange):
            """Serves an operator too, between two turns of its loop, as it does its admin socket."""

            def _serve_orders(self) -> int:
                if node.wants_snapshot:
                    node.wants_snapshot = False
                    self.core.save_snapshot()
                return super()._serve_orders()

        try:
            exchange = Operated(self.config)
            self.exchange = exchange
            exchange.run()
        except SerlError as error:
            self.error = error
        except OSError as error:
            self.error = error

    def step(self) -> bool:
        """Runs one of the process's threads until it waits. Returns whether the process lives."""
        assert self.process is not None
        if not self.process.is_dead:
            self.process.step()
        if self.process.is_dead or self._main.greenlet.dead:
            self.process.unwind()
            if self._main.error is not None and not isinstance(self._main.error, threads.Killed):
                raise self._main.error
            return False
        return True

    def kill(self) -> None:
        """SIGKILL."""
        image = self.disk.cached()
        self.process.unwind() if self.process else None
        self.disk.killed_image = image

    def image(self) -> Image:
        """What the ended process has left in the kernel."""
        image, self.disk.killed_image = self.disk.killed_image, None
        return self.disk.cached() if image is None else image
