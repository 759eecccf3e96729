"""The stream: the exchange's `rows` feed as ITCH messages, the same as the ITCH export of the recorded session.

It begins with the current books. After a gap (the exchange or the gateway was away) it publishes what has changed in the meantime: orders
that are gone are deleted, smaller ones reduced, new ones added. Trades during a gap are not published.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.clients.errors import ExchangeUnreachable, RequestRejected, no_reply
from serl.clients.sockets import Sockets
from serl.exchange.errors import ConfigError
from serl.exchange.log import without_repeats
from serl.exchange.records import EVENT, EventKind, Rows
from serl.exchange.symbol_rules import SymbolRules
from serl.exchange.wire import FeedKind, Kind
from serl.gateways.itch.book import KnownBook
from serl.gateways.ouch.link import OtherJournal
from serl.gateways.soup.packets import SEQUENCED
from serl.gateways.soup.server import Connection
from serl.gateways.soup.stream import Mark, StreamLog
from serl.history.day import Reference, SymbolReference
from serl.history.errors import ExportError
from serl.history.itch.accounts import AuctionEncoder, encode_messages, stocks_of
from serl.history.itch.messages import encode, session_start
from serl.history.itch.writer import FIELD_MAX, price_units
from serl.history.tape import public_view

AWAY_S = 5.0
"""A feed that has sent nothing for this long, not even the time, counts as away."""
REPLY_S = 5.0
RETRY_S = 0.5
WAIT_S = 0.05
HOLD_S = 0.002
"""With several symbols, events are held for this long, until earlier events of other symbols have arrived."""
MESSAGES_MAX = 1000
DAY_NS = 86_400_000_000_000


class _Gap(Exception):
    """Messages are missing."""


class ItchFeed:
    """The stream of all symbols of an exchange; any number of clients can read it."""

    exclusive = False

    def __init__(
        self, folder: Path, endpoint: str, curve: Path | None, token: str, report: Callable[[str], None]
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = StreamLog(folder / "stream")
        self.readers: set[Connection] = set()
        self._known = KnownBook(self.log)
        self._endpoint, self._curve, self._token = endpoint, curve, token
        self._report = report
        self._sockets: Sockets | None = None
        self._arrived = asyncio.Event()
        self._names: list[str] = []
        self._units: Any = None
        self._stocks: Any = None
        self._auctions: AuctionEncoder
        self._midnight_ns = 0
        self._epoch = -1
        self._sequences: list[int] = []
        self._heard_sequence = 0
        self._topics: dict[bytes, int] = {}
        self._held: list[Rows] = []
        self._held_s = 0.0
        self._heard_s = 0.0
        self._last_ns = self.log.mark.time_ns  # of the exchange

    def receive(self, connection: Connection, data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Ignores messages: ITCH clients send none."""
        connection.explain("expected only heartbeats, as ITCH has no messages from clients; ignored")

    async def open(self) -> None:
        """Starts following the feed. Raises ExchangeUnreachable, RequestRejected, and ConfigError for anything that ITCH cannot represent."""
        try:
            await self._connect()
        except BaseException:
            self._disconnect()
            raise

    async def run(self) -> None:
        """Keeps following the feed, until it is cancelled."""
        while True:
            try:
                await self._follow()
            except (ExchangeUnreachable, RequestRejected) as error:
                self._report(f"feed: {error}")
            self._disconnect()
            report = without_repeats(self._report)
            while self._sockets is None:
                await asyncio.sleep(RETRY_S)
                try:
                    await self._connect()
                except (ExchangeUnreachable, RequestRejected) as error:
                    self._disconnect()
                    report(f"feed: {error}")
            self._report("feed: the exchange is back")

    async def _connect(self) -> None:
        self._sockets = Sockets(self._endpoint, self._curve, self._token)
        for descriptor in self._sockets.descriptors:
            asyncio.get_running_loop().add_reader(descriptor, self._arrived.set)
        await self._learn_symbols()
        self._heard_s = time.monotonic()
        for topic in (*self._topics, b"time/"):
            self._sockets.subscribe(topic)
        while not any(topic == b"time/" for topic, _ in self._sockets.feed_messages(MESSAGES_MAX)):
            await self._wait(WAIT_S)
            if time.monotonic() - self._heard_s > AWAY_S:
                raise ExchangeUnreachable(
                    f"nothing from the feed of {self._endpoint} for {AWAY_S:g} s; give a token that permits data if the exchange has "
                    "participants, and check that no firewall blocks its port"
                )
        self._heard_s = time.monotonic()
        await self._synchronize()

    def _disconnect(self) -> None:
        sockets, self._sockets = self._sockets, None
        if sockets is not None:
            for descriptor in sockets.descriptors:
                asyncio.get_running_loop().remove_reader(descriptor)
            sockets.close()

    async def _wait(self, timeout_s: float) -> None:
        """Returns when something has arrived, or after `timeout_s`; replies have then been processed."""
        assert self._sockets is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()
        self._arrived.clear()
        self._sockets.process_replies()

    async def _ask(self, kind: Kind, *values: int | str) -> list[Any]:
        """Sends a query and returns its reply. Raises ExchangeUnreachable and RequestRejected."""
        assert self._sockets is not None
        replies: list[list[Any]] = []
        deadline, sent = time.monotonic() + REPLY_S, False
        while not replies:
            sent = sent or self._sockets.request(lambda reply, _: replies.append(reply), kind, *values)
            await self._wait(WAIT_S)
            if time.monotonic() > deadline:
                raise no_reply(self._endpoint, REPLY_S, with_keys=self._curve is not None)
        if replies[0][0] == Kind.ERROR:
            raise RequestRejected(replies[0][1], replies[0][2])
        return replies[0]

    async def _learn_symbols(self) -> None:
        _, symbols, clock, limits = (await self._ask(Kind.INFO))[5]
        self._midnight_ns = int(clock[3])
        if limits["qty_lots_max"] > FIELD_MAX:  # otherwise more of an order could be executed than was displayed
            raise ConfigError(
                f"ITCH expects a qty_lots_max of at most {FIELD_MAX:,}, as sizes have 32 bits, got {limits['qty_lots_max']:,}; leave --itch out"
            )
        references = tuple(SymbolReference(name, tick, lot) for _, name, tick, lot in symbols)
        try:
            units = price_units(Reference(symbols=references, date="", source="served"))
        except ExportError as error:
            raise ConfigError(f"{error}; leave --itch out") from None
        names = [reference.name for reference in references]
        if self._names and names != self._names:
            raise RequestRejected("symbols", "expected the same symbols as before, got others; restart the gateway")
        if not self._names:
            self._names, self._units, self._stocks = names, np.array(units, np.int64), stocks_of(names)
            self._auctions = AuctionEncoder(names, self._units)
            self._topics = {f"rows/{name}/".encode(): number for number, name in enumerate(names)}

    # the current books

    async def _synchronize(self) -> None:
        """Publishes what has changed since the stream's last message; at its beginning, everything."""
        await asyncio.to_thread(self._known.update)  # the users of the gateway must not wait
        lot_multiples = [] if self.log.count else await self._lot_multiples()
        replies, states = [], []
        for number in range(len(self._names)):
            before, reply, after = [await self._ask(kind, number) for kind in (Kind.STATUS, Kind.L3, Kind.STATUS)]
            while before[5] != after[5]:
                before, reply, after = after, await self._ask(Kind.L3, number), await self._ask(Kind.STATUS, number)
            replies.append(reply)
            states.append(after[5])
        if max(reply[3] for reply in replies) < self.log.mark.number:
            raise OtherJournal("it has fewer events than the stream tells of")
        self._epoch = replies[0][2]
        self._sequences = [reply[3] for reply in replies]
        self._heard_sequence = 0
        self._held = []
        self._last_ns = max(self._last_ns, *(reply[4] for reply in replies))
        time_ns = (self._last_ns - self._midnight_ns) % DAY_NS
        messages = [] if self.log.count else [session_start(self._names, time_ns, lot_multiples)]
        for number, (reply, (halted, phase, reason)) in enumerate(zip(replies, states, strict=True)):
            self._auctions.set_status(number, bool(halted), phase, reason)
            messages += self._differences(number, reply[5], time_ns)
        self._tell(b"".join(messages))
        self._heard_s = time.monotonic()

    async def _lot_multiples(self) -> list[int]:
        replies = [await self._ask(Kind.RULES, self._token, number) for number in range(len(self._names))]
        return [SymbolRules.of_reply(reply[5]).lot_multiple for reply in replies]

    def _differences(self, number: int, orders: list[Any], time_ns: int) -> list[bytes]:
        known = self._known
        locate, name, units = number + 1, self._names[number], int(self._units[number])
        head = {"locate": locate, "time_ns": time_ns}
        messages = []
        state, reason = self._auctions.trading_state(number)
        if known.states.get(locate, ("T", "")) != (state, reason):
            messages.append(encode({"type": "H", "stock": name, "state": state, "reason": reason} | head))
        present = {order[0] for order in orders}
        for order, at in known.locate.items():
            if at == locate and order not in present:
                messages.append(encode({"type": "D", "order": order} | head))
        for order, side, price_ticks, all_lots in orders:
            before, lots, price = (
                known.shares.get(order, 0),
                min(all_lots, FIELD_MAX),
                min(price_ticks * units, FIELD_MAX),
            )
            if before and (before < lots or (known.locate[order], *known.quotes[order]) != (locate, "BS"[side], price)):
                raise OtherJournal(f"order {order} is another one than the stream tells of")
            if not before:
                values = {
                    "type": "A",
                    "order": order,
                    "side": "BS"[side],
                    "shares": lots,
                    "stock": name,
                    "price": price,
                }
                messages.append(encode(values | head))
            elif before > lots:
                messages.append(encode({"type": "X", "order": order, "shares": before - lots} | head))
        return messages

    # the feed

    async def _follow(self) -> None:
        assert self._sockets is not None
        while True:
            await self._wait(HOLD_S if self._held else WAIT_S)
            try:
                while arrived := list(self._sockets.feed_messages(MESSAGES_MAX)):
                    for topic, message in arrived:
                        self._receive(topic, message)
            except _Gap:
                await self._synchronize()
            now_s = time.monotonic()
            if self._held and (len(self._names) == 1 or now_s - self._held_s >= HOLD_S):
                self._release()
            if now_s - self._heard_s > AWAY_S:
                raise ExchangeUnreachable(f"nothing from the feed of {self._endpoint} for {AWAY_S:g} s")

    def _receive(self, topic: bytes, message: list[Any]) -> None:
        """Holds the new events of a feed message. Raises _Gap if messages before it are missing."""
        kind, epoch, previous, sequence, _, data = message
        self._heard_s = time.monotonic()
        if epoch != self._epoch or (sequence < self._heard_sequence and kind == FeedKind.TIME):
            raise _Gap  # without its journal, a restarted exchange numbers from 1, in the same epoch
        self._heard_sequence = max(self._heard_sequence, sequence)
        if kind == FeedKind.TIME:
            return
        number = self._topics[topic]
        if sequence <= self._sequences[number]:
            return
        if previous > self._sequences[number] or previous == sequence:
            raise _Gap
        rows = np.frombuffer(data, EVENT)
        rows = rows[rows["sequence"] > self._sequences[number]].copy()
        rows["symbol"] = number
        self._sequences[number] = sequence
        if not self._held:
            self._held_s = self._heard_s
        self._held.append(rows)

    def _release(self) -> None:
        """Publishes the held events, in the order in which they happened."""
        rows = np.concatenate(self._held) if len(self._held) > 1 else self._held[0]
        rows = rows[np.argsort(rows["sequence"], kind="stable")]
        is_torn = rows[-1]["kind"] == EventKind.REPLACED and time.monotonic() - self._held_s < 2 * HOLD_S
        self._held = [rows[-1:]] if is_torn else []  # its replacement comes with the next message
        rows = rows[:-1] if is_torn else rows
        if not len(rows):
            return
        rows["time_ns"] = np.maximum.accumulate(np.maximum(rows["time_ns"], self._last_ns))
        self._last_ns = int(rows[-1]["time_ns"])
        rows["time_ns"] = (rows["time_ns"] - self._midnight_ns) % DAY_NS
        rows["price_ticks"] = np.minimum(rows["price_ticks"], FIELD_MAX // self._units[rows["symbol"]])
        rows["qty_lots"] = np.minimum(rows["qty_lots"], FIELD_MAX)
        messages = encode_messages(public_view(rows), self._auctions, self._units, self._stocks)
        self._tell(b"".join(messages))

    def _tell(self, messages: bytes) -> None:
        """Adds messages, each after its length, to the stream and sends them."""
        if not messages:
            return
        packets, count = frame(messages)
        self.log.append(packets, count, Mark(max(self._sequences), self._epoch, self._last_ns))
        for reader in list(self.readers):
            reader.send_new(packets, count)

    async def close(self) -> None:
        """Closes sockets and file."""
        self._disconnect()
        self.log.close()


def frame(messages: bytes) -> tuple[bytes, int]:
    """Converts messages, each preceded by its length, to (sequenced packets, their number)."""
    starts, at = [], 0
    while at < len(messages):
        starts.append(at)
        at += 2 + (messages[at] << 8 | messages[at + 1])
    data = np.frombuffer(messages, np.uint8)
    begins = np.array(starts, np.int64)
    lengths = (data[begins].astype(np.int64) << 8 | data[begins + 1]) + 1
    shift = np.zeros(len(data), np.int64)
    shift[begins + 2] = 1  # room for the packet's type after the length
    out = np.empty(len(data) + len(begins), np.uint8)
    out[np.arange(len(data)) + np.cumsum(shift)] = data
    heads = begins + np.arange(len(begins))
    out[heads], out[heads + 1], out[heads + 2] = lengths >> 8, lengths & 255, ord(SEQUENCED)
    return out.tobytes(), len(begins)
