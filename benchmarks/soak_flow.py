"""The traders of the soak: many sessions in one process, whose orders and reports are encoded and decoded in compiled code.

A session sends limit orders around a fixed mid (half of them DAY), of which it keeps at most RING open by cancelling the oldest, replaces some of them,
and takes liquidity now and then. So the book, and what the exchange knows of each session, stays as it is however long the run takes.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from serl.exchange.gateway.codec import read_int, write_int
from serl.exchange.libzmq import DONTWAIT, zmq_recv, zmq_send
from serl.exchange.records import CommandKind, TimeInForce
from serl.exchange.wire import Kind

SOCKET, LIVE, NEXT_ID, LAST_ACK, LAST_REPORT, REFUSED_ID, RANDOM, SLOT, SYMBOL, HEARD_NS, SENT, ACKED, GAPS = range(13)
"""Columns of a session: handle of its socket (0: none); whether it is logged in; the next command's id; the last command that a report answered; the number
of the last report; the last command whose report is not awaited, because a limit refused it or a connection lost it; state of its random numbers; next place in its ring; symbol; when it heard the exchange; counts of
commands sent and answered, and of reports that are missing."""
COLUMNS, RING = 13, 32
MID_TICKS, AWAY_TICKS = 100_000, 50
MESSAGES_MAX = 64
"""Messages that a session receives, or sends, in one turn."""
BUFFER_BYTES, MAIL_BYTES = 1 << 20, 8192
NEW, CANCEL, REPLACE, REPORTS = (
    int(CommandKind.NEW),
    int(CommandKind.CANCEL),
    int(CommandKind.REPLACE),
    int(Kind.REPORTS),
)
DAY, GTC, IOC = int(TimeInForce.DAY), int(TimeInForce.GTC), int(TimeInForce.IOC)
QUIET = (int(Kind.HEARTBEAT), int(Kind.PONG))


@njit(cache=True)
def _draw(session: Any, count: int) -> int:
    """A random number below `count` of the session's own sequence."""
    session[RANDOM] = session[RANDOM] * 6364136223846793005 + 1442695040888963407
    return ((session[RANDOM] >> 33) & 0x7FFFFFFF) % count


@njit(cache=True)
def _encode(session: Any, ring: Any, buffer: Any) -> int:
    """Writes the session's next command to the buffer. Returns its size."""
    command_id, choice, slot = session[NEXT_ID], _draw(session, 100), session[SLOT]
    side, lots, away = _draw(session, 2), 1 + _draw(session, 20), 1 + _draw(session, AWAY_TICKS)
    price = MID_TICKS - away if side == 0 else MID_TICKS + away
    picked = ring[_draw(session, RING)]
    if choice < 10:
        taking = MID_TICKS + away if side == 0 else MID_TICKS - away
        values = (NEW, session[SYMBOL], side, lots, taking, IOC, 0, 9)
    elif choice < 25 and picked:
        values = (REPLACE, picked, lots, price, 0, 0, 0, 6)
    elif ring[slot]:
        values = (CANCEL, ring[slot], 0, 0, 0, 0, 0, 4)
        ring[slot] = 0
    else:
        values = (NEW, session[SYMBOL], side, lots, price, DAY if choice < 60 else GTC, 0, 9)
        ring[slot] = command_id
        session[SLOT] = (slot + 1) % RING
    buffer[0], buffer[1] = 0x90 | values[7], values[0]
    at = write_int(buffer, 2, command_id)
    for field in range(1, values[7] - 2):
        at = write_int(buffer, at, values[field])
    session[NEXT_ID] += 1
    return write_int(buffer, at, 0)


@njit(cache=True)
def _read_reports(session: Any, buffer: Any, size: int) -> None:
    first, at = read_int(buffer, 2, size)
    count = np.int64(buffer[at]) & 0x0F
    at += 1
    if buffer[at - 1] == 0xDC:
        count = (np.int64(buffer[at]) << 8) | np.int64(buffer[at + 1])
        at += 2
    if first > session[LAST_REPORT] + 1:
        session[GAPS] += 1
    session[LAST_REPORT] = max(session[LAST_REPORT], first + count - 1)
    for _report in range(count):
        at += 1
        for field in range(14):
            value, at = read_int(buffer, at, size)
            if field == 2 and value > session[LAST_ACK]:
                session[LAST_ACK] = value
                session[ACKED] += 1


@njit(cache=True)
def turn(sessions: Any, rings: Any, budgets: Any, window: int, now_ns: int, buffer: Any, mail: Any, owners: Any) -> int:
    """Receives and sends for every session. sessions: (n, COLUMNS); rings: (n, RING) open orders; budgets: (n,) commands that each may send now, at most `window`
    unanswered. Messages that are neither reports nor heartbeats go to `mail` (m, MAIL_BYTES), those of session `owners[i]`. Returns their number."""
    mails = 0
    for index in range(len(sessions)):
        session = sessions[index]
        if session[SOCKET] == 0:
            continue
        for _message in range(MESSAGES_MAX):
            if mails == len(owners):
                break
            size = zmq_recv(session[SOCKET], buffer.ctypes.data, buffer.size, DONTWAIT)
            if size < 2:
                break
            session[HEARD_NS] = now_ns
            if buffer[1] == REPORTS:
                _read_reports(session, buffer, size)
            elif buffer[1] != QUIET[0] and buffer[1] != QUIET[1]:
                mail[mails, : min(size, MAIL_BYTES)] = buffer[: min(size, MAIL_BYTES)]
                owners[mails] = index
                mails += 1
                break  # the reports behind a WELCOME count after it
        if not session[LIVE]:
            continue
        for _message in range(MESSAGES_MAX):
            answered = max(session[LAST_ACK], session[REFUSED_ID])
            if budgets[index] < 1 or session[NEXT_ID] - 1 - answered >= window:
                break
            size = _encode(session, rings[index], buffer)
            if zmq_send(session[SOCKET], buffer.ctypes.data, size, DONTWAIT) < 0:
                break
            budgets[index] -= 1
            session[SENT] += 1
    return mails


def quiet_symbols(symbols: int) -> range:
    """The symbols of every tenth session, which Python clients can follow; the others share the busy ones."""
    return range(symbols // 2)


def new_sessions(count: int, symbols: int, seed: int) -> NDArray[np.int64]:
    """(count, COLUMNS) sessions that have not logged in."""
    sessions = np.zeros((count, COLUMNS), np.int64)
    sessions[:, RANDOM] = np.random.default_rng(seed).integers(1, 1 << 62, count)
    sessions[:, NEXT_ID], sessions[:, LAST_REPORT] = 1, -1
    number, quiet = np.arange(count), quiet_symbols(symbols)
    sessions[:, SYMBOL] = np.where(number % 10, quiet.stop + number % (symbols - quiet.stop), number // 10 % quiet.stop)
    return sessions
