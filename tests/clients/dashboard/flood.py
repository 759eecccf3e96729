"""`python -m tests.clients.dashboard.flood ENDPOINT RATE SECONDS`: a fake exchange whose feed sends RATE messages per second.

The quantity of the best bid is the current time in milliseconds, modulo a million seconds.
"""

import sys
import time

import msgpack
import numpy as np
import zmq

from serl.exchange.config import socket_endpoints
from serl.exchange.records import EVENT, EventFlag, EventKind
from serl.exchange.wire import REPLY, Kind

BURST_S = 0.005
MODULUS_MS = 1_000_000_000


def now_ms() -> int:
    """The current time, small enough for a quantity."""
    return time.time_ns() // 1_000_000 % MODULUS_MS


def main(endpoint: str, rate: float, seconds: float) -> None:
    """Publishes l2 and rows in turn and a trade every 50 messages; replies to queries."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    feed, queries = context.socket(zmq.XPUB), context.socket(zmq.ROUTER)
    feed.sndhwm = 100_000
    feed.bind(socket_endpoints(endpoint)["feed"])
    queries.bind(socket_endpoints(endpoint)["queries"])
    row = np.zeros(1, EVENT)
    row["kind"], row["flags"], row["qty_lots"], row["leaves_lots"] = EventKind.ACCEPTED, EventFlag.RESTING, 5, 5
    rows = row.tobytes()
    started_s = time.monotonic()
    sequence = {"l2": 0, "rows": 0, "trade": 0}
    sent = 0
    print("ready", flush=True)
    while (passed_s := time.monotonic() - started_s) < seconds:
        reply_to_all(queries, sequence["l2"], started_s)
        while sent < passed_s * rate:
            channel = "trade" if sent % 50 == 0 else "l2" if sent % 2 else "rows"
            number = sent + 1
            items = {"l2": [[0, 99, now_ms(), 1]], "rows": rows, "trade": [[number, 0, 100, 3, 0, 0]]}[channel]
            kind = {"l2": 113, "rows": 118, "trade": 115}[channel]
            message = msgpack.packb([kind, 1, sequence[channel], number, time.time_ns(), items])
            feed.send_multipart([f"{channel}/DEMO/".encode(), message])
            sequence[channel] = number
            sent += 1
        time.sleep(BURST_S)
    context.destroy(0)


def reply_to_all(queries: "zmq.Socket[bytes]", sequence: int, started_s: float) -> None:
    """Replies to every query that has arrived."""
    while queries.poll(0):
        route, data = queries.recv_multipart()
        kind, request, *_ = msgpack.unpackb(data)
        result = {
            Kind.INFO: [1, [[0, "DEMO", "0.01", "1"]], ["live", 1.0, 0, 0], {"qty_lots_max": 1}],
            Kind.L2: [[[99, now_ms(), 1]], [[101, 7, 1]]],
            Kind.TRADES: [],
            Kind.STATUS: [0, 0, 0],
            Kind.NEWS: [0, []],
            Kind.STATISTICS: {"commands": 0, "events": 0, "messages": 0, "orders_open": 0, "sessions": 0, "uptime_s": time.monotonic() - started_s},
        }[kind]  # fmt: skip
        queries.send_multipart([route, msgpack.packb([kind + REPLY, request, 1, sequence, time.time_ns(), result])])


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
