"""Turns on a lockstep clock: the turn of another may take long; an exchange that dies or is restarted ends the wait."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from serl.clients import asynchronous
from serl.clients.asynchronous import AsyncExchange
from serl.clients.blocking import Exchange, connect
from serl.clients.errors import ExchangeUnreachable, SessionEnded
from serl.clients.session import Grant
from serl.exchange.wire import Kind
from serl.history.day import write_day
from serl.history.generate import OPEN_NS, SECOND_NS, generate_day
from tests.server_fixture import Served, start_exchange

SILENCE_S = 2.0
INTERVALS = {"silence_s": SILENCE_S, "heartbeat_s": 0.1}
DEAD = f"expected a heartbeat from tcp://.*, got nothing for {SILENCE_S:g} s; check that the exchange is running"


def lockstep(participants: int) -> dict[str, object]:
    return {"clock": {"kind": "lockstep", "participants": participants}, "intervals": INTERVALS}


def turns_until_error(endpoint: str, outcomes: list[object]) -> None:
    """A blocking client that does nothing in its turns."""
    with connect(endpoint, "blocking") as client:
        try:
            for time_ns in (1000, 2000, 3000):
                outcomes.append(client.turn(time_ns).time_ns)
        except ExchangeUnreachable as error:
            outcomes.append(str(error))


async def dies_in_a_turn(exchange: Served, outcomes: list[object]) -> None:
    """Two clients wait for a third, which takes twice the silence that would end them; then the exchange is killed in its next turn."""
    thread = threading.Thread(target=turns_until_error, args=(exchange.endpoint, outcomes))
    thread.start()
    ann = await asynchronous.connect(exchange.endpoint, "ann")
    bob = await asynchronous.connect(exchange.endpoint, "bob")
    async with ann, bob:
        await asyncio.gather(ann.turn(1000), bob.turn(1000))
        waiting = asyncio.create_task(ann.turn(2000))
        await takes_its_time(bob, 2 * SILENCE_S, waiting)
        await bob.turn(2000)
        assert (await waiting).time_ns == 2000
        waiting = asyncio.create_task(ann.turn(3000))
        await takes_its_time(bob, 0.3, waiting)
        os.kill(exchange.process.pid, signal.SIGKILL)
        with pytest.raises(ExchangeUnreachable, match=DEAD):
            await waiting
        bob.session.live = False  # there is nobody left to log out from
    await asyncio.to_thread(thread.join, 60)


async def takes_its_time(client: AsyncExchange, seconds: float, waiting: "asyncio.Task[Grant]") -> None:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        await client.wait(0.1)
        assert not waiting.done()


def test_a_long_turn_ends_nobody_and_a_dead_exchange_everybody(tmp_path: Path) -> None:
    outcomes: list[object] = []
    with start_exchange(symbols="DEMO", clock="lockstep", config=lockstep(3), folder=tmp_path) as exchange:
        asyncio.run(asyncio.wait_for(dies_in_a_turn(exchange, outcomes), 60))
    *turns, error = outcomes
    assert turns == [1000, 2000] and str(error).startswith("expected a heartbeat from")


@pytest.mark.long
def test_a_restart_ends_a_turn(tmp_path: Path) -> None:
    """The promise is gone, and with it the order in which commands arrive."""
    config, journal = lockstep(2), tmp_path / "journal"
    outcomes: list[Exception] = []
    with start_exchange(symbols="DEMO", clock="", config=config, folder=tmp_path, journal=journal) as exchange:
        endpoint = exchange.endpoint

        def wait() -> None:
            with connect(endpoint, "ann") as ann:
                ready.set()
                try:
                    ann.turn(1000)
                except SessionEnded as error:
                    outcomes.append(error)

        ready = threading.Event()
        thread = threading.Thread(target=wait)
        thread.start()
        assert ready.wait(60)
        exchange.kill()
        patient = {**config, "intervals": {**INTERVALS, "silence_s": 60.0}}
        with start_exchange(
            symbols="DEMO", clock="", config=patient, folder=tmp_path, journal=journal, endpoint=endpoint
        ):
            thread.join(60)
    (error,) = outcomes
    assert "restarted during a turn" in str(error)


@contextmanager
def ends_with_a_dead_exchange(exchange: Served, *words: str) -> Iterator[Exchange]:
    """Runs a command beside a client, which the block uses. Then the exchange is killed, and the command has to end with an error."""
    process = subprocess.Popen(
        [sys.executable, "-m", "serl", *words, "--connect", exchange.endpoint],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    with connect(exchange.endpoint, "looker") as looker:
        yield looker
        exchange.kill()
        looker.session.live = False
    output, _ = process.communicate(timeout=60)
    assert process.returncode != 0 and "expected a heartbeat from" in output and "Traceback" not in output


@pytest.mark.long
@pytest.mark.parametrize(
    "words", [("agents", "start", "--population", "small"), ("run", "examples/strategy.py", "--window", "09:31-12:00")]
)
@pytest.mark.parametrize("clock", ["lockstep", "scaled:60"])
def test_hosts_and_strategies_end_with_a_dead_exchange(words: tuple[str, ...], clock: str, tmp_path: Path) -> None:
    is_lockstep = clock == "lockstep"
    config = (
        {**lockstep(2), "clock": {"participants": 2, "start": "09:30"}} if is_lockstep else {"intervals": INTERVALS}
    )
    with (
        start_exchange(symbols="DEMO", clock=clock, config=config, folder=tmp_path) as exchange,
        ends_with_a_dead_exchange(exchange, *words) as looker,
    ):
        if is_lockstep:
            looker.turn(OPEN_NS + 90 * SECOND_NS)  # the other one waits for us afterwards
        else:
            while looker.ask(Kind.STATISTICS)[5]["sessions"] < 2:
                looker.wait(0.1)
            looker.wait(1.0)


@pytest.mark.long
def test_a_replay_ends_with_a_dead_exchange(tmp_path: Path) -> None:
    write_day(generate_day(1, end_ns=OPEN_NS + 600 * SECOND_NS), tmp_path / "generated.day")
    with (
        start_exchange(symbols="DEMO", clock="lockstep", config=lockstep(2), folder=tmp_path) as exchange,
        ends_with_a_dead_exchange(exchange, "replay", str(tmp_path / "generated.day")) as looker,
    ):
        looker.turn(OPEN_NS + 60 * SECOND_NS)


@pytest.mark.long
def test_pings_do_not_hide_that_nobody_replies(tmp_path: Path) -> None:
    """With a short `silence_s` the client sends PING more often than its patience with a reply ends."""
    with (
        start_exchange(symbols="DEMO", config={"intervals": INTERVALS}, folder=tmp_path) as exchange,
        connect(exchange.endpoint, "ann") as ann,
    ):
        ann.buy("DEMO", 1, 100)
        exchange.kill()
        with pytest.raises(ExchangeUnreachable, match="no reply from"):
            ann.buy("DEMO", 1, 100)
        ann.session.live = False
