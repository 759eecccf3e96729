"""Tasks of one asyncio client: what ends all of them, also those that are woken already or run at that moment."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from serl.clients.asynchronous import AsyncExchange, connect
from serl.clients.errors import RequestRejected, SessionEnded
from serl.exchange.wire import Kind
from tests.clients.stand_in import StandIn, stand_in


def with_client(test: Callable[[StandIn, AsyncExchange], Awaitable[None]]) -> None:
    """Runs a test with a client that is logged in."""

    async def run() -> None:
        with stand_in() as exchange:
            login = asyncio.create_task(connect(exchange.endpoint, "ann"))
            assert (await asyncio.to_thread(exchange.arrived))[0] == Kind.HELLO
            exchange.welcome()
            client = await login
            try:
                await test(exchange, client)
            finally:
                await client.close()

    asyncio.run(run())


async def errors_of(tasks: list["asyncio.Task[Any]"]) -> list[BaseException | None]:
    """What tasks raised."""
    done, running = await asyncio.wait(tasks, timeout=3)
    assert not running, "a call hangs"
    return [task.exception() for task in tasks if task in done]


def test_close_ends_tasks_that_were_woken_in_the_same_moment() -> None:
    async def test(exchange: StandIn, client: AsyncExchange) -> None:
        tasks = [asyncio.create_task(client.trades("DEMO")) for _ in range(3)]
        await asyncio.sleep(0.1)
        client._arrivals._wake()
        await client.close()
        assert [type(error) for error in await errors_of(tasks)] == [SessionEnded] * 3
        with pytest.raises(SessionEnded, match="the client was closed"):
            await client.trades("DEMO")

    with_client(test)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ((Kind.GOODBYE, "shutdown", "the exchange stops"), SessionEnded),
        ((Kind.ERROR, "malformed", "a message"), RequestRejected),
    ],
)
def test_an_error_that_one_task_receives_is_raised_in_all(message: tuple[Any, ...], error: type[Exception]) -> None:
    async def test(exchange: StandIn, client: AsyncExchange) -> None:
        tasks = [asyncio.create_task(client.buy("DEMO", 1, 10)) for _ in range(2)]
        await asyncio.sleep(0)
        exchange.send(*message)
        client.core.orders.poll(5000)  # the event loop is busy while it arrives
        with pytest.raises(error):
            await client.wait(0)
        assert [type(each) for each in await errors_of(tasks)] == [error] * 2
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.trades("DEMO"), 0.2)  # later calls are not concerned

    with_client(test)


def test_an_error_that_the_event_loop_receives_is_raised_once_in_each() -> None:
    async def test(exchange: StandIn, client: AsyncExchange) -> None:
        tasks = [asyncio.create_task(client.trades("DEMO")) for _ in range(3)]
        await asyncio.sleep(0.1)
        exchange.send(Kind.ERROR, "malformed", "a message")
        assert [type(each) for each in await errors_of(tasks)] == [RequestRejected] * 3
        assert await client.wait(0.2) is None

    with_client(test)


def keep_busy(seconds: float) -> None:
    """Lets messages arrive while the event loop does not receive."""
    time.sleep(seconds)


async def texts_of_refusals(client: AsyncExchange, count: int) -> list[str]:
    """The texts of the next refusals that `wait` raises, at most `count`."""
    texts: list[str] = []
    for _ in range(count):
        try:
            await client.wait(0.3)
        except RequestRejected as error:
            texts.append(str(error))
    return texts


@pytest.mark.parametrize("is_waiting", [True, False])
def test_refusals_that_arrive_before_a_task_runs_are_all_raised(is_waiting: bool) -> None:
    """Both the signal of the socket and a message that was sent let the event loop receive: the second refusal took the place of the first."""

    async def test(exchange: StandIn, client: AsyncExchange) -> None:
        reading = asyncio.create_task(texts_of_refusals(client, 4))
        if is_waiting:
            await asyncio.sleep(0)
        for number in range(4):
            exchange.send(Kind.ERROR, "throttled", f"message {number}")
            client.core.orders.poll(5000)
            client._arrivals._receive()
        assert await reading == [f"throttled: message {number}" for number in range(4)]

    with_client(test)


def test_a_refusal_that_a_task_receives_does_not_replace_that_of_the_others() -> None:
    async def test(exchange: StandIn, client: AsyncExchange) -> None:
        reading = asyncio.create_task(texts_of_refusals(client, 2))
        await asyncio.sleep(0)
        for number in range(2):
            exchange.send(Kind.ERROR, "throttled", f"message {number}")
        keep_busy(0.1)
        client._arrivals._receive()
        with pytest.raises(RequestRejected):
            await client.wait(0.3)  # it looks itself before it waits
        assert await reading == [f"throttled: message {number}" for number in range(2)]

    with_client(test)


def test_a_task_that_never_waits_gets_a_refusal_and_what_follows_it() -> None:
    async def test(exchange: StandIn, client: AsyncExchange) -> None:
        exchange.send(Kind.ERROR, "throttled", "a message")
        exchange.report(1, 1)
        await asyncio.sleep(0.2)  # the event loop receives meanwhile
        with pytest.raises(RequestRejected):
            await client.wait(0)
        assert await client.wait(0) is not None

    with_client(test)


@pytest.mark.parametrize("others", [0, 1])
def test_a_refusal_outlives_the_task_that_was_about_to_raise_it(others: int) -> None:
    """As with `asyncio.wait_for`, whose time passes in the same moment."""

    async def test(exchange: StandIn, client: AsyncExchange) -> None:
        ending = asyncio.create_task(client.wait(3))
        reading = [asyncio.create_task(texts_of_refusals(client, 1)) for _ in range(others)]
        await asyncio.sleep(0)
        exchange.send(Kind.ERROR, "throttled", "a message")
        keep_busy(0.1)
        client._arrivals._receive()
        ending.cancel()
        found = await asyncio.gather(*reading)
        assert [*found, await texts_of_refusals(client, 1)] == [["throttled: a message"], []][: 1 + others]

    with_client(test)


@pytest.mark.parametrize("is_raised", [True, False])
def test_a_client_that_does_nothing_after_a_refusal_stays_logged_in(is_raised: bool) -> None:
    """It received nothing and sent no PINGs until its next call, and the exchange ended its session."""

    async def test(exchange: StandIn, client: AsyncExchange) -> None:
        client.session.limits["silence_s"] = 0.3
        for number in range(2):
            exchange.send(Kind.ERROR, "throttled", f"message {number}")
        keep_busy(0.1)
        found = await texts_of_refusals(client, 1 if is_raised else 0)
        for _ in range(5):
            await asyncio.sleep(0.1)
            exchange.send(Kind.HEARTBEAT, 0)
        assert await asyncio.to_thread(exchange.arrived, "orders", 200) == [Kind.PING, 0]
        assert found + await texts_of_refusals(client, 3) == ["throttled: message 0", "throttled: message 1"]

    with_client(test)


def test_the_end_of_a_session_is_raised_in_every_task_also_in_those_that_did_not_wait() -> None:
    """Only the first call raised it: another task waited for reports for ever."""

    async def test(exchange: StandIn, client: AsyncExchange) -> None:
        exchange.report(1, 1)
        exchange.send(Kind.GOODBYE, "shutdown", "the exchange stops")
        await asyncio.sleep(0.2)  # the event loop receives meanwhile
        with pytest.raises(SessionEnded):
            await client.wait(0)
        assert await client.wait(0) is not None, "the report came before"
        for call in (client.wait, client.wait_all):
            with pytest.raises(SessionEnded):
                await call(0.1)

    with_client(test)


def test_a_client_that_waits_for_nothing_looks_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(exchange: StandIn, client: AsyncExchange) -> None:
        receive, times = client.core.receive, []
        monkeypatch.setattr(client.core, "receive", lambda: (times.append(time.monotonic()), receive()))
        assert await client.wait(0.9) is None
        assert len(times) <= 6, f"{len(times)} times within .9 s"

    with_client(test)


@pytest.mark.parametrize("call", [lambda client: client.wait(1), lambda client: client.turn(1)])
def test_an_idle_client_pings_within_half_of_a_short_silence(call: Callable[[AsyncExchange], Awaitable[Any]]) -> None:
    async def test(exchange: StandIn, client: AsyncExchange) -> None:
        client.session.limits["silence_s"] = 0.6
        waiting = asyncio.ensure_future(call(client))
        kinds = [await asyncio.to_thread(exchange.arrived, "orders", 400) for _ in range(2)]
        assert [Kind.PING, 0] in kinds
        waiting.cancel()

    with_client(test)


def test_a_message_that_arrives_before_a_ping_is_not_overlooked(monkeypatch: pytest.MonkeyPatch) -> None:
    """libzmq takes the socket's signal while the client sends."""

    async def test(exchange: StandIn, client: AsyncExchange) -> None:
        passes = iter((False, True))  # the event loop's, the task's

        def ping_late() -> None:
            if not next(passes, False):
                return
            exchange.send(Kind.ERROR, "malformed", "a message")
            client.core.orders.poll(5000)
            client.core.ping()

        waiting = asyncio.create_task(client.wait(3))
        await asyncio.sleep(0.1)
        monkeypatch.setattr(client.core, "_query_news", ping_late)
        client.core.ping()
        began_s = time.monotonic()
        assert [type(error) for error in await errors_of([waiting])] == [RequestRejected]
        assert time.monotonic() - began_s < 0.5

    with_client(test)


def test_a_message_that_arrives_while_the_event_loop_is_busy_is_not_overlooked() -> None:
    """As when a gateway sends PING on its own while a task waits for reports."""

    async def test(exchange: StandIn, client: AsyncExchange) -> None:
        waiting = asyncio.create_task(client.wait(3))
        await asyncio.sleep(0.1)
        exchange.report(1, 1)
        client.core.orders.poll(5000)
        client.core.ping()
        done, _ = await asyncio.wait([waiting], timeout=0.5)
        assert done, "the report is late"

    with_client(test)
