"""The inputs with which kinds/neural_flow.py draws an event: the book, and averages of the past over several horizons.

The averages are diagonal linear recurrences with fixed decays, as in a state space layer (Gu, Goel, Ré 2022), over the coarse classes of events,
waits, trade signs, the mid and the rate of events. With fixed decays, one pass computes the inputs of a day, so training is that of a
feed-forward network. Training and the trader call the same functions, on float64 memory at an address: STATE slots, BOOK slots, then INPUTS inputs.
"""

import math
from typing import Any

from serl.agents.traders.addresses import load_float64, store_float64
from serl.agents.traders.flow_tokens import CLASSES, COARSE, COARSE_TRADE, LEVELS, coarse_class
from serl.exchange.compiling import inlined

EVENT_HORIZONS = (2.0, 8.0, 32.0, 128.0, 512.0, 2048.0)
"""Horizons of the averages of classes, in events."""
WAIT_HORIZONS = (8.0, 64.0)
RATE_SECONDS = (1.0, 10.0, 60.0)
TRADE_HORIZONS = (4.0, 16.0, 64.0, 256.0)
"""Horizons of the averages of trade signs, in trades."""
MID_HORIZONS = (16.0, 128.0, 1024.0, 8192.0)
MID_SHIFT_MAX = 20.0
"""Limit of the mid's distance from its averages, in spreads."""

_CLASS, _WAIT = 0, len(EVENT_HORIZONS) * CLASSES
_RATE = _WAIT + len(WAIT_HORIZONS)
_SIGN = _RATE + len(RATE_SECONDS)
_MID = _SIGN + len(TRADE_HORIZONS)
_LAST = _MID + len(MID_HORIZONS)  # class of the last event, of the one before; ln of their waits
STATE = _LAST + 4
BOOK = 8 * LEVELS
"""Slots of the book. Of all levels, bids first: prices (0: no level), lots, numbers of orders, ln seconds since the youngest order arrived."""
AGE_MAX_LOG_S = math.log(3600.0)
"""Age of the youngest order where it is not known."""
_DEPTH = 5
"""Number of levels per side that are separate inputs."""
INPUTS = _LAST + 2 + 2 * CLASSES + 4 + 2 * (4 * _DEPTH + 2) + 2
WAIT_MIN_S = 1e-9

SLOW_INPUTS = (*range(4 * CLASSES, _WAIT), _WAIT + 1, _RATE + 1, _RATE + 2)
"""Averages over hundreds of events or tens of seconds. They identify regimes of the day; in a simulated market they can lock it into one."""
HOUR_INPUTS = (INPUTS - 2, INPUTS - 1)


@inlined
def _get(address: int, slot: int) -> float:
    return load_float64(address + 8 * slot)


@inlined
def _put(address: int, slot: int, value: float) -> None:
    store_float64(address + 8 * slot, value)


@inlined
def start_state(state: int, mid_ticks: float) -> None:
    """Writes the state before the first event."""
    for slot in range(STATE):
        _put(state, slot, 0.0)
    for number in range(len(MID_HORIZONS)):
        _put(state, _MID + number, mid_ticks)
    _put(state, _LAST, -1.0)
    _put(state, _LAST + 1, -1.0)


@inlined
def add_event(state: int, token: int, mid_ticks: float) -> None:
    """Adds an event. mid_ticks: mid of the book that it met."""
    kind = coarse_class(token)
    for scale, horizon in enumerate(EVENT_HORIZONS):
        kept = 1.0 - 1.0 / horizon
        for number in range(CLASSES):
            slot = _CLASS + scale * CLASSES + number
            _put(state, slot, kept * _get(state, slot) + (1.0 / horizon if number == kind else 0.0))
    for number, horizon in enumerate(MID_HORIZONS):
        _put(state, _MID + number, _get(state, _MID + number) + (mid_ticks - _get(state, _MID + number)) / horizon)
    for number, seconds in enumerate(RATE_SECONDS):
        _put(state, _RATE + number, _get(state, _RATE + number) + 1.0 / seconds)
    if kind % COARSE == COARSE_TRADE:
        sign = 1.0 if kind < COARSE else -1.0
        for number, horizon in enumerate(TRADE_HORIZONS):
            _put(state, _SIGN + number, _get(state, _SIGN + number) + (sign - _get(state, _SIGN + number)) / horizon)
    _put(state, _LAST + 1, _get(state, _LAST))
    _put(state, _LAST, 1.0 * kind)


@inlined
def add_wait(state: int, wait_s: float) -> None:
    """Adds the time from the last event to the next."""
    logarithm = math.log(max(WAIT_MIN_S, wait_s))
    for number, horizon in enumerate(WAIT_HORIZONS):
        _put(state, _WAIT + number, _get(state, _WAIT + number) + (logarithm - _get(state, _WAIT + number)) / horizon)
    for number, seconds in enumerate(RATE_SECONDS):
        _put(state, _RATE + number, _get(state, _RATE + number) * math.exp(-wait_s / seconds))
    _put(state, _LAST + 3, _get(state, _LAST + 2))
    _put(state, _LAST + 2, logarithm)


@inlined
def write_inputs(state: int, book: int, inputs: int, hour: float, mirror: int) -> None:
    """Writes the INPUTS inputs for a two-sided book. mirror: 1 writes them with the sides exchanged."""
    sign, at = 1.0 - 2.0 * mirror, 0
    for scale in range(len(EVENT_HORIZONS)):
        for number in range(CLASSES):
            source = (number + mirror * COARSE) % CLASSES
            _put(inputs, at, _get(state, _CLASS + scale * CLASSES + source))
            at += 1
    for number in range(len(WAIT_HORIZONS)):
        _put(inputs, at, _get(state, _WAIT + number))
        at += 1
    for number in range(len(RATE_SECONDS)):
        _put(inputs, at, math.log(_get(state, _RATE + number) + 1e-3))
        at += 1
    for number in range(len(TRADE_HORIZONS)):
        _put(inputs, at, sign * _get(state, _SIGN + number))
        at += 1
    bid, ask = _get(book, 0), _get(book, 4 * LEVELS)
    spread = max(1.0, ask - bid)
    for number in range(len(MID_HORIZONS)):
        shift = (0.5 * (bid + ask) - _get(state, _MID + number)) / spread
        _put(inputs, at, sign * min(MID_SHIFT_MAX, max(-MID_SHIFT_MAX, shift)))
        at += 1
    for number in range(2):
        _put(inputs, at, _get(state, _LAST + 2 + number))
        at += 1
    for number in range(2):
        last = int(_get(state, _LAST + number))
        for other in range(CLASSES):
            _put(inputs, at, 1.0 if last == (other + mirror * COARSE) % CLASSES else 0.0)
            at += 1
    own, other = _get(book, LEVELS), _get(book, 5 * LEVELS)
    _put(inputs, at, sign * (own - other) / max(1.0, own + other))
    _put(inputs, at + 1, math.log(spread))
    _put(inputs, at + 2, 1.0 if spread == 1.0 else 0.0)
    _put(inputs, at + 3, 1.0 if spread == 2.0 else 0.0)
    at += 4
    for which in range(2):
        side = (which + mirror) % 2
        prices, lots = 4 * LEVELS * side, 4 * LEVELS * side + LEVELS
        total, reach = 0.0, 0.0
        for level in range(LEVELS):
            if _get(book, prices + level) > 0.0:
                total += _get(book, lots + level)
                reach = abs(_get(book, prices + level) - _get(book, prices))
        for level in range(_DEPTH):
            here, behind = _get(book, prices + level), _get(book, prices + level + 1)
            _put(inputs, at, math.log(1.0 + _get(book, lots + level)))
            _put(inputs, at + 1, math.log(1.0 + abs(behind - here)) if here > 0.0 and behind > 0.0 else 0.0)
            _put(inputs, at + 2, math.log(1.0 + _get(book, lots + LEVELS + level)))
            _put(inputs, at + 3, _get(book, lots + 2 * LEVELS + level))
            at += 4
        _put(inputs, at, math.log(1.0 + total))
        _put(inputs, at + 1, math.log(1.0 + reach))
        at += 2
    _put(inputs, at, hour)
    _put(inputs, at + 1, hour * hour)


@inlined
def put_level(book: int, side: int, level: int, price_ticks: Any, lots: Any, orders: Any, age_log_s: float) -> None:
    """Writes a level of the book: its price, lots, known orders, and the age of the youngest."""
    place = 4 * LEVELS * side + level
    _put(book, place, 1.0 * price_ticks)
    _put(book, place + LEVELS, 1.0 * lots)
    _put(book, place + 2 * LEVELS, 1.0 * orders)
    _put(book, place + 3 * LEVELS, min(AGE_MAX_LOG_S, age_log_s))
