"""The training samples of the network: each message of a tape as a token, with the inputs before it."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from serl.agents.calibration.errors import CalibrationError
from serl.agents.realism.messages import CANCEL, LIMIT, UNKNOWN_NS
from serl.agents.realism.tape import SECOND_NS, Bools, Floats, Ints, Tape
from serl.agents.traders.flow_features import (
    AGE_MAX_LOG_S,
    BOOK,
    INPUTS,
    STATE,
    add_event,
    add_wait,
    put_level,
    start_state,
    write_inputs,
)
from serl.agents.traders.flow_tokens import (
    CANCEL_AT,
    GAP,
    INSIDE,
    INSIDE_EDGES,
    JOIN,
    LEVELS,
    LOCAL,
    TRADE_LESS,
    TRADE_THROUGH,
    TRADE_TOUCH,
)
from serl.agents.traders.kinds.neural_flow import HOUR_NS, NOON_NS
from serl.exchange.compiling import compiled, inlined

NO_TOKEN = -1
KNOWN_ORDERS = 8
"""Number of orders at a price whose arrival is remembered, the youngest first."""
MESSAGES_MIN = 5000


@dataclass(frozen=True)
class Samples:
    """n messages with a token, in order of time."""

    token: Ints
    """[n]."""
    lots: Ints
    """[n] size of a limit order or trade; for a trade through the touch, the lots beyond it; 0 where there is no size to learn."""
    age_log_s: Floats
    """[n] ln age of the cancelled order; NaN where it is not known, or nothing is cancelled."""
    wait_log_s: Floats
    """[n] ln wait until the next message."""
    inputs: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
    """[2, n, INPUTS] inputs for the book as it is, and with its sides exchanged."""
    left_out: int
    """Number of messages without a token: at a one-sided book, or out of view."""


def samples_of(tape: Tape) -> Samples:
    """The samples of a window. Raises CalibrationError if it has too few messages."""
    token = tokens_of(tape)
    kept = np.flatnonzero(token != NO_TOKEN)[:-1]
    if len(kept) < MESSAGES_MIN:
        raise CalibrationError(
            f"training window: expected at least {MESSAGES_MIN:,} messages before a two-sided book, got {len(kept):,}; give a longer window"
        )
    following = np.append(kept[1:], np.flatnonzero(token != NO_TOKEN)[-1])
    wait_ns = np.maximum(1, tape.time_ns[following] - tape.time_ns[kept])
    known = (tape.kind == CANCEL) & (tape.entered_ns != UNKNOWN_NS)
    age_ns = np.where(known, np.maximum(1, tape.time_ns - tape.entered_ns), np.nan)
    inputs, _ = _walk(tape, token, kept, wait_ns)
    return Samples(
        token[kept], _lots(tape, token)[kept], np.log(age_ns[kept] / SECOND_NS), np.log(wait_ns / SECOND_NS), inputs,
        len(tape) - len(kept) - 1,
    )  # fmt: skip


def averages_after(tape: Tape, end_ns: int) -> Floats:
    """[STATE] averages of flow_features.py at `end_ns`, after all messages of a tape. Raises CalibrationError if none has a token."""
    token = tokens_of(tape)
    kept = np.flatnonzero(token != NO_TOKEN)
    if not len(kept):
        raise CalibrationError("expected messages before a two-sided book, got none; give a later time, or another day")
    return _walk(tape, token, kept, np.maximum(1, np.diff(tape.time_ns[kept], append=end_ns)))[1]


def _walk(tape: Tape, token: Ints, kept: Ints, wait_ns: Ints) -> tuple[Any, Floats]:
    """(inputs before each of these messages, averages after the last of them)."""
    inputs = np.zeros((2, len(kept), INPUTS), np.float32)
    scratch = np.zeros(STATE + BOOK + INPUTS)
    prices = tape.book_ticks[tape.book_ticks > 0]
    low, high = min(prices.min(), tape.price_ticks.min()), max(prices.max(), tape.price_ticks.max())
    arrived_ns = np.zeros((2, high - low + 1, KNOWN_ORDERS), np.int64)
    messages = np.stack([tape.kind, tape.side, tape.price_ticks - low, tape.time_ns, tape.entered_ns], axis=1).astype(
        np.int64
    )
    _write_inputs(
        scratch.ctypes.data, scratch, kept, token, messages, wait_ns / SECOND_NS, tape.book_ticks, tape.book_lots, low, arrived_ns, inputs,
    )  # fmt: skip
    return inputs, scratch[:STATE].copy()


def tokens_of(tape: Tape) -> Ints:
    """[n] token of each message; NO_TOKEN at a one-sided book, and for prices out of view."""
    n, side = len(tape), tape.side.astype(np.int64)
    rows = np.arange(n)
    own, other = tape.book_ticks[rows, side], tape.book_ticks[rows, 1 - side]
    price, sign = tape.price_ticks, tape.sign
    better = ((own > 0) & (sign[:, None] * (own - price[:, None]) > 0)).sum(1)
    at = (own == price[:, None]) & (own > 0)
    level = np.where(at.any(1), at.argmax(1), NO_TOKEN)
    visible = (own > 0).sum(1)
    spread = np.maximum(1, np.abs(other[:, 0] - own[:, 0]))
    improvement = sign * (price - own[:, 0])
    classes = np.where(
        improvement <= 1, INSIDE, INSIDE + 1 + np.searchsorted(INSIDE_EDGES, improvement / spread, side="right")
    )
    placed = np.where(
        improvement > 0,
        classes,
        np.where(level >= 0, JOIN + level, np.where(better < visible, GAP + better - 1, NO_TOKEN)),
    )
    cancelled = np.where(level >= 0, CANCEL_AT + level, NO_TOKEN)
    touch_lots = tape.book_lots[rows, 1 - side, 0]
    traded = np.where(
        price != other[:, 0], TRADE_THROUGH, np.where(tape.qty_lots == touch_lots, TRADE_TOUCH, TRADE_LESS)
    )
    local = np.where(tape.kind == LIMIT, placed, np.where(tape.kind == CANCEL, cancelled, traded))
    usable = tape.two_sided[:-1] & (local != NO_TOKEN)
    return np.where(usable, side * LOCAL + local, NO_TOKEN)


def _lots(tape: Tape, token: Ints) -> Ints:
    """[n] size to learn; see Samples."""
    local = token % LOCAL
    rows, opposite = np.arange(len(tape)), 1 - tape.side.astype(np.int64)
    beyond = np.maximum(1, tape.qty_lots - tape.book_lots[rows, opposite, 0])
    sized: Bools = (local < CANCEL_AT) | (local == TRADE_LESS)
    return np.where(sized, tape.qty_lots, np.where(local == TRADE_THROUGH, beyond, 0))


@inlined
def _note_orders(arrived_ns: Ints, message: Ints) -> None:
    """Adds an arrival to the orders known at its price, or removes a cancelled order. Executed orders are removed with their level; see
    _forget_level."""
    kind, side, place, time_ns, entered_ns = message[0], message[1], message[2], message[3], message[4]
    known = arrived_ns[side, place]
    if kind == LIMIT:
        for slot in range(KNOWN_ORDERS - 1, 0, -1):
            known[slot] = known[slot - 1]
        known[0] = time_ns
    elif kind == CANCEL:
        for slot in range(KNOWN_ORDERS):
            if known[slot] == entered_ns:
                for other in range(slot, KNOWN_ORDERS - 1):
                    known[other] = known[other + 1]
                known[KNOWN_ORDERS - 1] = 0
                return


@inlined
def _forget_level(arrived_ns: Ints, message: Ints, ticks: Ints, low: int) -> None:
    """Forgets the orders at a price where a limit order opens a level, because they were executed."""
    if message[0] == LIMIT:
        for level in range(ticks.size):
            if ticks[level] == message[2] + low:
                return
        for slot in range(KNOWN_ORDERS):
            arrived_ns[message[1], message[2], slot] = 0


@compiled
def _write_inputs(
    address: int, scratch: Floats, kept: Ints, token: Ints, messages: Ints, wait_s: Floats, book_ticks: Ints, book_lots: Ints, low: int,
    arrived_ns: Ints, inputs: Floats,
) -> None:  # fmt: skip
    """Writes the inputs, message by message. address: address of `scratch`."""
    state, book, own = address, address + 8 * STATE, address + 8 * (STATE + BOOK)
    shown = book_ticks.shape[2]
    for place in range(kept.size):
        index = kept[place]
        message = messages[index]
        mid = 0.5 * (book_ticks[index, 0, 0] + book_ticks[index, 1, 0])
        if place == 0:
            start_state(state, mid)
        for side in range(2):
            for level in range(LEVELS):
                price = book_ticks[index, side, level] if level < shown else 0
                orders, age_log_s = 0, AGE_MAX_LOG_S
                if price > 0:
                    known = arrived_ns[side, price - low]
                    for slot in range(KNOWN_ORDERS):
                        orders += known[slot] > 0
                    if orders > 0:
                        age_log_s = math.log(1e-9 * max(1, message[3] - known[0]))
                put_level(
                    book, side, level, price, book_lots[index, side, level] if level < shown else 0, orders, age_log_s
                )
        hour = (message[3] - NOON_NS) / HOUR_NS
        for mirror in range(2):
            write_inputs(state, book, own, hour, mirror)
            for number in range(INPUTS):
                inputs[mirror, place, number] = scratch[STATE + BOOK + number]
        _forget_level(arrived_ns, message, book_ticks[index, message[1]], low)
        _note_orders(arrived_ns, message)
        add_event(state, token[index], mid)
        add_wait(state, wait_s[place])
