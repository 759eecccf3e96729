"""Threads of a simulated process: greenlets that run in turn, each until it waits. Nothing happens at the same time, and the seed decides who is next."""

import os
import select
from collections.abc import Callable
from random import Random
from typing import Any

from greenlet import getcurrent, greenlet


class Killed(BaseException):
    """The process is dead: whatever it still tries to do fails with this."""


class Process:
    """The threads of one exchange process."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.is_dead = False
        self.threads: list[Thread] = []

    def step(self) -> None:
        """Lets one thread, chosen by the seed, run until it waits."""
        waiting = [each for each in self.threads if each.can_run()]
        if waiting:
            self.random.choice(waiting).resume()

    def unwind(self) -> None:
        """Ends all threads where they stand."""
        self.is_dead = True
        for each in self.threads:
            each.end()


class Current:
    """The process whose thread runs; the simulation itself is none."""

    process: Process | None = None
    thread: "Thread | None" = None


def check_alive() -> None:
    """Raises Killed in a dead process."""
    if Current.process is not None and Current.process.is_dead:
        raise Killed


def pause(until: Callable[[], bool] | None = None) -> None:
    """Lets others run; comes back once `until` holds, or whenever the seed says so."""
    thread = Current.thread
    if thread is None:
        return
    thread.until = until
    thread.greenlet.parent.switch()
    check_alive()


class Thread:
    """threading.Thread."""

    def __init__(self, target: Callable[[], object], name: str = "", daemon: bool = True) -> None:
        del daemon
        self.name = name
        self.until: Callable[[], bool] | None = None
        self.error: BaseException | None = None
        self._target = target
        process = Current.process
        assert process is not None
        self._process = process
        self.greenlet = greenlet(self._run)

    def start(self) -> None:
        """Makes it one of those that may run."""
        self._process.threads.append(self)

    def _run(self) -> None:
        try:
            self._target()
        except BaseException as error:
            self.error = error

    def can_run(self) -> bool:
        """Whether it is not over and what it waits for is there."""
        return not self.greenlet.dead and (self.until is None or self.until())

    def resume(self) -> None:
        """Runs it until it waits."""
        before = Current.process, Current.thread
        Current.process, Current.thread = self._process, self
        self.greenlet.parent = getcurrent()
        try:
            self.greenlet.switch()
        finally:
            Current.process, Current.thread = before

    def end(self) -> None:
        """Ends it by Killed where it stands."""
        for _ in range(100):
            if self.greenlet.dead or not self.greenlet:
                return
            self.resume()
        raise AssertionError(f"thread {self.name} does not end")

    def join(self) -> None:
        """Waits until it is over."""
        while not self.greenlet.dead:
            check_alive()
            if Current.thread is None:
                self.resume()
            else:
                pause(lambda: bool(self.greenlet.dead))


class Event:
    """threading.Event."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Wakes who waits."""
        self._is_set = True

    def clear(self) -> None:
        """Undoes `set`."""
        self._is_set = False

    def wait(self, timeout_s: float) -> bool:
        """Waits for `set`, or for simulated time to pass."""
        from tests.sim.clock import CLOCK

        end_ns = CLOCK.monotonic_ns + int(timeout_s * 1e9)
        pause(lambda: self._is_set or CLOCK.monotonic_ns >= end_ns)
        return self._is_set


class Lock:
    """threading.Lock."""

    def __init__(self) -> None:
        self._is_held = False

    def __enter__(self) -> None:
        while self._is_held:
            pause(lambda: not self._is_held)
        self._is_held = True

    def __exit__(self, *error: object) -> None:
        self._is_held = False


class _Os:
    """`os` for a module that reads a pipe until another thread writes to it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @staticmethod
    def read(descriptor: int, count: int) -> bytes:
        """Waits without holding up the other threads."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        pause(lambda: bool(poll.poll(0)))
        return os.read(descriptor, count)


PIPES = _Os()
