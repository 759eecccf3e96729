"""Figures of what a scored policy does and on which orders it gains, for the archive and for prompts."""

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.policies.policy import Floats
from serl.agents.learning.evaluation import Outcome
from serl.exchange.records import Rows

QUANTILES = (10, 50, 90)


def behaviour_of(episodes: Rows, outcome: Outcome, without_us: Outcome, advantages_bps: Floats) -> dict[str, float]:
    """Figures of the outcome of n orders, by name; those without a finite value are left out.

    `lateness`: how far the policy is behind an even schedule, as a share of the order, mean over decisions. `traded_last`: share traded in the
    last decision, forced completion included. `action_i_pq`: quantiles of action i. `pa_*`: mean PA in bps by group of orders: each side, the
    smaller and larger half, the earlier and later half, and orders whose price moved for or against them without our trading.
    """
    lots = outcome.lots / episodes["qty_lots"][:, None]
    steps = lots.shape[1]
    late = np.arange(1, steps + 1) / steps - lots.cumsum(axis=1)
    found = {"lateness": late[:, :-1].mean() if steps > 1 else 0.0, "traded_last": lots[:, -1].mean()}
    for index, values in enumerate(np.atleast_2d(outcome.actions.T)):
        if values.size:
            found |= {f"action_{index}_p{q}": np.percentile(values, q) for q in QUANTILES}
    for name, chosen in _groups(episodes, without_us).items():
        values = advantages_bps[chosen]
        if np.isfinite(values).any():
            found[f"pa_{name}"] = np.nanmean(values)
    return {name: round(float(value), 4) for name, value in found.items() if np.isfinite(value)}


def _groups(episodes: Rows, without_us: Outcome) -> dict[str, NDArray[np.bool_]]:
    """(n,) masks of orders by group."""
    day_ns = 86_400_000_000_000
    time_ns, qty_lots, sign = episodes["start_ns"] % day_ns, episodes["qty_lots"], episodes["sign"]
    moved = sign * (without_us.mids_ticks[:, -1] - without_us.mids_ticks[:, 0])
    return {
        "sells": sign > 0, "buys": sign < 0,
        "small": qty_lots <= np.median(qty_lots), "large": qty_lots > np.median(qty_lots),
        "early": time_ns <= np.median(time_ns), "late": time_ns > np.median(time_ns),
        "price_moved_for": moved > 0, "price_moved_against": moved < 0,
    }  # fmt: skip
