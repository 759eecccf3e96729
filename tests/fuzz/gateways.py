"""What the gateways read from the network, as fuzz targets: FIX, OUCH, and the requests of Binance's API."""

from decimal import Decimal
from pathlib import Path

import numpy as np

from serl.clients.book import Level
from serl.clients.session import Instrument
from serl.gateways.binance import rest, socket_api
from serl.gateways.binance.listing import Listing
from serl.gateways.binance.order_entry import MarketView, read_order
from serl.gateways.binance.parameters import Parameters
from serl.gateways.fix.codec import Framer, Message, UtcClock, encode
from serl.gateways.fix.entry import OrderEntry
from serl.gateways.fix.fields import problem_of
from serl.gateways.fix.orders import Orders
from serl.gateways.fix.reports import Reports
from serl.gateways.fix.session import READ, FixSession
from serl.gateways.fix.store import SessionStore
from serl.gateways.fix.venue import ReportSession
from serl.gateways.ouch.inbound import Symbols, enter_orders, split, term_commands
from serl.gateways.ouch.options import OptionError, read_options
from serl.gateways.soup.packets import read_login

INSTRUMENTS = [
    Instrument(0, "DEMO", Decimal("0.01"), Decimal(1)),
    Instrument(1, "COIN", Decimal("0.25"), Decimal("0.001")),
]
_LIMITS = {"qty_lots_max": 1_000_000, "price_ticks_max": 1_000_000, "messages_per_s_max": 0, "bulk_rows_max": 1024}
_RUNS_MAX = 500
"""Inputs of one FIX session: it keeps all of its orders."""


class _FixClient:
    """A logged-on FIX session with its store and its order entry: everything of the gateway but the two sockets."""

    def __init__(self, folder: Path) -> None:
        self.path, self.runs = folder, 0
        store = SessionStore(folder, "FUZZ")
        store.path.unlink(missing_ok=True)
        list(store.load())
        self.session, self._orders = FixSession("SERL", "FUZZ", store), Orders()
        venue = ReportSession("fuzz")
        venue.live, venue.next_command_id, venue.limits = True, 1, dict(_LIMITS)
        self._entry = OrderEntry(self.session, venue, self._orders, Reports(self.session, self._orders, INSTRUMENTS))
        self.session.application = self
        self._log_on()

    def _log_on(self) -> None:
        self.session.connect()
        self.session.store.next_in = 1  # the client resets the numbers: it may have set them to the last that there is
        (message,) = _messages(self._whole("A", "98=0\x01108=0\x01141=Y\x01"))
        self.session.logon(message)
        assert self.session.live and not self.session.closing, self.session.closing

    def _whole(self, kind: str, fields: str) -> bytes:
        """A message with the right length, checksum, identity, number and time."""
        header = f"35={kind}\x0149=FUZZ\x0156=SERL\x0134={self.session.store.next_in}\x0152={UtcClock().now()}\x01"
        return encode(header + fields)

    def receive(self, message: Message) -> None:
        """The application of the session: its orders."""
        if message.type in self._entry.receivers:
            self._entry.receivers[message.type](message)

    def state(self) -> object:
        """See `Application.state`."""
        return self._orders.state()

    def send(self, data: bytes) -> bool:
        """Sends messages between zero bytes, each its type, a SOH and its fields. Returns whether one became a command."""
        self.runs += 1
        self._entry.commands.clear()
        for text in data.decode("latin-1").split("\0")[:20]:
            kind, _, fields = text.partition("\x01")
            for message in _messages(self._whole(kind, fields)):
                if self.session.closing:
                    self._log_on()
                self.session.receive(message)
        self.session.flush()
        while self.session.resending:
            self.session.resend_part()
        return bool(self._entry.commands)

    def close(self) -> None:
        """Ends it."""
        self.session.store.close()


_clients: list[_FixClient] = []


def _messages(data: bytes) -> list[Message]:
    framer = Framer()
    found = []
    for part in (data[: len(data) // 3], data[len(data) // 3 :]):
        framer.feed(part)
        while (frame := framer.next()) is not None:
            found.append(Message(frame))
    return found


def fix(data: bytes, folder: Path) -> bool:
    """Bytes as they arrive, and the same as the fields of messages that are otherwise right."""
    for message in _messages(data):
        if message.type in READ:
            problem_of(message)
    if _clients and (_clients[0].path != folder or _clients[0].runs >= _RUNS_MAX):
        _clients.pop().close()
    if not _clients:
        _clients.append(_FixClient(folder))
    try:
        return _clients[0].send(data)
    except Exception:
        _clients.pop().close()  # its state is that of an error
        raise


def ouch(data: bytes, folder: Path) -> bool:
    """SoupBinTCP packets: logins, and messages of OUCH with their options."""
    starts, ends, at = [], [], 0
    while at + 3 <= len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        if end > len(data) or end < at + 3:
            break
        if data[at + 2 : at + 3] == b"L":
            read_login(data[at + 3 : end])
        else:
            starts.append(at + 3)
            ends.append(end)
        at = end
    if not starts:
        return False
    messages = split(data, np.array(starts, np.int64), np.array(ends, np.int64))
    for appendage in messages.appendages.values():
        try:
            read_options(appendage)
        except OptionError:
            continue
    if (rows := messages.rows.get("O")) is not None:
        orders = enter_orders(rows, messages.index["O"], messages.appendages, Symbols(INSTRUMENTS[:1]), 0)
        for terms in orders.terms.values():
            term_commands(terms)
    return True


def binance(data: bytes, folder: Path) -> bool:
    """The parameters of a REST request, or a request of the WebSocket API, and the order that they make."""
    text = data.decode("utf-8", "replace")
    if text.startswith("{"):
        values = socket_api._values(socket_api._parse(text).get("params"))
    else:
        values = rest._parse(text)
    market = MarketView(10_000, lambda side: [Level(10_000 + side, 5, 1), Level(10_001 + side, 500, 2)])
    for instrument in INSTRUMENTS:
        read_order(Listing(instrument, "DEMO", "USDT", {}), Parameters(values), market)
    return True
