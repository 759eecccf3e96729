"""A blocking FIX client for tests. simplefix, a codec by others, makes its messages and reads those of the gateway."""

import socket
from datetime import UTC, datetime, timedelta
from typing import Any

import simplefix

WAIT_S = 20.0
Fields = dict[str, str]


def timestamp(seconds: float = 0.0) -> str:
    """Now, or so many seconds later, as a UTCTimestamp."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.strftime("%Y%m%d-%H:%M:%S.") + f"{moment.microsecond // 1000:03d}"


class FixClient:
    """One connection. `expected` is the number of the next message of the gateway; each is checked unless `strict` is false."""

    def __init__(self, port: int, login: str = "alice", password: str = "", *, target: str = "SERL", seq: int = 1, expected: int = 1) -> None:  # fmt: skip
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        self.login, self.password, self.target = login, password, target
        self.seq, self.expected = seq, expected
        self.begin_string = "FIX.4.4"
        self.strict = True
        self._parser = simplefix.FixParser()
        #: of the last message, in order
        self.pairs: list[tuple[str, str]] = []

    def message(self, kind: str, *pairs: tuple[int, Any], seq: int | None = None, drop: tuple[int, ...] = (), **header: Any) -> bytes:  # fmt: skip
        """A message; `header` sets or adds header fields as t52="..."; drop: tags to leave out."""
        given = {int(tag[1:]): value for tag, value in header.items()}
        number = self.seq if seq is None else seq
        if seq is None:
            self.seq += 1
        head: list[tuple[int, Any]] = [(8, self.begin_string), (35, kind), (49, self.login), (56, self.target), (34, number), (52, timestamp())]  # fmt: skip
        message = simplefix.FixMessage()
        for tag, value in head:
            if tag not in drop:
                message.append_pair(tag, given.pop(tag, value), header=True)
        for tag, value in given.items():
            message.append_pair(tag, value, header=True)
        for tag, value in pairs:
            if tag not in drop:
                message.append_pair(tag, value)
        return bytes(message.encode())

    def send(self, kind: str, *pairs: tuple[int, Any], **options: Any) -> None:
        """Sends a message."""
        self.send_raw(self.message(kind, *pairs, **options))

    def send_raw(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self.socket.sendall(data)

    def logon(self, *pairs: tuple[int, Any], heartbeat_s: int = 30, **options: Any) -> Fields:
        """Logs on; returns the answer."""
        self.send("A", (98, 0), (108, heartbeat_s), (554, self.password), *pairs, **options)
        return self.receive("A")

    def order(self, cl_ord_id: str, side: int = 1, qty: Any = 10, price: Any = "100", *more: tuple[int, Any], symbol: str = "AMZN", **options: Any) -> None:  # fmt: skip
        """Sends a NewOrderSingle; a limit order if it has a price."""
        kind = [(40, 2), (44, price)] if price is not None else [(40, 1)]
        given = {tag for tag, _ in more}
        pairs = [(11, cl_ord_id), (55, symbol), (54, side), (60, timestamp()), (38, qty), *kind]
        self.send("D", *((tag, value) for tag, value in pairs if tag not in given), *more, **options)

    def _read(self) -> Fields | None:
        """The next message in order; None at the end of the connection."""
        while True:
            message = self._parser.get_message()
            if message is not None:
                break
            data = self.socket.recv(1 << 16)
            if not data:
                return None
            self._parser.append_buffer(data)
        check_bytes(message.encode(raw=True))
        self.pairs = [(tag.decode(), value.decode("latin-1")) for tag, value in message.pairs]
        return {tag.decode(): value.decode("latin-1") for tag, value in message.pairs}

    def receive(self, *kinds: str) -> Fields:
        """The next message, whose MsgType must be one of `kinds` if any are given. Heartbeats are skipped unless asked for."""
        while True:
            fields = self._read()
            assert fields is not None, f"the connection ended; expected {kinds}"
            if fields.get("43") != "Y":
                assert not self.strict or int(fields["34"]) == self.expected, (fields, self.expected)
                self.expected = int(fields["34"]) + 1
            if fields["35"] == "0" and "0" not in kinds:
                continue
            assert not kinds or fields["35"] in kinds, fields
            return fields

    def receive_pairs(self, *kinds: str) -> list[tuple[str, str]]:
        """The fields of the next message in order, with repeated ones."""
        self.receive(*kinds)
        return self.pairs

    def ended(self) -> bool:
        """Whether the gateway ends the connection without another message."""
        try:
            fields = self._read()
        except ConnectionResetError:
            return True
        assert fields is None, fields
        return True

    def logout(self) -> None:
        """Logs out and waits for the answer and the end."""
        self.send("5")
        while self.receive()["35"] != "5":
            pass
        assert self.ended()
        self.socket.close()

    def close(self) -> None:
        """Disconnects without a Logout."""
        self.socket.close()

    def __enter__(self) -> "FixClient":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def check_bytes(data: bytes) -> None:
    """BodyLength and CheckSum by the definition."""
    body = data[data.index(b"\x01", data.index(b"\x019=") + 1) + 1 : -7]
    assert int(data[data.index(b"\x019=") + 3 :].split(b"\x01")[0]) == len(body), data
    assert int(data[-4:-1]) == sum(data[:-7]) % 256, data
