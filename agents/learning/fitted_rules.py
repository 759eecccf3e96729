"""The rules that a trained policy must beat, fitted on training orders only.

`fit_patience` searches for the patience rule (reactive.py) with the highest mean PA: it varies one setting at a time over GRID, beginning with the
default, until no change helps. It returns this rule if it beats the TWAP, which is also a patience rule, by more than ERRORS standard errors (paired
by order), and otherwise the TWAP, because a delay gains or loses whatever the market did on those days. `fit_almgren_chriss` estimates σ and η of
Almgren and Chriss:

- σ: root mean square move of the mid between decisions, per root second; the median over orders.
- η, in bars: impact_bps x 1e-4 x mid over the volume traded per second, which is what bars charge; in books: τ / (2 ρ) with ρ lots per tick displayed
  on a side, which is what a slice pays in a book of even depth. The median over orders and steps.
- λ is a preference and not a property of the market: the value for which κT is URGENCY (κ per second, T the window).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from serl.agents.execution.data import TRAIN, idle_frames
from serl.agents.execution.environment.account import mids
from serl.agents.execution.environment.bars import StaticBars
from serl.agents.execution.policies.policy import Policy
from serl.agents.execution.policies.reactive import Patience
from serl.agents.execution.policies.schedules import AlmgrenChriss
from serl.agents.learning.environments import Scenario
from serl.agents.learning.evaluation import Floats, Hold, execute_orders
from serl.exchange.records import Rows

GRID: dict[str, tuple[float, ...]] = {
    "rest_slices": (0.0, 0.5, 1.0, 2.0, 4.0, 8.0),
    "late_slices": (-1.0, 0.0, 1.0, 3.0, 6.0),
    "place": (0.0, 1.0, 2.0, 4.0),
}
TWAP_RULE = Patience(rest_slices=0.0, late_slices=-1.0)
ERRORS = 2.0
URGENCY = 1.0
BAR_ORDERS, BOOK_ORDERS, BATCHES = 16384, 256, 64
"""Number of training orders on which a rule is fitted, in bars and in books; in bars, at most BATCHES batches of one order per environment."""
SECOND_NS = 1_000_000_000

Score = Callable[[Policy, str], Floats]


def training_score(scenario: Scenario, orders: int | None = None, seed: int = 0) -> Score:
    """Returns a function from (policy, action mode) to (orders,) PA in bps on training orders, against the VWAP of the market without us."""
    bar_orders = min(BAR_ORDERS, BATCHES * scenario.market.count)
    orders = orders or (bar_orders if isinstance(scenario.market, StaticBars) else BOOK_ORDERS)
    episodes = training_orders(scenario, orders, seed)
    return undisturbed_score(scenario, episodes)


def undisturbed_score(scenario: Scenario, episodes: Rows) -> Score:
    """Returns a function from (policy, action mode) to (n,) PA in bps on EPISODE rows, against the VWAP of the market without us."""
    without_us = execute_orders(scenario.env_for(Hold(), "market"), Hold(), episodes).results["vwap_ticks"]

    def score(policy: Policy, mode: str) -> Floats:
        price = execute_orders(scenario.env_for(policy, mode), policy, episodes).results["price_ticks"]
        advantages: Floats = episodes["sign"] * (price / without_us - 1) * 1e4
        return advantages

    return score


def training_orders(scenario: Scenario, orders: int, seed: int) -> Rows:
    """(orders,) EPISODE rows of the training part."""
    return scenario.sampler_of(TRAIN).sample(np.random.Generator(np.random.PCG64(seed)), orders)


def fit_patience(score: Score) -> Patience:
    """See the module."""
    best = Patience()
    found = {rule: score(rule, "hybrid") for rule in (best, TWAP_RULE)}
    improved = True
    while improved:
        before = best
        for name, values in GRID.items():
            for value in values:
                rule = dataclasses.replace(best, **{name: value})
                if rule not in found:
                    found[rule] = score(rule, "hybrid")
            best = max(found, key=lambda rule: float(np.nanmean(found[rule])))
        improved = best != before
    gain = found[best] - found[TWAP_RULE]
    error = np.nanstd(gain) / np.sqrt(np.isfinite(gain).sum())
    return best if np.nanmean(gain) > ERRORS * error else TWAP_RULE


def fit_almgren_chriss(scenario: Scenario, seed: int = 0) -> AlmgrenChriss:
    """See the module."""
    episodes = training_orders(scenario, scenario.market.count, seed)
    frames = idle_frames(scenario.market, episodes)
    interval_s = float(episodes["interval_ns"][0]) / SECOND_NS
    window_s = interval_s * float(episodes["steps"][0])
    moves = np.diff(np.stack([mids(row) for row in frames]), axis=0)
    volatility = float(np.nanmedian(np.sqrt(np.nanmean(moves**2, axis=0) / interval_s)))
    bars = isinstance(scenario.market, StaticBars)
    impact = _bar_impact(frames, interval_s, scenario.config.impact_bps) if bars else _book_impact(frames, interval_s)
    squared = 2 * (np.cosh(URGENCY * interval_s / window_s) - 1) / interval_s**2
    return AlmgrenChriss(float(squared * impact / max(volatility, 1e-9) ** 2), volatility, impact)


def _bar_impact(frames: Any, interval_s: float, impact_bps: float) -> float:
    """η of the market of bars, in ticks times seconds per lot; frames (steps, N). If bars have no impact, η for an impact of 1e-3 bps."""
    mid = np.stack([mids(row) for row in frames])
    lots_per_s = np.maximum(frames["traded_lots"], 1) / interval_s
    return float(np.nanmedian(max(impact_bps, 1e-3) * 1e-4 * mid / lots_per_s))


def _book_impact(frames: Any, interval_s: float) -> float:
    """η of books with even depth, in ticks times seconds per lot; frames (steps, N)."""
    found = []
    for side in ("bid", "ask"):
        ticks, lots = frames[f"{side}_ticks"], frames[f"{side}_lots"]
        shown = ticks > 0
        span = np.where(shown, np.abs(ticks - ticks[..., :1]), 0).max(axis=-1) + 1
        depth = np.where(shown, lots, 0).sum(axis=-1)
        found.append((span / (2 * np.maximum(depth, 1)))[depth > 0])
    return float(np.median(np.concatenate(found))) * interval_s
