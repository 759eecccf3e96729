"""The memory of what live participants traded on a day, and how many ticks the day gives way for it.

    I(t) = c sign(N) sqrt|N|,  N(t) = sum of signed lots q_i g(t - t_i),  g(t) = sum of w_k exp(-t / tau_k) + a part that stays

See serl.agents.impact_memory. An update takes O(K), whatever was traded. Because the price depends on N alone, a purchase costs what a sale of the
same lots gives back; because g only falls, waiting earns nothing either.
"""

import math
from typing import Any

import numpy as np

from serl.agents.impact_memory import PARTS, TIMES_S
from serl.exchange.compiling import inlined

UPDATE_NS = 1_000_000_000
"""The decay of the memory is applied when history's next command falls into another second: less than a hundredth decays in one."""

ANSWER = np.dtype(
    [
        ("remembered_lots", "<f8", (PARTS,)),  # signed lots of live participants, + bought
        ("weights", "<f8", (PARTS,)),  # of g; their sum is 1
        ("coefficient", "<f8"),  # c, ticks per root of a lot
        ("bound_ticks", "<i8"),  # limit of the absolute shift
        ("updated_ns", "<i8"),  # time of remembered_lots
        ("due_ns", "<i8"),  # time of the next update of the shift; 0: before anything else happens
        ("shift_ticks", "<i8"),  # added to history's prices
        ("disturbed", "<i8"),  # whether a live participant has sent an order
        ("sent_lots", "<i8"),  # filled so far of the live order being executed
        ("taken_lots", "<i8"),  # by history's command being executed
    ],
    align=True,
)
"""The state of one book that gives way."""

_RATES_PER_NS = np.array([1e-9 / time_s for time_s in TIMES_S] + [0.0])


@inlined
def remembered(answer: Any) -> float:
    """N, signed lots."""
    lots = 0.0
    for part in range(PARTS):
        lots += answer.remembered_lots[part]
    return lots


@inlined
def forget(answer: Any, time_ns: int) -> None:
    """Applies the decay of the memory until `time_ns`."""
    passed_ns = time_ns - answer.updated_ns
    if passed_ns <= 0:
        return
    for part in range(PARTS - 1):
        answer.remembered_lots[part] *= math.exp(-passed_ns * _RATES_PER_NS[part])
    answer.updated_ns = time_ns


@inlined
def remember(answer: Any, lots: float) -> None:
    """Adds signed lots that are traded now."""
    for part in range(PARTS):
        answer.remembered_lots[part] += answer.weights[part] * lots


@inlined
def wanted_shift(answer: Any) -> int:
    """I(t) rounded to whole ticks, halves away from zero, within the bound."""
    lots = remembered(answer)
    ticks = min(int(answer.coefficient * math.sqrt(abs(lots)) + 0.5), answer.bound_ticks)
    return ticks if lots > 0 else -ticks


@inlined
def lots_until_change(answer: Any, sign: int, most: int) -> int:
    """How many lots bought (sign 1) or sold (-1) change the shift; at least 1, at most `most`."""
    edge = wanted_shift(answer) + 0.5 * sign
    if answer.coefficient <= 0.0 or abs(edge) > answer.bound_ticks:
        return most
    root = edge / answer.coefficient
    lots = sign * (math.copysign(root * root, root) - remembered(answer))
    if lots >= most:
        return most
    return max(1, int(math.ceil(lots)))
