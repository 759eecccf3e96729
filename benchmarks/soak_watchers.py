"""Clients of the soak that are written with the library: sessions that follow books, query, trade a little, log out and come back; and scrapes of dashboard and metrics."""

import json
import time
import urllib.request
from collections import Counter
from multiprocessing.connection import Connection
from typing import Any

import msgpack
import numpy as np
import zmq
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect as open_websocket
from websockets.typing import Origin

from benchmarks.soak_flow import quiet_symbols
from benchmarks.soak_link import now_s, parent_is_gone
from benchmarks.soak_traders import HOLD, REPORT_S, REST
from serl.clients.blocking import Exchange, connect
from serl.clients.errors import ExchangeUnreachable, LoginRefused, Rejected, ReportGap, RequestRejected, SessionEnded
from serl.exchange.config import socket_endpoints
from serl.exchange.records import TimeInForce
from serl.exchange.wire import VERSION, Kind

STAY_S, PAUSE_S, ITEMS_MAX, DEPTH = 45.0, 0.2, 2000, 10
"""How long a watcher stays; its pause between two rounds; feed messages of a round; price levels of a query."""
NOTICE_S = 20.0
"""How long a followed book may take to notice what it missed, once no commands arrive."""
SCRAPE_S = 5.0
DEAF_EVERY_S, DEAF_ORDERS = 30.0, 20_000
"""How often a session sends orders without reading their reports, and how many."""


class _Watcher:
    def __init__(
        self, endpoint: str, name: str, symbol: str, counts: "Counter[str]", notes: list[str], seed: int
    ) -> None:
        self._endpoint, self._name, self._symbol, self._counts, self._notes = endpoint, name, symbol, counts, notes
        self._random = np.random.default_rng(seed)
        self._client: Exchange | None = None
        self._leave_s = self._next_s = 0.0
        self._acknowledged = 0
        self._compared, self._rest_s = False, 0.0

    @property
    def live(self) -> bool:
        return self._client is not None

    def round(self, hold: bool, rest: bool) -> None:
        """Logs in if need be, reads the feed, queries, trades; what the exchange's end or pause causes is expected. rest: no commands arrive."""
        if not rest:
            self._compared, self._rest_s = False, 0.0
        try:
            if self._client is None:
                if now_s() >= self._next_s:
                    self._log_in()
            elif rest and not self._compared:
                self._compare(self._client)
            elif hold:
                self._client.wait(0)
            elif now_s() > self._leave_s:
                self._close()
                self._counts["logouts"] += 1
            else:
                self._use(self._client)
        except Rejected:
            self._counts["rejected"] += 1
        except (ExchangeUnreachable, SessionEnded, LoginRefused, RequestRejected) as error:
            self._counts[type(error).__name__] += 1
            self._close()
        except ReportGap as error:
            self._counts["lost"] += 1
            self._notes.append(f"lost: {self._name}: {error}")
            self._close()

    def _log_in(self) -> None:
        self._client = connect(self._endpoint, self._name, replace=True)
        self._counts["logins"] += 1
        known = self._client.session.next_command_id - 1
        if known < self._acknowledged:
            self._counts["lost"] += 1
            self._notes.append(
                f"lost: {self._name}: WELCOME has command {known}; {self._acknowledged} was acknowledged"
            )
        self._leave_s = now_s() + STAY_S * self._random.uniform(0.7, 1.3)
        self._client.follow(self._symbol, "l2")
        self._client.follow(self._symbol, "l3")
        self._client.subscribe("trade", self._symbol)

    def _use(self, client: Exchange) -> None:
        for _ in range(ITEMS_MAX):
            if client.wait(0) is None:
                break
        bids, asks = client.book(self._symbol, DEPTH)
        client.trades(self._symbol, 20)
        client.ask(Kind.STATISTICS)
        if bids and asks and len(client.session.open_orders()) < 8:
            price = bids[0].price_ticks - int(self._random.integers(0, 20))
            order = client.buy(self._symbol, int(self._random.integers(1, 10)), price)
            if order.state == "open":
                client.replace(order, 5, price - 1)
                self._acknowledged = client.session.next_command_id - 1
        else:
            client.mass_cancel()
            self._acknowledged = client.session.next_command_id - 1

    def _compare(self, client: Exchange) -> None:
        """Once no commands arrive, the books that were followed are those of a query, or become so with a repeat of the feed."""
        self._rest_s = self._rest_s or now_s()
        followed = client.book(self._symbol, 0)
        reply = client.ask(Kind.L2, client.instrument(self._symbol).number, 0)
        queried = tuple([tuple(level) for level in side] for side in reply[5])
        if queried == tuple([tuple(level) for level in side] for side in followed):
            self._counts["books compared"] += 1
            self._compared = True
        elif now_s() - self._rest_s > NOTICE_S:
            self._counts["books differ"] += 1
            self._notes.append(f"unexpected: {self._name}: the followed book of {self._symbol} differs from a query's")
            self._compared = True

    def _close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client, self._next_s = None, now_s() + float(self._random.uniform(0.5, 2.0))


def watch(endpoint: str, names: list[str], symbols: int, control: Any, report: Connection, parent: int) -> None:
    """Runs the library's clients until the parent ends."""
    counts: Counter[str] = Counter()
    notes: list[str] = []
    quiet = quiet_symbols(symbols)
    watchers = [
        _Watcher(endpoint, name, f"S{quiet[index % len(quiet)]}", counts, notes, index)
        for index, name in enumerate(names)
    ]
    never_read = _subscribe_and_never_read(endpoint, quiet.stop)
    reported, deaf_s = 0.0, now_s()
    while not parent_is_gone(parent):
        for watcher in watchers:
            watcher.round(bool(control[HOLD]), bool(control[REST]))
        if now_s() - reported > REPORT_S:
            reported = now_s()
            report.send(({**counts, "live": sum(watcher.live for watcher in watchers)}, notes[:], []))
            notes.clear()
        if now_s() > deaf_s and not control[HOLD]:
            deaf_s = now_s() + DEAF_EVERY_S
            counts["floods without reading"] += _flood_without_reading(endpoint)
        time.sleep(PAUSE_S)
    never_read.close()


def _subscribe_and_never_read(endpoint: str, symbol: int) -> "zmq.Socket[bytes]":
    """A subscriber of a busy symbol whose messages must be dropped."""
    feed: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.SUB)
    feed.linger, feed.rcvhwm = 0, 100
    feed.connect(socket_endpoints(endpoint)["feed"])
    for channel in ("l2", "l3", "rows"):
        feed.subscribe(f"{channel}/S{symbol}/".encode())
    return feed


def _flood_without_reading(endpoint: str) -> bool:
    """Logs in, sends orders that trade at once or never, reads nothing, and leaves. True if it got that far."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    socket.linger, socket.rcvhwm, socket.rcvbuf, socket.sndhwm = 0, 1, 4096, DEAF_ORDERS
    socket.connect(endpoint)
    try:
        socket.send(msgpack.packb([Kind.HELLO, VERSION, VERSION, "deaf", "", -1, {"replace": True}]))
        welcome = msgpack.unpackb(socket.recv(), strict_map_key=False) if socket.poll(2000) else [0]
        if welcome[0] != Kind.WELCOME:
            return False
        for command_id in range(welcome[5] + 1, welcome[5] + 1 + DEAF_ORDERS):
            socket.send(msgpack.packb([1, command_id, 0, 0, 1, 1, int(TimeInForce.IOC), 0, 0]), zmq.DONTWAIT)
        time.sleep(1.0)
    except zmq.Again:
        return False
    finally:
        socket.close()
    return True


def scrape(metrics_url: str, dashboard_url: str, control: Any, report: Connection, parent: int) -> None:
    """Reads the metrics and holds a page of the dashboard open, until the parent ends."""
    counts: Counter[str] = Counter()
    address = dashboard_url.replace("http://", "ws://") + "live"
    while not parent_is_gone(parent):
        try:
            with open_websocket(address, origin=Origin(dashboard_url.rstrip("/")), max_size=None) as page:
                counts["pages"] += 1
                until = now_s() + 60.0
                while now_s() < until and not parent_is_gone(parent):
                    with urllib.request.urlopen(metrics_url, timeout=30) as reply:
                        counts["scrapes"] += b"serl_up 1.0" in reply.read()
                    next_s = now_s() + SCRAPE_S
                    while now_s() < next_s:
                        try:
                            frame = json.loads(page.recv(timeout=max(0.01, next_s - now_s())))
                            page.send(json.dumps({"seen": frame["n"]}))
                            counts["page frames"] += 1
                        except TimeoutError:
                            break
                    report.send((dict(counts), [], []))
        except (OSError, WebSocketException) as error:
            counts[f"scrape {type(error).__name__}"] += 1
            time.sleep(1.0)
