"""Orders over FIX 4.4 through `serl fix start`, to an exchange with its journal on.

fix_orders_per_s: one client process keeps 1,000 orders in flight over one session; an order counts when its ExecutionReport has arrived. A
tenth of the orders trade at once, the others rest. fix_added_p99_us: 99th percentile of the time from when an order is due, 500 a second,
until its ExecutionReport has arrived, minus that of the native client (pyzmq, msgpack) with the same orders on the same exchange. Medians of three turns.
"""

import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgpack
import numpy as np
import simplefix

from benchmarks import client
from serl.gateways.fix.codec import Framer, Message, UtcClock, encode
from tests.server_fixture import start_exchange

COUNT, WINDOW, CHUNK = 40_000, 1000, 64
RATE_PER_S, PACED, ROUNDS = 500, 1500, 3
CODEC_ROUNDS = 5000
SYMBOL, MID = "S0", 10_000
_ACCEPTED = b"\x01150=0\x01"
_REPORT = b"\x0135=8\x01"


@contextmanager
def _gateway(endpoint: str, folder: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """A gateway process: its port, and the passwords of its two clients."""
    command = [sys.executable, "-m", "serl", "fix", "start", "--connect", endpoint, "--listen", "127.0.0.1:0", "--store", str(folder)]  # fmt: skip
    process = subprocess.Popen([*command, "--account", "load", "--account", "paced"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(6)]
    try:
        port = re.search(r"listen +\S+:(\d+)", "".join(lines))
        assert port is not None, lines
        yield int(port[1]), dict(re.findall(r"SenderCompID (\w+), Password (\S+)", "".join(lines)))
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


class _Client:
    """A logged-on connection whose messages were made before."""

    def __init__(self, port: int, name: str, password: str) -> None:
        self.name, self._seq, self._clock = name, 1, UtcClock()
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(self.message("A", f"98=0\x01108=600\x01141=Y\x01554={password}\x01"))
        assert b"\x0135=A\x01" in self.socket.recv(1 << 16)

    def message(self, kind: str, body: str) -> bytes:
        seq, self._seq = self._seq, self._seq + 1
        return encode(f"35={kind}\x0149={self.name}\x0156=SERL\x0134={seq}\x0152={self._clock.now()}\x01{body}")

    def orders(self, count: int) -> list[bytes]:
        """Orders by turns on both sides, 1 to 20 ticks behind the mid; each tenth reaches across it."""
        random, stamp = np.random.default_rng(1), self._clock.now()
        found = []
        for index, away in enumerate(random.integers(1, 21, count).tolist()):
            side = index % 2 + 1
            price = MID + (away if (side == 2) != (index % 10 == 0) else -away)
            body = f"11={self.name}{index}\x0155={SYMBOL}\x0154={side}\x0160={stamp}\x0138=5\x0140=2\x0144={price / 100:.2f}\x0159=1\x01"
            found.append(self.message("D", body))
        return found


def _throughput(port: int, password: str) -> float:
    connection = _Client(port, "load", password)
    messages = connection.orders(COUNT)
    sent = done = 0
    rest = b""
    connection.socket.settimeout(60)
    began = time.perf_counter()
    while done < COUNT:
        while sent < COUNT and sent - done < WINDOW:
            connection.socket.sendall(b"".join(messages[sent : sent + CHUNK]))
            sent += CHUNK
        data = rest + connection.socket.recv(1 << 18)
        assert data != rest, "the gateway ended the connection"
        done += data.count(_ACCEPTED)
        rest = data[-(len(_ACCEPTED) - 1) :]
        rest = b"" if _ACCEPTED in rest else rest
    elapsed = time.perf_counter() - began
    connection.socket.close()
    return COUNT / elapsed


def _p99(round_trip: Callable[[int], None]) -> float:
    """Microseconds at a fixed rate, each from its scheduled time, so delays of earlier ones count."""
    latencies = np.zeros(PACED)
    start = time.perf_counter() + 0.01
    for index in range(PACED):
        scheduled = start + index / RATE_PER_S
        while time.perf_counter() < scheduled:
            time.sleep(1e-5)
        round_trip(index)
        latencies[index] = time.perf_counter() - scheduled
    return float(np.percentile(latencies[PACED // 10 :], 99)) * 1e6


def _added(port: int, password: str, endpoint: str, turn: int) -> float:
    connection = _Client(port, "paced", password)
    messages = connection.orders(PACED)

    def over_fix(index: int) -> None:
        connection.socket.sendall(messages[index])
        while _REPORT not in connection.socket.recv(1 << 16):
            continue

    native = client.login(endpoint, f"native{turn}")

    def directly(index: int) -> None:
        native.send(msgpack.packb([1, index + 1, 0, index % 2, 5, MID + (20 if index % 2 else -20), 1, 0, 0]))
        client.answer(native)

    found = _p99(over_fix) - _p99(directly)
    connection.socket.close()
    native.close()
    return found


def codecs() -> dict[str, float]:
    """Processor time in microseconds to read an order and to write a report, with the gateway's codec and with simplefix."""
    report = [(37, 17), (11, "o17"), (17, 18), (150, 0), (39, 0), (55, SYMBOL), (54, 1), (40, 2), (59, 1), (38, 5), (44, "99.50"), (151, 5), (14, 0), (6, 0), (60, UtcClock().now())]  # fmt: skip
    text = "".join(f"{tag}={value}\x01" for tag, value in [(35, 8), (49, "SERL"), (56, "load"), (34, 17), (52, UtcClock().now()), *report])  # fmt: skip
    order = encode(
        f"35=D\x0149=load\x0156=SERL\x0134=17\x0152={UtcClock().now()}\x0111=o17\x0155=S0\x0154=1\x0138=5\x0140=2\x0144=99.50\x0159=1\x01"
    )
    framer, parser = Framer(), simplefix.FixParser()

    def ours() -> None:
        framer.feed(order)
        frame = framer.next()
        assert frame is not None and Message(frame).type == "D"
        encode(text)

    def theirs() -> None:
        parser.append_buffer(order)
        assert parser.get_message().get(35) == b"D"
        message = simplefix.FixMessage()
        message.append_pair(8, "FIX.4.4")
        for field in text.split("\x01")[:-1]:
            tag, _, value = field.partition("=")
            message.append_pair(tag, value)
        message.encode()

    found = {}
    for name, work in (("serl_codec_us", ours), ("simplefix_us", theirs)):
        began = time.process_time()
        for _ in range(CODEC_ROUNDS):
            work()
        found[name] = (time.process_time() - began) / CODEC_ROUNDS * 1e6
    return found


def run() -> dict[str, float]:
    """All figures."""
    rates, added = [], []
    with tempfile.TemporaryDirectory(prefix="serl-bench-") as name:
        folder = Path(name)
        for turn in range(ROUNDS):
            with (
                start_exchange(symbols=SYMBOL, journal=folder / f"journal{turn}") as exchange,
                _gateway(exchange.endpoint, folder / f"store{turn}") as (port, passwords),
            ):
                rates.append(_throughput(port, passwords["load"]))
                added.append(_added(port, passwords["paced"], exchange.endpoint, turn))
    return {"fix_orders_per_s": float(np.median(rates)), "fix_added_p99_us": float(np.median(added))}
