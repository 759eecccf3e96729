"""How long a market remembers what was bought and sold in it: g(t) approximates (1 + t / 10 s)^-beta by exponentials and a part that stays.

Days that answer (execution/answering/) and the flow of a calibrated market (traders/flow_reference.py) move by the same law,

    I(t) = c sign(N) sqrt|N|,  N(t) = sum of signed lots q_i g(t - t_i)

so that impact grows like the square root of the size and hardly depends on the duration (docs/answering.md).
"""

import math

import numpy as np
from numpy.typing import NDArray

TIMES_S = (20.0, 200.0, 2000.0, 20_000.0)
PARTS = len(TIMES_S) + 1
"""Exponentials, and the part that stays."""
FIRST_S = 10.0
"""The power law begins here: what is younger is remembered in full."""
EXPONENT = 0.2
"""beta. The propagator's, (1 - gamma) / 2 with trade signs that decorrelate as t^-gamma, gamma from .5 to .6 (Bouchaud, Gefen, Potters and
Wyart 2004, arXiv cond-mat/0307332). docs/answering.md says what it gives."""
DAY_S = 23_400.0
REFERENCE_S = 300.0
"""The coefficient c is that of lots that are worked evenly over this time."""
PREFACTOR = 1.0
"""Y of the square-root law I = Y sigma_D sqrt(Q / V_D): of order 1 wherever it was measured (Sato and Kanazawa 2024, arXiv 2411.13965)."""


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
