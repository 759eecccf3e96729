"""The network of kinds/neural_flow.py in compiled code: two hidden layers with four heads.

The token head predicts the next event. The heads for the wait after it, its size and a cancelled order's age also depend on the token: their
logits are the shared part plus a row of `given` for the token. All numbers are one float32 array, in the order of PARTS;
serl.agents.calibration.flow trains them. A forward pass skips inputs and hidden units that are 0, about half of them.
"""

import base64
import math
from typing import Any

import numpy as np

from serl.agents.traders.addresses import load_float64, store_float64
from serl.agents.traders.flow_features import INPUTS
from serl.agents.traders.flow_tables import EQUAL_PARTS, POINTS, PROBABILITIES
from serl.agents.traders.flow_tokens import TOKENS
from serl.exchange.compiling import inlined

HIDDEN = 128
WAITS, SIZES, AGES = 56, 48, 25
"""Numbers of classes of ln waits, of sizes, and of ln ages; the last age class is an unknown age."""
OUTPUTS = TOKENS + WAITS + SIZES + AGES
GIVEN = WAITS + SIZES + AGES
INPUT_MAX = 4.0
"""Limit of a standardised input, because a simulated book may reach states that no real day had."""
FORBIDDEN = -1e30

PARTS: dict[str, tuple[int, ...]] = {
    "mean": (INPUTS,), "inverse_deviation": (INPUTS,), "weights_1": (INPUTS, HIDDEN), "bias_1": (HIDDEN,), "weights_2": (HIDDEN, HIDDEN),
    "bias_2": (HIDDEN,), "weights_3": (HIDDEN, OUTPUTS), "bias_3": (OUTPUTS,), "given": (TOKENS, GIVEN), "wait_log_s": (WAITS + 1,),
    "age_log_s": (AGES,), "size_low_lots": (SIZES,), "size_high_lots": (SIZES,), "deep_gap_ticks": (POINTS,), "deep_lots": (POINTS,),
    "hours": (2,), "opening_spread_ticks": (1,), "visible_levels": (1,),
}  # fmt: skip


def _starts() -> dict[str, int]:
    found, at = dict[str, int](), 0
    for name, shape in PARTS.items():
        found[name] = at
        at += math.prod(shape)
    return found | {"end": at}


STARTS = _starts()
NUMBERS = STARTS["end"]
TABLES_AT, TABLES = STARTS["deep_gap_ticks"], 2
EARLIER_POINTS = EQUAL_PARTS + 1
"""Number of points in the tables of networks trained earlier, whose probabilities are equally spaced."""
_MEAN, _SCALE, _W1, _B1 = STARTS["mean"], STARTS["inverse_deviation"], STARTS["weights_1"], STARTS["bias_1"]
_W2, _B2, _W3, _B3 = STARTS["weights_2"], STARTS["bias_2"], STARTS["weights_3"], STARTS["bias_3"]
_GIVEN_AT = STARTS["given"]
SCRATCH = 2 * HIDDEN + OUTPUTS
"""Number of slots for a forward pass: the hidden layers and the logits."""
LOGITS_AT = 2 * HIDDEN


def read_numbers(text: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Decodes the numbers (n,) of a network from base64; converts tables of an earlier version to the current PROBABILITIES. Raises ValueError if
    the text is not base64 of float32."""
    numbers = np.frombuffer(base64.b64decode(text, validate=True), "<f4")
    if len(numbers) != NUMBERS - TABLES * (POINTS - EARLIER_POINTS):
        return numbers
    end = TABLES_AT + TABLES * EARLIER_POINTS
    tables = numbers[TABLES_AT:end].reshape(TABLES, EARLIER_POINTS)
    equal = np.linspace(0.0, 1.0, EARLIER_POINTS)
    tables = np.concatenate([np.interp(PROBABILITIES, equal, table) for table in tables])
    return np.concatenate([numbers[:TABLES_AT], tables.astype("<f4"), numbers[end:]])


@inlined
def _layer(numbers: Any, weights: int, bias: int, source: int, n_in: int, target: int, n_out: int) -> None:
    """target = source @ weights + bias."""
    for to in range(n_out):
        store_float64(target + 8 * to, numbers[bias + to])
    for index in range(n_in):
        value = load_float64(source + 8 * index)
        if value != 0.0:
            row = weights + index * n_out
            for to in range(n_out):
                store_float64(target + 8 * to, load_float64(target + 8 * to) + value * numbers[row + to])


@inlined
def _rectify(values: int, count: int) -> None:
    for index in range(count):
        store_float64(values + 8 * index, max(0.0, load_float64(values + 8 * index)))


@inlined
def forget_hour(numbers: Any, inputs: int) -> None:
    """Sets the last two inputs, which encode the time of day, to their mean."""
    for index in range(INPUTS - 2, INPUTS):
        store_float64(inputs + 8 * index, 1.0 * numbers[_MEAN + index])


@inlined
def run_network(numbers: Any, inputs: int, scratch: int) -> None:
    """Standardises the inputs in place and writes the logits to scratch + 8 LOGITS_AT."""
    for index in range(INPUTS):
        value = (load_float64(inputs + 8 * index) - numbers[_MEAN + index]) * numbers[_SCALE + index]
        store_float64(inputs + 8 * index, min(INPUT_MAX, max(-INPUT_MAX, value)))
    second = scratch + 8 * HIDDEN
    _layer(numbers, _W1, _B1, inputs, INPUTS, scratch, HIDDEN)
    _rectify(scratch, HIDDEN)
    _layer(numbers, _W2, _B2, scratch, HIDDEN, second, HIDDEN)
    _rectify(second, HIDDEN)
    _layer(numbers, _W3, _B3, second, HIDDEN, scratch + 8 * LOGITS_AT, OUTPUTS)


@inlined
def forbid(scratch: int, token: int) -> None:
    """Sets the probability of a token to 0."""
    store_float64(scratch + 8 * (LOGITS_AT + token), FORBIDDEN)


@inlined
def draw_class(scratch: int, begin: int, count: int, draw: float) -> int:
    """The class at the quantile `draw` of the softmax of `count` logits from `begin` on; -1 if all are forbidden."""
    logits = scratch + 8 * (LOGITS_AT + begin)
    highest = FORBIDDEN
    for index in range(count):
        highest = max(highest, load_float64(logits + 8 * index))
    if highest <= FORBIDDEN:
        return -1
    total = 0.0
    for index in range(count):
        total += math.exp(load_float64(logits + 8 * index) - highest)
    left = draw * total
    for index in range(count):
        left -= math.exp(load_float64(logits + 8 * index) - highest)
        if left < 0.0:
            return index
    return count - 1


@inlined
def condition_on(numbers: Any, scratch: int, token: int) -> None:
    """Adds the token's row to the logits of wait, size and age."""
    row = _GIVEN_AT + token * GIVEN
    for index in range(GIVEN):
        place = scratch + 8 * (LOGITS_AT + TOKENS + index)
        store_float64(place, load_float64(place) + numbers[row + index])
