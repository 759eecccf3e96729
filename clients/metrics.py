"""Metrics of an exchange for Prometheus: what it did and refused, and its limits. Also its health: whether it answers and accepts orders."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from serl.exchange.errors import ExchangeUnreachable, RequestRejected
from serl.exchange.wire import Kind

GAUGES = {
    "orders_open": "Open orders.",
    "sessions": "Sessions that are logged in.",
    "participants": "Names that have ever logged in, and the exchange's own.",
    "commands_waiting": "Commands that wait for their latency, their turn or the disk.",
    "disk_full": "1 while the journal's disk is full and orders are rejected.",
    "uptime_s": "Seconds since the exchange started.",
}
COUNTERS = {
    "commands": "Journaled commands, since the journal began.",
    "events": "Events, since the journal began.",
    "news": "Published news messages, since the journal began.",
    "messages": "Messages to the orders socket.",
    "credentials_refused": "Tokens and keys that were wrong or lacked the permission.",
    "connections_closed": "Connections closed because there were too many, or because one sent too much.",
}
LABELLED = {
    "errors": ("code", "Messages answered with ERROR."),
    "sessions_ended": ("code", "Sessions ended with GOODBYE."),
    "commands_rejected": ("reason", "Commands that the order book rejected."),
}
"""The statistics of docs/protocol.md, with the name of their label."""
Ask = Callable[[Kind], Any]
"""Returns the result of a query without arguments. Raises ExchangeUnreachable and RequestRejected."""


class ExchangeCollector(Collector):
    """Queries an exchange at each scrape."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._limits: dict[str, float] = {}
        self._started_s = -math.inf

    def _answers(self) -> dict[str, Any]:
        """The counts. Queries the limits only once in the life of an exchange: on a busy one every query waits for its turn."""
        asked_s = time.monotonic()
        counts: dict[str, Any] = self._ask(Kind.STATISTICS)
        started_s = time.monotonic() - counts["uptime_s"]
        if started_s - self._started_s > 1.0 + time.monotonic() - asked_s:
            self._limits, self._started_s = self._ask(Kind.INFO)[3], started_s
        return counts

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics; only `serl_up` 0 if the exchange does not answer."""
        try:
            counts = self._answers()
        except ExchangeUnreachable:
            yield GaugeMetricFamily("serl_up", "Whether the exchange answers.", 0)
            return
        yield GaugeMetricFamily("serl_up", "Whether the exchange answers.", 1)
        for name, text in GAUGES.items():
            yield GaugeMetricFamily(f"serl_{name}", text, counts[name])
        for name, text in COUNTERS.items():
            yield CounterMetricFamily(f"serl_{name}", text, counts[name])
        for name, (label, text) in LABELLED.items():
            family = CounterMetricFamily(f"serl_{name}", text, labels=[label])
            for code, count in counts[name].items():
                family.add_metric([code], count)
            yield family
        limit = GaugeMetricFamily("serl_limit", "The setting of each limit.", labels=["name"])
        for name, value in self._limits.items():
            limit.add_metric([name], value)
        yield limit


class _Pages(BaseHTTPRequestHandler):
    """/metrics; /health: the exchange answers; /ready: it takes orders."""

    timeout = 30
    """Seconds after which a connection that sends no request is closed: each takes a thread."""

    def __init__(self, registry: CollectorRegistry, ask: Ask, *arguments: Any) -> None:
        self._registry, self._ask = registry, ask
        super().__init__(*arguments)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]  # a scraper may add parameters
        if path == "/metrics":
            self._reply_metrics()
        elif path in ("/health", "/ready"):
            problem = self._problem(path)
            status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
            self._reply(status, f"{problem or 'ok'}\n".encode())
        else:
            self._reply(HTTPStatus.NOT_FOUND, b"expected /metrics, /health or /ready\n")

    def _reply_metrics(self) -> None:
        try:
            metrics = generate_latest(self._registry)
        except RequestRejected as error:  # the exchange answers, but not to our token: a scraper shows the text
            self._reply(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n".encode())
        else:
            self._reply(HTTPStatus.OK, metrics, CONTENT_TYPE_LATEST)

    def _problem(self, path: str) -> str:
        """Why the exchange is not healthy, or not ready; empty if it is."""
        try:
            counts = self._ask(Kind.STATISTICS)
        except (ExchangeUnreachable, RequestRejected) as error:
            return str(error)
        return "the disk is full: orders are rejected" if path == "/ready" and counts["disk_full"] else ""

    def _reply(self, status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Does nothing: a scrape every few seconds is not worth a log line."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints errors, except that of a scraper that disconnected before its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def metrics_server(ask: Ask, host: str, port: int) -> ThreadingHTTPServer:
    """Creates an HTTP server for the metrics of the exchange that `ask` queries; it serves once `serve_forever` is called. Raises OSError if
    it cannot listen there."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ExchangeCollector(ask))
    return _Server((host, port), partial(_Pages, registry, ask))
