"""A host process: runs thousands of traders in one session of a served exchange."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from serl.agents.traders.build import Crowd
from serl.agents.traders.engine import NEVER, next_wake_ns
from serl.agents.traders.errors import SimulationError
from serl.agents.traders.flow_file import FlowFile, flow_file_path
from serl.agents.traders.host_session import HostSession
from serl.agents.traders.hosting import BOOK_FULL, FINISHED, TRADERS_FULL, collect_commands, run_traders
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.timeline import Timeline, day_offset_ns
from serl.agents.traders.value_news import ValueNews
from serl.clients.blocking import resume
from serl.clients.clock import RemoteClock
from serl.clients.values import FeedMessage
from serl.exchange.config import time_of_day_text
from serl.exchange.gateway.accept import END_NS
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.news import LIMIT, News
from serl.exchange.precompile import warm_rule_book
from serl.exchange.records import COLLECTING, COMMAND, EVENT, CommandKind, Phase, Rows, command
from serl.exchange.wire import FeedKind, Kind

BATCH_ROWS = 512
SUBSCRIBE_TIMEOUT_S = 10.0
SCRATCH_ROWS = 64
POLL_S = 0.001


class Host:
    """Runs traders host, host + hosts, host + 2 hosts ... of a population in one session."""

    def __init__(
        self, population: PopulationConfig, seed: int, endpoint: str, *, host: int = 0, hosts: int = 1, token: str = "",
        cancel_on_disconnect: bool = False, until_ns: int | None = None, flow: Path | None = None,
        wait_for_open: bool = False, share_offset: Callable[[int], int] = int, curve: Path | None = None,
        before_login: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """until_ns: in population time. share_offset: returns the clock offset of the population's first host to all hosts. before_login: called
        once everything is compiled."""
        self.population = population
        self._wait_for_open, self._share_offset = wait_for_open, share_offset
        self._timeline = Timeline()
        self.until_ns = population.close_ns if until_ns is None else until_ns
        self.crowd = Crowd(population, seed, host, hosts)
        self._values = ValueNews(population, self.crowd.traders.value)
        agents = self.crowd.traders.agents
        self._senders = ~np.array([group.is_everywhere for group in population.groups])[agents["kind"]]
        """Which traders may send: all but forecasters, which wake up ten times a second."""
        self._lead_ns = int(agents["latency_ns"][self._senders].min(initial=NEVER))
        self._out = np.zeros(BATCH_ROWS, COMMAND)
        self._book_command, self._scratch = np.zeros(1, COMMAND), np.zeros(SCRATCH_ROWS, EVENT)
        # before the login, because the exchange closes sessions that are silent for as long as this takes
        compile_traders(self.crowd)
        before_login()
        name = f"traders-{population.name}-{host}"
        session = HostSession(name, token, rows=True, cancel_on_disconnect=cancel_on_disconnect)
        self.client = resume(endpoint, session, curve=curve)
        #: population time; it differs from exchange time if the day started at the login
        self.time_ns = self.start_ns = population.open_ns
        self.commands = 0
        self._public: list[Rows] = []
        self._private: list[Rows] = []
        self._sequences: dict[str, int] = {}
        self._epoch = 0  # of the exchange whose books were copied
        try:
            self._exchange_symbols, self._own_symbols = self._match_symbols()
            self._check_ids()
            self._subscribe()
            self._flow = self._open_flow(flow, host)
        except BaseException:
            self.client.close()
            raise

    def _open_flow(self, folder: Path | None, host: int) -> FlowFile | None:
        if folder is None:
            return None
        return FlowFile(flow_file_path(folder, self.population.name, host), self.population, self.crowd.traders.agents)

    def _match_symbols(self) -> Any:
        """(the exchange's number of each of our symbols, our number of each of the exchange's)."""
        names = list(self.client.session.instruments)
        numbers = {name: self.client.instrument(name).number for name in names}
        missing = [name for name in self.population.symbol_names if name not in numbers]
        if missing:
            raise SimulationError(
                f"expected an exchange with the population's symbols, got one without {', '.join(missing)}; "
                f"start it with --symbols {','.join(self.population.symbol_names)}"
            )
        theirs = np.array([numbers[name] for name in self.population.symbol_names])
        ours = np.zeros(max(numbers.values()) + 1, np.int64)
        ours[theirs] = np.arange(len(theirs))
        return theirs, ours

    def _check_ids(self) -> None:
        last = self.client.session.next_command_id - 1
        if last >= self.population.open_ns << 7 and self.lockstep:
            raise SimulationError(
                f"expected a fresh exchange for a simulation in lockstep, got one on which {self.client.session.name!r} "
                "traded before; start it with another --journal folder"
            )

    @property
    def lockstep(self) -> bool:
        """Whether the exchange's clock waits for this host."""
        return bool(self.client.session.clock[0] == "lockstep")

    def _subscribe(self) -> None:
        """Subscribes, waits until the feed arrives, then loads the books."""
        self.book = Market(self.population.symbol_names, limits=MarketLimits(participants_max=2))
        self.book.grant_operator(0)  # to change phases
        for name in self.population.symbol_names:
            self.client.subscribe("rows", name)
        if LIMIT in self.client.session.limits:
            self.client.subscribe_news(after=0)
        deadline = time.monotonic() + SUBSCRIBE_TIMEOUT_S
        while self.client.core.feed_sequence < 0:
            self._buffer(self.client.wait(0.05))
            if time.monotonic() > deadline:
                raise SimulationError(
                    f"expected the feed within {SUBSCRIBE_TIMEOUT_S:g} s, got nothing; check that no firewall blocks its port"
                )
        for name in self.population.symbol_names:
            self._load_book(name)

    def _load_book(self, name: str) -> None:
        """Copies a book from the exchange."""
        symbol = self.population.symbol_names.index(name)
        phase, reply = self._query_book(name)
        self._epoch, self._sequences[name] = reply[2:4]
        if phase in COLLECTING:  # orders may cross
            self.book.submit(command(CommandKind.PHASE, symbol=symbol, flags=phase))
        for number, side, price_ticks, qty_lots in sorted(reply[5]):
            self.book.submit(
                command(1, symbol=symbol, side=side, price_ticks=price_ticks, qty_lots=qty_lots, command_id=number, time_in_force=1)
            )  # fmt: skip

    def _query_book(self, name: str) -> tuple[Phase, list[Any]]:
        """The phase of a symbol, and an L3 reply from that phase."""
        while True:
            phase = self.client.status(name).phase
            reply = self.client.ask(Kind.L3, self.client.instrument(name).number)
            if self.client.status(name).phase == phase:
                return phase, reply

    def _buffer(self, item: Any) -> None:
        """Buffers an item and all others in the inbox: rows of the feed, own reports and news."""
        while item is not None:
            if isinstance(item, FeedMessage):
                topic, message = item
                if message[0] == FeedKind.ROWS:
                    self._buffer_public(topic.split("/")[1], message)
            elif isinstance(item, np.ndarray):
                self._buffer_reports(item.copy())
            elif isinstance(item, News):
                self._values.add(item, self._timeline.offset_ns)
            item = self.client.core.inbox.popleft() if self.client.core.inbox else None

    def _buffer_reports(self, rows: Rows) -> None:
        self._timeline.shift_reports(rows)
        self._private.append(rows)

    def _buffer_public(self, name: str, message: list[Any]) -> None:
        _, epoch, previous, sequence, _, data = message
        known = self._sequences.get(name)
        if known is None:
            return  # the snapshot requested next includes it
        if previous > known:
            slow = "this host is too slow for the feed; use more --hosts or a slower clock"
            cause = slow if epoch == self._epoch else "the exchange was restarted; start the traders again"
            raise SimulationError(f"expected sequence {known} before the next rows of {name}, got {previous}: {cause}")
        if sequence > known:
            rows = np.frombuffer(data, EVENT).copy()
            rows = rows[rows["sequence"] > known]
            rows["symbol"] = self._own_symbols[rows["symbol"]]
            self._timeline.shift_public(rows)
            self._public.append(rows)
            self._sequences[name] = sequence

    def _advance(self, until_ns: int) -> None:
        """Runs the traders up to `until_ns` on the buffered events, and applies the buffered news to the values."""
        self._values.advance(self.time_ns, until_ns, lambda time_ns: self._run(time_ns, is_last=time_ns == until_ns))

    def _run(self, until_ns: int, is_last: bool) -> None:
        """Runs the traders up to `until_ns`. is_last: also uses own reports of later times, which an estimate of the clock may miss."""
        public, private = _concatenated(self._public), _concatenated(self._private)
        later = private[:0] if is_last else private[private["time_ns"] >= until_ns]
        private = private[: len(private) - len(later)]
        if len(self._sequences) > 1:  # each symbol has its own messages
            public = public[np.argsort(public["sequence"], kind="stable")]
        positions = np.zeros(2, np.int64)
        while True:
            status = run_traders(
                self.crowd.traders, self.book.state, self._book_command, self._scratch, public, private, positions,
                until_ns,
            )  # fmt: skip
            if status == FINISHED:
                break
            if status == TRADERS_FULL:
                self.crowd.grow()
            elif status == BOOK_FULL:
                self.book.grow()
        self.crowd.check_traders()
        self._public = [public[positions[0] :]] if positions[0] < len(public) else []
        self._private = [later]
        self.time_ns = until_ns

    def _send(self, before_ns: int) -> None:
        """Sends the commands that arrive before `before_ns`, in messages of as many rows as the exchange accepts."""
        out = self._out[: int(self.client.session.limits["bulk_rows_max"])]
        while count := collect_commands(self.crowd.traders, before_ns, out):
            rows = self._out[:count]
            if self._flow is not None:
                self._flow.add(rows)
            rows["symbol"] = self._exchange_symbols[rows["symbol"]]
            self._timeline.shift_commands(rows)
            self.client.send(self.client.session.rows(rows))
            self.commands += count

    def run(self, on_progress: Callable[["Host"], None] = lambda host: None) -> None:
        """Runs the traders until the population's close (or until_ns). Raises SimulationError if this has passed at the start, or if a trader
        sleeps for no time."""
        if self.lockstep:
            self._run_lockstep(on_progress)
        else:
            self._run_clock(on_progress)

    def _run_lockstep(self, on_progress: Callable[["Host"], None]) -> None:
        """Runs on a lockstep clock: each turn runs all wake-ups before the granted time, then promises the time of the next one."""
        self._check_time(int(self.client.session.clock[2]))
        promise_ns = self._promise_ns()
        while True:
            grant = self.client.turn(promise_ns)
            inbox = self.client.core.inbox
            self._buffer(inbox.popleft() if inbox else None)
            self._advance(grant.time_ns)
            on_progress(self)
            if grant.time_ns >= self.until_ns:
                break
            promise_ns = self._promise_ns()
            self._send(promise_ns)
        self.client.core.send(msgpack.packb([Kind.PROMISE, END_NS]))

    def _promise_ns(self) -> int:
        """The time before which nothing arrives from this host: the next wake-up of a trader that may send, plus the shortest latency."""
        wake_ns = int(next_wake_ns(self.crowd.traders))
        if not self._senders.all():
            waits_ns = self.crowd.traders.agents["wake_ns"][self._senders]
            wake_ns = int(waits_ns.min(where=waits_ns >= 0, initial=NEVER))
        return min(wake_ns + self._lead_ns, self.until_ns)

    def _run_clock(self, on_progress: Callable[["Host"], None]) -> None:
        """Runs on a live or scaled clock: runs each wake-up at its time and sends each command after its latency."""
        clock = RemoteClock()
        now_ns = self._poll(clock)
        while not clock.running:  # a held clock may still be set
            now_ns = self._poll(clock)
        self._start(now_ns)
        while (time_ns := self._poll(clock) - self._timeline.offset_ns) < self.until_ns:
            self._advance(time_ns)
            self._send(time_ns)
            on_progress(self)

    def _poll(self, clock: RemoteClock) -> int:
        """Buffers what arrives within POLL_S; returns the exchange's time afterwards."""
        self._buffer(self.client.wait(POLL_S))
        self.client.core.raise_if_dead()
        if clock.ping_due():
            self.client.core.send(msgpack.packb([Kind.PING, 0]))
        return clock.now_ns(int(self.client.session.clock[2]))

    def _start(self, now_ns: int) -> None:
        """Starts population time at `now_ns` of the exchange."""
        offset_ns = self._share_offset(day_offset_ns(self.population, now_ns, wait_for_open=self._wait_for_open))
        self.time_ns = self.start_ns = now_ns - offset_ns
        self._check_time(self.start_ns)
        self.crowd.start_at(self.start_ns)
        self._timeline = Timeline.starting_at(offset_ns, self.start_ns, self.client.session.next_command_id)
        for rows in self._public:
            self._timeline.shift_public(rows)
        self._values.shift(offset_ns)
        self._private = []  # drops reports of orders of an earlier run
        if self._flow is not None:
            self._flow.offset_ns = offset_ns - int(self.client.session.clock[3])

    def _check_time(self, time_ns: int) -> None:
        if time_ns >= self.until_ns:
            raise SimulationError(
                f"expected a time before {time_of_day_text(self.until_ns)}, got {time_of_day_text(time_ns)}: trading has already "
                "ended; give a later --until, or start an exchange with an earlier --clock-start"
            )

    def close(self) -> None:
        """Closes the session and the flow file."""
        if self._flow is not None:
            self._flow.close()
        self.client.close()


def _concatenated(parts: list[Rows]) -> Rows:
    return np.concatenate(parts) if parts else np.zeros(0, EVENT)


def compile_traders(crowd: Crowd) -> None:
    """Compiles or loads what a host runs, which may take a minute. Does not change the crowd."""
    book, no_events = Market(("NONE",), limits=MarketLimits(participants_max=2)), np.zeros(0, EVENT)
    book.submit(command(1, price_ticks=1, qty_lots=1, command_id=1))
    row, scratch = np.zeros(1, COMMAND), np.zeros(SCRATCH_ROWS, EVENT)
    run_traders(crowd.traders, book.state, row, scratch, no_events, no_events, np.zeros(2, np.int64), 0)
    if crowd.population.has_rules:
        warm_rule_book()
    collect_commands(crowd.traders, 0, row)
