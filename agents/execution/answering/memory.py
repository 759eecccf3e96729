"""How a day remembers what strangers traded, and how many ticks it gives way for it.

    I(t) = c sign(N) sqrt|N|,  N(t) = sum of signed lots q_i g(t - t_i),  g(t) = sum of w_k exp(-t / tau_k) + a part that stays

g approximates (1 + t / 10 s)^-beta, so that an update is O(K) whatever was traded. A price that is a function of N alone charges a
purchase what a sale of the same lots gives back; g only falls, so time gives nothing either.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import inlined

TIMES_S = (20.0, 200.0, 2000.0, 20_000.0)
PARTS = len(TIMES_S) + 1
"""Exponentials, and the part that stays."""
FIRST_S = 10.0
"""The power law begins here: what is younger is remembered in full."""
EXPONENT = 0.2
"""beta. The propagator's, (1 - gamma) / 2 with trade signs that decorrelate as t^-gamma, gamma from .5 to .6 (Bouchaud, Gefen, Potters and
Wyart 2004, arXiv cond-mat/0307332). docs/answering.md says what it gives."""
DAY_S = 23_400.0
UPDATE_NS = 1_000_000_000
"""What fades in time is looked at when history's next command falls into another second: less than a hundredth of it fades in one."""

ANSWER = np.dtype(
    [
        ("remembered_lots", "<f8", (PARTS,)),  # signed, of strangers: + bought
        ("weights", "<f8", (PARTS,)),  # of g; their sum is 1
        ("coefficient", "<f8"),  # c, ticks per root of a lot
        ("bound_ticks", "<i8"),  # the shift is never larger
        ("updated_ns", "<i8"),  # remembered_lots are those of this time
        ("due_ns", "<i8"),  # when the shift is looked at next; 0: before anything else happens
        ("shift_ticks", "<i8"),  # what is added to history's prices
        ("disturbed", "<i8"),  # whether a stranger has sent an order
        ("sent_lots", "<i8"),  # filled so far of the stranger's order that executes
        ("taken_lots", "<i8"),  # by history's command that executes
    ],
    align=True,
)
"""The state of one book that answers."""

_RATES_PER_NS = np.array([1e-9 / time_s for time_s in TIMES_S] + [0.0])


def memory_weights(exponent: float = EXPONENT) -> NDArray[np.float64]:
    """(K + 1,) weights of the exponentials and of what stays, least squares of g relative to the power law; none is negative.

    Within 3 % of it over a trading day with the exponent .2, 9 % with .5.
    """
    times = np.concatenate([[0.0], np.geomspace(1.0, DAY_S, 300)])
    wanted = (1 + times / FIRST_S) ** -exponent
    parts = np.column_stack([np.exp(-times / time_s) for time_s in TIMES_S] + [np.ones_like(times)])
    best, error_min = np.zeros(PARTS), math.inf
    for chosen in range(1, 1 << PARTS):  # least squares without negative weights: of all subsets the best
        used = [part for part in range(PARTS) if chosen >> part & 1]
        relative = parts[:, used] / wanted[:, np.newaxis]
        found = np.linalg.lstsq(relative, np.ones_like(wanted), rcond=None)[0]
        error = float(((relative @ found - 1) ** 2).sum())
        if (found >= 0).all() and error < error_min:
            best, error_min = np.zeros(PARTS), error
            best[used] = found
    weights: NDArray[np.float64] = best / best.sum()
    return weights


def mean_memory(weights: NDArray[np.float64], duration_s: float) -> float:
    """Mean of g from 0 to a time: the share of an order that is remembered at its end if it was worked evenly so long."""
    times = np.array(TIMES_S)
    return float((weights[:-1] * times * (1 - np.exp(-duration_s / times))).sum() / duration_s + weights[-1])


@inlined
def remembered(answer: Any) -> float:
    """N, signed lots."""
    lots = 0.0
    for part in range(PARTS):
        lots += answer.remembered_lots[part]
    return lots


@inlined
def forget(answer: Any, time_ns: int) -> None:
    """Lets time pass until `time_ns`."""
    passed_ns = time_ns - answer.updated_ns
    if passed_ns <= 0:
        return
    for part in range(PARTS - 1):
        answer.remembered_lots[part] *= math.exp(-passed_ns * _RATES_PER_NS[part])
    answer.updated_ns = time_ns


@inlined
def remember(answer: Any, lots: float) -> None:
    """Adds signed lots that trade now."""
    for part in range(PARTS):
        answer.remembered_lots[part] += answer.weights[part] * lots


@inlined
def wanted_shift(answer: Any) -> int:
    """I(t) in whole ticks, half a tick away from zero."""
    lots = remembered(answer)
    ticks = min(int(answer.coefficient * math.sqrt(abs(lots)) + 0.5), answer.bound_ticks)
    return ticks if lots > 0 else -ticks


@inlined
def lots_until_change(answer: Any, sign: int, most: int) -> int:
    """How many lots, bought (sign 1) or sold (-1), until the shift is another one; at least 1, at most `most`."""
    edge = wanted_shift(answer) + 0.5 * sign
    if answer.coefficient <= 0.0 or abs(edge) > answer.bound_ticks:
        return most
    root = edge / answer.coefficient
    lots = sign * (math.copysign(root * root, root) - remembered(answer))
    if lots >= most:
        return most
    return max(1, int(math.ceil(lots)))
