"""The packets of SoupBinTCP: a two-byte length of the rest of the packet, a type, and the payload; big-endian."""

import struct
from dataclasses import dataclass

LOGIN_REQUEST, LOGIN_ACCEPTED, LOGIN_REJECTED = b"L", b"A", b"J"
SEQUENCED, UNSEQUENCED, DEBUG = b"S", b"U", b"+"
SERVER_HEARTBEAT, CLIENT_HEARTBEAT = b"H", b"R"
END_OF_SESSION, LOGOUT = b"Z", b"O"
NOT_AUTHORIZED, NO_SESSION = b"A", b"S"
"""Reasons of a rejected login: user name or password; session or sequence number."""

USER_BYTES, SECRET_BYTES, SESSION_BYTES, SEQUENCE_BYTES, TIMEOUT_BYTES = 6, 10, 10, 20, 5
HEAD_BYTES = 3
LOGIN_3_BYTES = 1 + USER_BYTES + SECRET_BYTES + SESSION_BYTES + SEQUENCE_BYTES
LOGIN_4_BYTES = LOGIN_3_BYTES + TIMEOUT_BYTES
"""Packet lengths of a login: version 4.0 adds a heartbeat timeout."""


@dataclass(frozen=True)
class Login:
    """A login request.

    Attributes:
        user: user name.
        secret: password.
        session: the requested session; "" for the current one.
        sequence: number of the next message that the client wants, from 1; 0: only new ones.
        timeout_ms: version 4.0: the client sends a heartbeat at least this often; 0 in version 3.0.
    """

    user: str
    secret: str
    session: str
    sequence: int
    timeout_ms: int


def packet(kind: bytes, payload: bytes = b"") -> bytes:
    """Encodes a packet."""
    return struct.pack(">H", len(payload) + 1) + kind + payload


def read_login(payload: bytes) -> Login | None:
    """Decodes the payload of a login request, without its type; None if it is not one."""
    if len(payload) + 1 not in (LOGIN_3_BYTES, LOGIN_4_BYTES):
        return None
    try:
        fields = payload.decode("ascii")
    except UnicodeDecodeError:
        return None
    texts, at = [], 0
    for width in (USER_BYTES, SECRET_BYTES, SESSION_BYTES, SEQUENCE_BYTES, TIMEOUT_BYTES):
        texts.append(fields[at : at + width].strip(" \0"))
        at += width
    user, secret, session, sequence, timeout = texts
    if not (sequence or "0").isdigit() or not (timeout or "0").isdigit():
        return None
    return Login(user, secret, session, int(sequence or "0"), int(timeout or "0"))


def login_accepted(session: str, sequence: int) -> bytes:
    """The packet that accepts a login; sequence: number of the next message that the client receives."""
    return packet(LOGIN_ACCEPTED, session.rjust(SESSION_BYTES).encode() + str(sequence).rjust(SEQUENCE_BYTES).encode())


def debug(text: str) -> bytes:
    """A debug packet, which people read and programs ignore."""
    return packet(DEBUG, text.encode("ascii", "replace"))
