"""A simulated participant: the real client code, driven by a seeded strategy that survives whatever happens to it."""

from collections.abc import Generator
from random import Random
from typing import Any

import msgpack
import numpy as np

from serl.clients import core as client_core
from serl.clients.book import L2Book, L3Book
from serl.clients.core import ClientCore
from serl.clients.errors import ExchangeUnreachable, LoginRefused, Rejected, ReportGap, RequestRejected, SessionEnded
from serl.clients.session import Report, Session
from serl.exchange.records import COMMAND, CommandKind, Rows, TimeInForce
from serl.exchange.terms import NO_TERMS
from serl.exchange.wire import Kind
from tests.sim.clock import CLOCK
from tests.sim.history import History
from tests.sim.network import Network

REPLY_TIMEOUT_S = 0.4
client_core.REPLY_TIMEOUT_S = REPLY_TIMEOUT_S
MID_TICKS, SPREAD_TICKS, QTY_MAX = 1000, 8, 12
UNANSWERED_MAX = 30


class RecordingSession(Session):
    """A session that writes down what is sent and received."""

    def __init__(self, name: str, history: History, **options: bool) -> None:
        super().__init__(name, "", **options)
        self._history = history
        #: commands that no report has answered, whatever the client believes
        self.without_answer: set[int] = set()

    def command(self, kind: int, *values: int) -> tuple[int, bytes]:
        """As Session.command."""
        command_id, message = super().command(kind, *values)
        self._history.send(self.name, command_id, kind, values)
        self.without_answer.add(command_id)
        return command_id, message

    def rows(self, rows: Rows) -> bytes:
        """As Session.rows; the message counts as unanswered until its last row is answered."""
        message = super().rows(rows)
        self._history.send_rows(self.name, rows)
        self.without_answer.update(rows["command_id"].tolist())
        self.unanswered[int(rows[-1]["command_id"])] = message
        return message

    def receive(self, data: bytes) -> list[Any]:
        """As Session.receive."""
        message = msgpack.unpackb(data, strict_map_key=False)
        if message[0] == Kind.DUPLICATE:
            self.without_answer.discard(message[1])
            for event in message[3]:
                self._history.receive(self.name, 0, tuple(event))
        return super().receive(data)

    def _new_reports(self, first: int, reports: list[Report]) -> list[Report]:
        fresh = super()._new_reports(first, reports)
        for number, report in enumerate(fresh, self.last_report - len(fresh) + 1):
            self._history.receive(self.name, number, tuple(report))
            self.without_answer.discard(report.command_id)
        return fresh


class Trader:
    """One participant on a machine of its own."""

    def __init__(
        self, number: int, endpoint: str, symbols: list[str], history: History, network: Network, random: Random
    ) -> None:
        self.number, self.name = number, f"trader-{number}"
        self.random, self._history, self._network = random, history, network
        self._endpoint, self._symbols = endpoint, symbols
        self.channel = random.choice(("l2", "l3"))
        self.cancels = random.random() < 0.4
        self.activity = random.choice((0.2, 0.5, 0.9))
        self.core: ClientCore | None = None
        self.is_trading = True
        #: where single messages get lost, which TCP never does, it repeats commands without an answer
        self.repeats = network.weather.tampers
        self._waited = 0, 0
        self._call: Generator[float, None, Any] | None = None
        self._resume_ns = 0
        self._resend_ns = -1
        self.errors: dict[str, int] = {}
        self.new_session()

    # -- life -----------------------------------------------------------------------------------------------------------

    def new_session(self) -> None:
        """Forgets everything; some ask for all of their reports from the first on."""
        self.session = RecordingSession(self.name, self._history, cancel_on_disconnect=self.cancels, replace=True)
        self.is_complete = self.random.random() < 0.7
        if self.is_complete:
            self.session.last_report = 0

    @property
    def is_live(self) -> bool:
        """Whether it is logged in and follows the books."""
        return self.core is not None and self.session.live and self._call is None

    def disconnect(self, pause_ns: int) -> None:
        """Closes its sockets without a word, and comes back later."""
        if self.core is not None:
            for each in self.core.sockets:
                each.close()
        self.core, self._call, self.session.live = None, None, False
        self._resume_ns = CLOCK.monotonic_ns + pause_ns

    def kill(self) -> None:
        """The process dies; another one starts from nothing."""
        self._network.vanish(self.number)
        self.disconnect(self.random.randrange(1, 300_000_000))
        self.new_session()

    def step(self) -> None:
        """Reads what has arrived and does the next thing."""
        if self.core is None:
            if CLOCK.monotonic_ns >= self._resume_ns:
                self._connect()
            return
        try:
            self.core.receive()
            self._repeat(self.core)
            if self._call is not None:
                next(self._call)
            else:
                self._go_on(self.core)
        except StopIteration:
            self._call = None
        except (SessionEnded, LoginRefused, ExchangeUnreachable) as error:
            self._note(error)
            self.disconnect(self.random.randrange(1, 60_000_000))
        except ReportGap as error:
            self._note(error)
            self.disconnect(self.random.randrange(1, 60_000_000))
            if "no longer stored" in str(error):
                self.new_session()
        except RequestRejected as error:
            self._note(error)
            self._call = None
            self._resend_ns = CLOCK.monotonic_ns + self.random.randrange(1, 60_000_000)
        except Rejected:
            self._call = None

    def _note(self, error: Exception) -> None:
        key = getattr(error, "code", type(error).__name__)
        self.errors[key] = self.errors.get(key, 0) + 1

    def _connect(self) -> None:
        self._network.owner = self.number
        self.core = ClientCore(self._endpoint, self.session, None)
        self._call = self._start(self.core)

    def _start(self, core: ClientCore) -> Generator[float, None, None]:
        yield from core.login()
        for symbol in self._symbols:
            yield from core.follow(symbol, self.channel)

    def _go_on(self, core: ClientCore) -> None:
        for symbol in self._symbols:
            book = core.books.get(f"{self.channel}/{symbol}/")
            if book is None or book.needs_snapshot:
                follows = book is None or self.channel == "l3"
                self._call = core.follow(symbol, self.channel) if follows else core.book(symbol, 0)
                return
        if not self.session.live:
            core.raise_if_silent()
            return
        unanswered = self.session.unanswered
        if unanswered and self._is_silent(core):
            raise ExchangeUnreachable("no reply")
        elif self.is_trading and len(unanswered) < UNANSWERED_MAX and self.random.random() < self.activity:
            self._act(core)

    def _repeat(self, core: ClientCore) -> None:
        """Sends what is unanswered again: some time after a refusal, and where messages get lost."""
        unanswered = self.session.unanswered
        oldest = next(iter(unanswered), 0)
        if oldest != self._waited[0]:
            self._waited = oldest, CLOCK.monotonic_ns
        elif oldest and self.repeats and CLOCK.monotonic_ns - self._waited[1] > REPLY_TIMEOUT_S * 1e9:
            self._waited, self._resend_ns = (0, 0), 0
        if self.session.live and 0 <= self._resend_ns <= CLOCK.monotonic_ns:
            self._resend_ns = -1
            for message in unanswered.values():
                core.send(message)

    @staticmethod
    def _is_silent(core: ClientCore) -> bool:
        try:
            core.raise_if_silent()
        except ExchangeUnreachable:
            return True
        return False

    # -- strategy -------------------------------------------------------------------------------------------------------

    def _act(self, core: ClientCore) -> None:
        random, session = self.random, self.session
        open_orders = list(session.open_orders())[-20:]
        drawn = random.random()
        if drawn < 0.55 or not open_orders:
            self.send_order(core)
        elif drawn < 0.64:
            core.send(self._bulk())
        elif drawn < 0.66:
            self._call = core.mass_cancel(random.choice((None, *self._symbols)))
        elif drawn < 0.7:
            self._call = core.order(random.choice(self._symbols), *self._terms(), 0, False, NO_TERMS)
        else:
            order = random.choice(open_orders)
            if drawn < 0.82:
                values: tuple[int, ...] = (CommandKind.CANCEL, order.order_id)
            elif drawn < 0.94:
                values = (CommandKind.REPLACE, order.order_id, random.randint(1, QTY_MAX), self._price(order.side))
            else:
                values = (CommandKind.REDUCE, order.order_id, random.randint(1, 4))
            core.send(session.command(*values)[1])

    def _price(self, side: int) -> int:
        away = self.random.randint(-2, SPREAD_TICKS)
        return MID_TICKS - away if side == 0 else MID_TICKS + away

    def _terms(self) -> tuple[int, int, int]:
        side = self.random.randrange(2)
        return side, self.random.randint(1, QTY_MAX), self._price(side)

    def send_order(self, core: ClientCore) -> None:
        """Sends an order without waiting for its answer."""
        side, qty, price = self._terms()
        tif = self.random.choice((0, 1, 1, 1, TimeInForce.IOC, TimeInForce.FOK))
        post_only = tif < TimeInForce.IOC and self.random.random() < 0.15
        market = self.random.random() < 0.08
        _, messages = self.session.new_order(
            self.random.choice(self._symbols),
            side,
            qty,
            None if market else price,
            int(tif),
            post_only and not market,
        )
        for message in messages:
            core.send(message)

    def _bulk(self) -> bytes:
        count = self.random.randint(1, 24)
        rows = np.zeros(count, COMMAND)
        rows["command_id"] = self.session.next_command_id + np.arange(count)
        rows["kind"], rows["time_in_force"] = CommandKind.NEW, TimeInForce.GTC
        for row in rows:
            row["side"], row["qty_lots"], row["price_ticks"] = self._terms()
            row["symbol"] = self.random.randrange(len(self._symbols))
        return self.session.rows(rows)

    # -- checks ---------------------------------------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether it waits for nothing."""
        if self.core is None or len(self.core.books) < len(self._symbols):
            return False
        return self.is_live and not self.session.unanswered and not any(each.needs_snapshot for each in self.books())

    def books(self) -> list[L2Book | L3Book]:
        """Its books, by symbol."""
        assert self.core is not None
        return [self.core.books[f"{self.channel}/{symbol}/"] for symbol in self._symbols]
