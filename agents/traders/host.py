"""A host process: thousands of traders on one session of a served exchange."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from serl.agents.traders.build import Crowd
from serl.agents.traders.errors import SimulationError
from serl.agents.traders.flow_file import FlowFile, file_of
from serl.agents.traders.hosting import BOOK_FULL, FINISHED, TRADERS_FULL, collect, live, next_wake
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.timeline import Timeline, offset_at
from serl.clients.blocking import connect
from serl.clients.clock import RemoteClock
from serl.clients.session import Grant
from serl.exchange.config import time_of_day_text
from serl.exchange.limits import MarketLimits
from serl.exchange.lockstep import END_NS
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, EVENT, Rows, command
from serl.exchange.wire import Kind

BATCH_ROWS = 512
SUBSCRIBED_S = 10.0
SCRATCH_ROWS = 64
LISTEN_S = 0.001


class Host:
    """The traders numbered host, host + hosts, host + 2 hosts ... of a population, on one session."""

    def __init__(
        self, population: PopulationConfig, seed: int, endpoint: str, *, host: int = 0, hosts: int = 1, token: str = "",
        cancel_on_disconnect: bool = False, until_ns: int | None = None, flow: Path | None = None,
        wait_for_open: bool = False, agree: Callable[[int], int] = int,
    ) -> None:  # fmt: skip
        """until_ns: of the population's time. agree: gives all hosts of a population the offset of the first that has one."""
        self.population = population
        self._wait_for_open, self._agree = wait_for_open, agree
        self._timeline = Timeline()
        self.until_ns = population.close_ns if until_ns is None else until_ns
        self.crowd = Crowd(population, seed, host, hosts)
        self._out = np.zeros(BATCH_ROWS, COMMAND)
        self._change, self._scratch = np.zeros(1, COMMAND), np.zeros(SCRATCH_ROWS, EVENT)
        self._compile()
        self.client = connect(
            endpoint, f"traders-{population.name}-{host}", token, rows=True, cancel_on_disconnect=cancel_on_disconnect
        )
        #: of the population; the exchange's is another where the day began when the hosts logged in
        self.time_ns = self.start_ns = population.open_ns
        self.commands = 0
        self._public: list[Rows] = []
        self._private: list[Rows] = []
        self._sequences: dict[str, int] = {}
        try:
            self._numbers = self._match_symbols()
            self._check_ids()
            self._subscribe()
            self._flow = None if flow is None else FlowFile(file_of(flow, population.name, host), population)
        except BaseException:
            self.client.close()
            raise

    def _compile(self) -> None:
        """Before the login, with nothing to do: it may take a minute, and the exchange ends sessions that are silent for so long."""
        book, nothing = Market(("NONE",), limits=MarketLimits(participants_max=2)), np.zeros(0, EVENT)
        book.submit(command(1, price_ticks=1, qty_lots=1, command_id=1))
        traders = self.crowd.traders
        live(traders, book.state, self._change, self._scratch, nothing, nothing, np.zeros(2, np.int64), 0)
        collect(traders, 0, self._out)

    def _match_symbols(self) -> Any:
        """The exchange's symbol number of each of ours, and ours of each of the exchange's."""
        names = list(self.client.session.instruments)
        numbers = {name: self.client.instrument(name).number for name in names}
        missing = [name for name in self.population.symbols if name not in numbers]
        if missing:
            raise SimulationError(
                f"the exchange does not know {', '.join(missing)}; start it with --symbols {','.join(self.population.symbols)}"
            )
        theirs = np.array([numbers[name] for name in self.population.symbols])
        ours = np.zeros(max(numbers.values()) + 1, np.int64)
        ours[theirs] = np.arange(len(theirs))
        return theirs, ours

    def _check_ids(self) -> None:
        last = self.client.session.next_command_id - 1
        if last >= self.population.open_ns << 7 and self.lockstep:
            raise SimulationError(
                f"{self.client.session.name!r} traded on this exchange before: a simulation in lockstep needs a fresh one "
                "(another --journal folder)"
            )

    @property
    def lockstep(self) -> bool:
        """Whether the exchange waits for us."""
        return bool(self.client.session.clock[0] == "lockstep")

    def _subscribe(self) -> None:
        """Subscribes and takes the book as it is; returns when the feed is known to reach us."""
        self.book = Market(self.population.symbols, limits=MarketLimits(participants_max=2))
        for name in self.population.symbols:
            self.client.subscribe("rows", name)
        deadline = time.monotonic() + SUBSCRIBED_S
        while self.client.core.feed_sequence < 0:
            self._keep(self.client.wait(0.05))
            if time.monotonic() > deadline:
                raise SimulationError(
                    f"no word from the feed in {SUBSCRIBED_S:g} s; is a firewall between us and its port?"
                )
        for name in self.population.symbols:
            self._take_book(name)

    def _take_book(self, name: str) -> None:
        """Makes our copy of a book equal to the exchange's."""
        symbol = self.population.symbols.index(name)
        reply = self.client.ask(Kind.L3, self.client.instrument(name).number)
        self._sequences[name] = reply[3]
        for number, side, price_ticks, qty_lots in sorted(reply[5]):
            self.book.submit(
                command(1, symbol=symbol, side=side, price_ticks=price_ticks, qty_lots=qty_lots, command_id=number, time_in_force=1)
            )  # fmt: skip

    def _keep(self, item: Any) -> None:
        """Puts away what came: rows of the feed, rows of ours."""
        while item is not None:
            if isinstance(item, tuple) and not isinstance(item, Grant):
                topic, message = item
                if message[0] == 118:
                    self._keep_public(topic.split("/")[1], message)
            elif isinstance(item, np.ndarray):
                rows = item.copy()
                self._timeline.take_private(rows)
                self._private.append(rows)
            item = self.client.core.inbox.popleft() if self.client.core.inbox else None

    def _keep_public(self, name: str, message: list[Any]) -> None:
        _, _, previous, sequence, _, data = message
        known = self._sequences.get(name)
        if known is None:
            return  # the snapshot that we ask for next has it
        if previous > known:
            raise SimulationError(
                f"the feed of {name} has a gap ({known} to {previous}): this host is too slow for the flow; use more --hosts "
                "or a slower clock"
            )
        if sequence > known:
            rows = np.frombuffer(data, EVENT).copy()
            rows = rows[rows["sequence"] > known]
            rows["symbol"] = self._numbers[1][rows["symbol"]]
            self._timeline.take_public(rows)
            self._public.append(rows)
            self._sequences[name] = sequence

    def _live(self, until_ns: int) -> None:
        """Lets the traders live on what has come."""
        public, private = _joined(self._public), _joined(self._private)
        at = np.zeros(2, np.int64)
        while True:
            status = live(
                self.crowd.traders, self.book.state, self._change, self._scratch, public, private, at, until_ns
            )
            if status == FINISHED:
                break
            if status == TRADERS_FULL:
                self.crowd.grow()
            elif status == BOOK_FULL:
                self.book.grow()
        self._public = [public[at[0] :]] if at[0] < len(public) else []
        self._private = []
        self.time_ns = until_ns

    def _send(self, before_ns: int) -> None:
        while count := collect(self.crowd.traders, before_ns, self._out):
            rows = self._out[:count]
            if self._flow is not None:
                self._flow.take(rows)
            rows["symbol"] = self._numbers[0][rows["symbol"]]
            self._timeline.send(rows)
            self.client.core.send(self.client.session.rows(rows))
            self.commands += count

    def run(self, tell: Callable[["Host"], None] = lambda host: None) -> None:
        """Lets them trade until the population's close (or until_ns); SimulationError if that is over when they begin."""
        if self.lockstep:
            self._run_lockstep(tell)
        else:
            self._run_clock(tell)

    def _run_lockstep(self, tell: Callable[["Host"], None]) -> None:
        """In turns: each turn all wake-ups before the granted time; then the promise of the next one."""
        self._check_time(int(self.client.session.clock[2]))
        lead_ns = int(self.crowd.traders.agents["latency_ns"].min())
        promise_ns = min(next_wake(self.crowd.traders) + lead_ns, self.until_ns)
        while True:
            grant = self.client.turn(promise_ns)
            inbox = self.client.core.inbox
            self._keep(inbox.popleft() if inbox else None)
            self._live(grant.time_ns)
            tell(self)
            if grant.time_ns >= self.until_ns:
                break
            promise_ns = min(next_wake(self.crowd.traders) + lead_ns, self.until_ns)
            self._send(promise_ns)
        self.client.core.send(msgpack.packb([Kind.PROMISE, END_NS]))

    def _run_clock(self, tell: Callable[["Host"], None]) -> None:
        """On a live or scaled clock: a wake-up when its time has come, a command when its latency is over."""
        clock = RemoteClock()
        now_ns = self._listen(clock)
        while not clock.running:  # one that is held may be set before it runs
            now_ns = self._listen(clock)
        self._begin(now_ns)
        while (time_ns := self._listen(clock) - self._timeline.offset_ns) < self.until_ns:
            self._live(time_ns)
            self._send(time_ns)
            tell(self)

    def _listen(self, clock: RemoteClock) -> int:
        """Takes what comes within LISTEN_S; the exchange's time after it."""
        self._keep(self.client.wait(LISTEN_S))
        if clock.ping_due():
            self.client.core.send(msgpack.packb([Kind.PING, 0]))
        return clock.now_ns(int(self.client.session.clock[2]))

    def _begin(self, now_ns: int) -> None:
        """The traders' time begins, at a time of the exchange."""
        offset_ns = self._agree(offset_at(self.population, now_ns, wait_for_open=self._wait_for_open))
        self.time_ns = self.start_ns = now_ns - offset_ns
        self._check_time(self.start_ns)
        self.crowd.begin_at(self.start_ns)
        self._timeline = Timeline.beginning(offset_ns, self.start_ns, self.client.session.next_command_id)
        for rows in self._public:
            self._timeline.take_public(rows)
        self._private = []  # of orders before our time
        if self._flow is not None:
            self._flow.offset_ns = offset_ns - int(self.client.session.clock[3])

    def _check_time(self, time_ns: int) -> None:
        if time_ns >= self.until_ns:
            raise SimulationError(
                f"expected a time before {time_of_day_text(self.until_ns)}, got {time_of_day_text(time_ns)}: trading is over before it "
                "began; give a later --until, or start an exchange with an earlier --clock-start"
            )

    def close(self) -> None:
        """Leaves the exchange."""
        if self._flow is not None:
            self._flow.close()
        self.client.close()


def _joined(parts: list[Rows]) -> Rows:
    return np.concatenate(parts) if parts else np.zeros(0, EVENT)
