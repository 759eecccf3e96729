"""The SoupBinTCP server in this process, with a stream that tests write to: logins, heartbeats, replays, limits and rubbish."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from serl.exchange.errors import ConfigError
from serl.gateways.connections import ConnectionLimits
from serl.gateways.soup.packets import NO_SESSION, NOT_AUTHORIZED, Login, packet, read_login
from serl.gateways.soup.server import Connection, Refusal, SoupLimits, SoupServer
from serl.gateways.soup.stream import Mark, StreamLog
from tests.gateways.ouch.client import login, soup

SESSION = "1234567890"
QUICK = SoupLimits(
    heartbeat_s=0.2,
    silence_s=0.6,
    login_s=0.5,
    blocked_s=0.4,
    connections=ConnectionLimits(total=4, per_address=4),
    packet_bytes_max=512,
    unread_bytes_max=1 << 14,
)
WAIT_S = 10


def numbered(first: int, count: int, size: int = 8) -> bytes:
    """Sequenced packets whose payloads are their numbers."""
    return b"".join(packet(b"S", str(number).zfill(size).encode()) for number in range(first, first + count))


class Feed:
    """A stream that tests write to, and what clients sent it."""

    def __init__(self, path: Path, exclusive: bool = False) -> None:
        self.log = StreamLog(path)
        self.readers: set[Connection] = set()
        self.exclusive = exclusive
        self.received: list[bytes] = []

    def receive(self, connection: Connection, data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        self.received += [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def add(self, count: int, size: int = 8) -> None:
        packets = numbered(self.log.count + 1, count, size)
        self.log.append(packets, count)
        for reader in list(self.readers):
            reader.send_new(packets, count)


class Service:
    """A server and clients of it."""

    def __init__(self, folder: Path, limits: SoupLimits) -> None:
        self.feed = Feed(folder / "stream", exclusive=True)
        self.reported: list[str] = []
        self.server = SoupServer(SESSION, self._authorize, self.reported.append, limits)
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    def _authorize(self, request: Login) -> Feed:
        if (request.user, request.secret) != ("alice", "secret"):
            raise Refusal(NOT_AUTHORIZED, "no such user")
        if request.session not in ("", SESSION):
            raise Refusal(NO_SESSION, "another session")
        return self.feed

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(writer)
        return reader, writer

    async def logged_in(
        self, sequence: int = 1, tail: str = ""
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, int]:
        """(reader, writer, next sequence number)."""
        reader, writer = await self.connect()
        writer.write(login("alice", "secret", sequence, tail=tail))
        kind, payload = await read(reader)
        assert kind == b"A" and payload[:10].decode() == SESSION, (kind, payload)
        return reader, writer, int(payload[10:])

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
        await self.server.close()
        self.feed.log.close()


async def read(reader: asyncio.StreamReader, heartbeats: bool = False) -> tuple[bytes, bytes]:
    """The next packet; (b"", b"") at the end."""
    while True:
        try:
            size = int.from_bytes(await asyncio.wait_for(reader.readexactly(2), WAIT_S), "big")
            data = await asyncio.wait_for(reader.readexactly(size), WAIT_S)
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return b"", b""
        if data[:1] != b"H" or heartbeats:
            return data[:1], data[1:]


async def read_numbers(reader: asyncio.StreamReader, count: int) -> list[int]:
    return [int((await read(reader))[1]) for _ in range(count)]


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(200 * WAIT_S):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("waited in vain")


@asynccontextmanager
async def service(folder: Path, limits: SoupLimits = QUICK) -> AsyncIterator[Service]:
    started = Service(folder, limits)
    started.port = await started.server.listen("127.0.0.1", 0)
    try:
        yield started
    finally:
        await started.close()


def run(folder: Path, test: Callable[[Service], Coroutine[Any, Any, None]], limits: SoupLimits = QUICK) -> None:
    async def main() -> None:
        async with service(folder, limits) as started:
            await test(started)

    asyncio.run(main())


def test_a_client_replays_from_any_message_and_then_follows(tmp_path: Path) -> None:
    async def main(it: Service) -> None:
        it.feed.add(5)
        it.feed.add(3)
        for sequence in (1, 2, 5, 6, 8, 9):
            reader, _, begins = await it.logged_in(sequence)
            assert begins == sequence
            assert await read_numbers(reader, 9 - sequence) == list(range(sequence, 9))
        it.feed.add(2)
        assert await read_numbers(reader, 2) == [9, 10]
        reader, _, begins = await it.logged_in(0)
        it.feed.add(1)
        assert begins == 11 and await read_numbers(reader, 1) == [11]

    run(tmp_path, main)


@pytest.mark.parametrize(
    "request_, reason",
    [
        (login("alice", "wrong"), b"A"),
        (login("mallor", "secret"), b"A"),
        (login("", ""), b"A"),
        (login("alice", "secret", 1, "other"), b"S"),
        (login("alice", "secret", 2), b"S"),
        (login("alice", "secret", 10**19), b"S"),
    ],
)
def test_a_refused_login_is_told_why(tmp_path: Path, request_: bytes, reason: bytes) -> None:
    async def main(it: Service) -> None:
        reader, writer = await it.connect()
        writer.write(request_)
        assert await read(reader) == (b"J", reason)
        assert await read(reader) == (b"", b"")

    run(tmp_path, main)


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0", b"\xff\xff", b"\xff\xffL" + b"x" * 70_000, soup(b"U", b"O"), soup(b"R"), soup(b"L", b"short"), soup(b"\0"),
        soup(b"L", b"\xff" * 46), soup(b"L", b" " * 45 + b"x"), b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)),
    ],
)  # fmt: skip
def test_junk_before_a_login_ends_the_connection(tmp_path: Path, data: bytes) -> None:
    async def main(it: Service) -> None:
        reader, writer = await it.connect()
        writer.write(data)
        kind, text = await read(reader)
        assert (kind == b"+" and text.startswith(b"expected")) or kind == b"", (kind, text)
        assert await read(reader) == (b"", b"")
        await it.logged_in()

    run(tmp_path, main)


def test_packets_arrive_byte_by_byte_and_many_at_once(tmp_path: Path) -> None:
    async def main(it: Service) -> None:
        reader, writer = await it.connect()
        data = (
            login("alice", "secret")
            + soup(b"R")
            + soup(b"U", b"one")
            + soup(b"+", b"note")
            + soup(b"U", b"two")
            + soup(b"U")
        )
        for byte in data:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        assert (await read(reader))[0] == b"A"
        writer.write(b"".join(soup(b"U", str(number).encode()) for number in range(1000)))
        await until(lambda: len(it.feed.received) == 1003)
        assert it.feed.received == [b"one", b"two", b"", *(str(number).encode() for number in range(1000))]
        writer.write(soup(b"O"))
        assert await read(reader) == (b"", b"")

    run(tmp_path, main)


def test_wrong_packets_after_a_login_end_the_connection(tmp_path: Path) -> None:
    async def main(it: Service) -> None:
        for data in (b"\0\0", b"\xff\xff", soup(b"L", b"again"), soup(b"S", b"mine"), soup(b"?")):
            reader, writer, _ = await it.logged_in()
            writer.write(data)
            kind, text = await read(reader)
            assert kind == b"+" and text.startswith(b"expected a packet"), (data, kind, text)
            assert await read(reader) == (b"", b"")

    run(tmp_path, main)


def test_heartbeats_are_sent_and_expected(tmp_path: Path) -> None:
    async def main(it: Service) -> None:
        reader, writer, _ = await it.logged_in()
        for _ in range(6):  # longer than a silent client lasts
            assert await read(reader, heartbeats=True) == (b"H", b"")
            writer.write(soup(b"R"))
        while (packet_ := await read(reader))[0] == b"H":
            pass
        assert packet_[0] == b"+" and b"heartbeat within 0.6 s" in packet_[1]
        assert await read(reader) == (b"", b"")

    run(tmp_path, main)


def test_version_4_gives_the_timeout_itself(tmp_path: Path) -> None:
    async def main(it: Service) -> None:
        reader, _, _ = await it.logged_in(tail="  300")
        kind, text = await read(reader)
        assert kind == b"+" and b"within 0.3 s" in text

    run(tmp_path, main)


def test_a_connection_that_does_not_log_in_is_closed(tmp_path: Path) -> None:
    async def main(it: Service) -> None:
        reader, _ = await it.connect()
        kind, text = await read(reader)
        assert kind == b"+" and b"expected a login within" in text
        assert await read(reader) == (b"", b"")

    run(tmp_path, main)


def test_a_later_login_of_a_user_ends_the_earlier(tmp_path: Path) -> None:
    async def main(it: Service) -> None:
        first, _, _ = await it.logged_in()
        second, _, _ = await it.logged_in()
        assert (await read(first))[0] == b"+" and await read(first) == (b"", b"")
        it.feed.add(1)
        assert await read_numbers(second, 1) == [1]

    run(tmp_path, main)


def test_connections_beyond_the_limit_are_closed(tmp_path: Path) -> None:
    async def main(it: Service) -> None:
        held = [await it.connect() for _ in range(QUICK.connections.total)]
        reader, _ = await it.connect()
        assert await read(reader) == (b"", b"")
        assert "4 connections are open" in it.reported[0]
        held[0][1].close()
        await until(lambda: len(it.server.connections) < QUICK.connections.total)
        await it.logged_in()

    run(tmp_path, main)


def test_a_client_that_does_not_read_is_cut_and_costs_no_memory(tmp_path: Path) -> None:
    async def main(it: Service) -> None:
        reader, _, _ = await it.logged_in()
        reader._transport.pause_reading()  # pyrefly: ignore[missing-attribute]
        (connection,) = it.feed.readers
        for _ in range(200):
            it.feed.add(100, 400)
        assert connection._transport.get_write_buffer_size() < 1 << 17
        await until(lambda: not it.feed.readers)
        assert any("read nothing" in line for line in it.reported)
        reader, _, _ = await it.logged_in(19_999)
        assert await read_numbers(reader, 2) == [19_999, 20_000]

    run(tmp_path, main)


def test_a_slow_client_gets_everything(tmp_path: Path) -> None:
    async def main(it: Service) -> None:
        reader, _, _ = await it.logged_in()
        for _ in range(40):
            it.feed.add(100, 400)
        assert await read_numbers(reader, 4000) == list(range(1, 4001))

    run(tmp_path, main)


def test_random_bytes_never_raise(tmp_path: Path) -> None:
    async def main(it: Service) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: it.reported.append(f"raised {context}"))
        source = random.Random(1)
        for turn in range(60):
            reader, writer = await it.connect()
            if turn % 2:
                writer.write(login("alice", "secret"))
            for _ in range(source.randrange(4)):
                data = bytearray(
                    soup(source.choice([b"U", b"R", b"L", b"+", b"S"]), source.randbytes(source.randrange(60)))
                )
                data[source.randrange(len(data))] ^= 1 << source.randrange(8)
                writer.write(bytes(data))
            writer.write_eof()
            while (await read(reader))[0]:
                pass
            writer.close()
        assert not [line for line in it.reported if line.startswith("raised")]

    run(tmp_path, main)


def test_the_end_of_a_session_is_told(tmp_path: Path) -> None:
    async def main(it: Service) -> None:
        reader, _, _ = await it.logged_in()
        it.server.end_session("next")
        assert await read(reader) == (b"Z", b"") and await read(reader) == (b"", b"")

    run(tmp_path, main)


def test_a_stream_survives_and_drops_a_torn_end(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    log = StreamLog(path)
    assert (log.count, log.mark) == (0, Mark())
    log.append(numbered(1, 3), 3, Mark(7, 70, 700))
    log.append(b"", 0, Mark(8, 80, 800))
    log.append(numbered(4, 2), 2)
    log.close()
    whole = path.read_bytes()
    for end in range(len(whole) - 1, len(whole) - 20, -1):
        path.write_bytes(whole[:end])
        log = StreamLog(path)
        assert (log.count, log.mark) == (3, Mark(8, 80, 800))
        log.append(numbered(4, 1), 1)
        assert log.read(2) == (numbered(2, 2), 2) and log.read(4) == (numbered(4, 1), 1) and log.read(5) == (b"", 0)
        log.close()
    damaged = bytearray(whole)
    damaged[len(whole) - 3] ^= 1
    path.write_bytes(damaged)
    log = StreamLog(path)
    assert log.count == 3
    log.close()
    path.write_bytes(b"something else")
    with pytest.raises(ConfigError, match="expected a stream of a gateway"):
        StreamLog(path)


def test_logins_of_both_versions_are_read() -> None:
    request = read_login(login("alice", "secret", 17, "ABC")[3:])
    assert request == Login("alice", "secret", "ABC", 17, 0)
    assert read_login(login("alice", "secret", 17, "ABC", " 5000")[3:]) == Login("alice", "secret", "ABC", 17, 5000)
