"""A ZMTP 3.0 client over a plain TCP socket: it sends what libzmq's sockets would not, for example an UNSUBSCRIBE of what it never subscribed to."""

import socket

from serl.exchange.config import socket_endpoints

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
LONG, COMMAND = 2, 4


def frame(body: bytes, flags: int = 0) -> bytes:
    """A ZMTP frame (rfc.zeromq.org/spec/23)."""
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | LONG]) + len(body).to_bytes(8, "big") + body


def raw_connection(endpoint: str, name: str = "feed", kind: bytes = b"SUB") -> socket.socket:
    """A connection to a socket of an exchange after the handshake; `kind`: the type of socket that it pretends to be."""
    host, port = socket_endpoints(endpoint)[name].removeprefix("tcp://").rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=10)
    ready = b"\x05READY\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind
    connection.sendall(GREETING + frame(ready, COMMAND))
    received = b""
    while len(received) < 64 + 2 or len(received) < 66 + received[65]:
        data = connection.recv(4096)
        if not data:
            connection.close()
            raise ConnectionResetError("closed before the end of the handshake")
        received += data
    return connection
