"""A run: one process hosts all minds, each on a session of its own, until the end of their hours, a signal, or their budgets."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from serl.clients.asynchronous import AsyncExchange, connect
from serl.clients.errors import LoginRefused
from serl.exchange.errors import SerlError
from serl.exchange.open_files import raise_open_files
from serl.minds.anonymous import Disguise
from serl.minds.config import MindsConfig
from serl.minds.errors import FAILED, MindsConfigError, MindsError
from serl.minds.events import EventLine, EventSource, FileEvents, MergedEvents, read_event_lines
from serl.minds.files import start_row
from serl.minds.forum import Forum
from serl.minds.market_view import Tape
from serl.minds.mind import Mind
from serl.minds.model_calls import ModelCalls
from serl.minds.news_events import NewsEvents
from serl.minds.run_state import RunState
from serl.minds.schedule import Schedule, exchange_time_ns, schedule_of, wait_until
from serl.minds.statistics import statistics_of
from serl.researcher.llm.client import Client

FILES_PER_MIND, FILES_BESIDE = 16, 256
"""Number of file descriptors for the sockets of a session, rounded up, and for everything else."""
LOGIN_S_MAX, LOGIN_PAUSE_S = 30.0, 0.2
"""How long a mind's login is retried while the exchange admits no more names, and the pause between tries."""
FINAL_S_MAX = 10.0
"""Longest wait for the last balances of all minds."""


@dataclass(frozen=True)
class RunOptions:
    """Where the minds trade, and callbacks for progress and messages."""

    endpoint: str
    token: str = ""
    curve: Path | None = None
    say: Callable[[str], None] = print
    log: Callable[[dict[str, object]], None] = lambda row: None
    on_progress: Callable[[int, int], None] = lambda time_ns, decisions: None
    """Called after each decision with the exchange's time of day and the number of decisions so far."""


async def run_minds(config: MindsConfig, folder: Path, model: Client, options: RunOptions) -> dict[str, Any]:
    """Runs the minds and returns their statistics. folder: the folder that the path of the events is relative to. SIGINT and SIGTERM end the run early.

    A mind whose session fails stops trading (`ended` begins with FAILED); the others continue. Raises MindsConfigError or MindsError before
    anybody trades, and what `connect` raises.
    """
    stop = asyncio.Event()
    raise_open_files(sum(persona.count for persona in config.personas) * FILES_PER_MIND + FILES_BESIDE)
    async with AsyncExitStack() as sessions:
        sessions.enter_context(_set_on_signals(stop))
        clients = await _log_in(config, options, sessions, stop)
        first = clients[0]
        midnight_ns = int(first.session.clock[3])
        schedule = schedule_of(config, await exchange_time_ns(first), midnight_ns, lockstep=first.core.lockstep)
        shared = _shared(config, model, options, first, schedule)
        lines = _event_lines(config, folder, first)
        sources = [await _events(config, lines, client, schedule) for client in clients]
        minds = _minds(config, clients, sources, shared, schedule)
        shared.log(start_row(config, model.endpoint.model, shared.disguise, schedule))
        tasks = [asyncio.create_task(_trade(mind, schedule, minds, options), name=mind.name) for mind in minds]
        stopped = await _until_done(tasks, stop)
        wealth = await asyncio.gather(*(_final_wealth(mind, schedule) for mind in minds))
        return statistics_of(minds, wealth, schedule, stopped=stopped)


@contextmanager
def _set_on_signals(stop: asyncio.Event) -> Iterator[None]:
    """Makes SIGINT and SIGTERM set an event instead of what they did before. Has no effect outside the main thread, which alone gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number, former in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, former)


async def _log_in(
    config: MindsConfig, options: RunOptions, sessions: AsyncExitStack, stop: asyncio.Event
) -> list[AsyncExchange]:
    """One session per mind, in a fixed order: at equal times, lockstep executes commands in the order of the first logins."""
    clients = []
    for persona in config.personas:
        for number in range(persona.count):
            client = await _connect(f"{persona.name}-{number}", options, stop)
            clients.append(await sessions.enter_async_context(client))
    return clients


async def _connect(name: str, options: RunOptions, stop: asyncio.Event) -> AsyncExchange:
    """Logs in. The exchange admits a limited number of new names per second (`new_names_per_s_max`); beyond it, the login is retried."""
    deadline_s = time.monotonic() + LOGIN_S_MAX
    while True:
        if stop.is_set():  # hundreds of logins take a minute
            raise MindsError(f"stopped before {name} had logged in; nobody has traded")
        try:
            return await connect(
                options.endpoint, name, options.token, curve=options.curve, cancel_on_disconnect=True
            )  # fmt: skip
        except LoginRefused as error:
            if error.code != "rate" or time.monotonic() > deadline_s:
                raise
            await asyncio.sleep(LOGIN_PAUSE_S)


def _shared(
    config: MindsConfig, model: Client, options: RunOptions, client: AsyncExchange, schedule: Schedule
) -> RunState:  # fmt: skip
    listed = list(client.session.instruments)
    symbols = list(config.symbols) or listed
    if unknown := sorted(set(symbols) - set(listed)):
        raise MindsConfigError(
            f"symbols: expected symbols of the exchange ({', '.join(listed)}), got {', '.join(unknown)}; correct them"
        )
    named = {*config.prices, *config.aliases, *(symbol for persona in config.personas for symbol in persona.shares)}
    if idle := sorted(named - set(symbols)):
        raise MindsConfigError(
            f"prices, aliases, shares: expected symbols that the minds trade ({', '.join(symbols)}), got {', '.join(idle)}; "
            "remove them, or add them to symbols"
        )
    disguise = Disguise(symbols, config.aliases, schedule.midnight_ns, config.first_date, active=config.anonymous)
    return RunState(
        config, symbols, disguise, Forum(), {symbol: Tape() for symbol in symbols},
        ModelCalls(
            model, config.budget, temperature=config.temperature, answer_tokens=config.answer_tokens, parallel=config.parallel
        ),
        options.say, options.log,
    )  # fmt: skip


def _event_lines(config: MindsConfig, folder: Path, client: AsyncExchange) -> Sequence[EventLine]:
    return [] if config.events is None else read_event_lines(folder / config.events, list(client.session.instruments))


async def _events(
    config: MindsConfig, lines: Sequence[EventLine], client: AsyncExchange, schedule: Schedule
) -> EventSource:
    """The events of one mind: those of the file, and the news that its session gets from now on."""
    sources: list[EventSource] = [FileEvents(lines, schedule.start_ns, schedule.midnight_ns)]
    if config.news_max:
        news = NewsEvents(client, config)
        await news.subscribe()
        sources.append(news)
    return MergedEvents(sources)


def _minds(
    config: MindsConfig, clients: Sequence[AsyncExchange], sources: Sequence[EventSource], shared: RunState, schedule: Schedule
) -> list[Mind]:  # fmt: skip
    personas = [persona for persona in config.personas for _ in range(persona.count)]
    return [
        Mind(number, persona, client, events, shared, schedule.start_ns)
        for number, (persona, client, events) in enumerate(zip(personas, clients, sources, strict=True))
    ]


async def _trade(mind: Mind, schedule: Schedule, minds: Sequence[Mind], options: RunOptions) -> None:
    """Lets a mind decide at each of its times that has not passed yet. Times can pass if the clock is faster than the model."""
    try:
        now_ns = 0
        for time_ns in schedule.times(mind.persona.every):
            if time_ns <= now_ns or mind.ended:
                continue
            now_ns = await wait_until(mind.client, time_ns)
            if not schedule.is_open(now_ns):  # the run began between two days, or the clock was set
                continue
            await mind.decide(now_ns)
            options.on_progress(now_ns - schedule.midnight_ns, sum(one.counts.decisions for one in minds))
            if not mind.client.core.lockstep:
                now_ns = await exchange_time_ns(mind.client)
        if not mind.ended or mind.client.core.lockstep:
            await wait_until(mind.client, schedule.end_ns)
    except SerlError as error:
        mind.ended = f"{FAILED}{error}"
        options.say(f"{mind.name} trades no more: {error}")
        with suppress(SerlError):  # in lockstep, the others would otherwise wait for its session
            await mind.client.close()


async def _until_done(tasks: Sequence[asyncio.Task[None]], stop: asyncio.Event) -> bool:
    """Waits for all tasks, or cancels them when `stop` is set; returns whether it was set. Raises what a task raises."""
    stopping = asyncio.create_task(stop.wait())
    running: set[asyncio.Task[Any]] = set(tasks)
    while running and not stopping.done():
        await asyncio.wait({*running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finished = {task for task in running if task.done()}
        running -= finished
        if failed := [task for task in finished if task.exception() is not None]:
            for task in (*running, stopping):  # `stopping` too: it would wait for a signal
                task.cancel()
            await asyncio.wait({*running, stopping})
            failed[0].result()
    for task in (*running, stopping):
        task.cancel()
    await asyncio.gather(*running, stopping, return_exceptions=True)
    return stop.is_set()


async def _final_wealth(mind: Mind, schedule: Schedule) -> Decimal | None:
    """Wealth at the end according to the exchange's balances; None if the exchange does not answer."""
    if mind.ended.startswith(FAILED):
        return None
    try:
        async with asyncio.timeout(FINAL_S_MAX):
            now_ns = min(await exchange_time_ns(mind.client), schedule.end_ns)
            return await mind.last_look(now_ns)
    except (SerlError, TimeoutError):
        return None
