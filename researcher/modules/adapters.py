"""Adapters from modules to environments: rewards for execution environments, scenarios for the market of bars."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.environment.account import mids
from serl.agents.execution.environment.bars import BarDays
from serl.agents.execution.environment.vector import ExecutionVectorEnv, Reward
from serl.exchange.records import Rows
from serl.researcher.modules import checks
from serl.researcher.modules.contracts import MEMORY_SIZE, Floats, RewardInputs, RewardModule


def reward_inputs(env: ExecutionVectorEnv, fills: Rows, last: Any, memory: Floats) -> RewardInputs:
    """The inputs of a reward module for the step that the environment has just settled, with the (N, MEMORY_SIZE) memory before it."""
    accounts, frames = env.accounts, env.market.frames
    parents, episodes = accounts.parents, accounts.episodes
    qty, sign = episodes["qty_lots"], episodes["sign"].astype(float)
    lots, remaining = fills["lots"], parents["remaining_lots"] / qty
    mid, arrival = mids(frames), parents["arrival_mid"]
    decision_mid, move = parents["decision_mid"], parents["mid"] - parents["decision_mid"]
    fees = accounts.fees(fills)
    bid, ask = frames["bid_ticks"][:, 0], frames["ask_ticks"][:, 0]
    bid_lots, ask_lots = frames["bid_lots"][:, 0], frames["ask_lots"][:, 0]
    price = fills["notional"] / np.maximum(lots, 1)
    step, steps = parents["step"].astype(float), episodes["steps"].astype(float)
    fields = {
        "sign": sign, "step": step, "steps": steps, "last": np.asarray(last, float), "filled": lots / qty, "remaining": remaining,
        "unfilled": np.where(last, parents["unfilled_lots"] / qty, 0.0), "behind": remaining - (1 - step / steps),
        "participation": lots / np.maximum(lots + frames["traded_lots"], 1),
        "gain_bps": accounts.shortfall_bps(fills),
        "price_bps": np.where(lots > 0, sign * (price - mid) / arrival * 1e4, 0.0),
        "drift_bps": sign * (mid - arrival) / arrival * 1e4, "vwap_bps": accounts.market_move_bps(),
        "spread_bps": np.where((bid > 0) & (ask > 0), (ask - bid) / arrival * 1e4, 0.0),
        "imbalance": (bid_lots - ask_lots) / np.maximum(bid_lots + ask_lots, 1),
        "decision_gain_bps": (sign * (fills["notional"] - lots * decision_mid) - fees) / (qty * arrival) * 1e4,
        "decision_price_bps": np.where(lots > 0, sign * (price - decision_mid) / arrival * 1e4, 0.0),
        "decision_drift_bps": sign * (decision_mid - arrival) / arrival * 1e4,
        "move_bps": sign * move / arrival * 1e4,
    }  # fmt: skip
    # an empty book has no mid; values relative to it become 0
    finite = np.nan_to_num(np.stack(list(fields.values())), nan=0.0, posinf=0.0, neginf=0.0)
    return RewardInputs(**dict(zip(fields, finite, strict=True)), memory=memory)


def as_reward(module: RewardModule) -> Reward:
    """A module as the reward of one execution environment. It keeps the memory of the environment's orders, and raises ModuleError if the module
    breaks its contract."""
    kept: NDArray[np.float64] = np.zeros((0, MEMORY_SIZE))

    def reward(env: ExecutionVectorEnv, fills: Rows, last: Any) -> Any:
        nonlocal kept
        if len(kept) != env.num_envs:
            kept = np.zeros((env.num_envs, MEMORY_SIZE))
        kept[env.accounts.parents["step"] == 1] = 0.0  # an order's first step
        rewards, kept = checks.rewards_and_memory(module(reward_inputs(env, fills, last, kept.copy())), env.num_envs)
        return rewards

    return reward


def history_of(bars: BarDays, day: int) -> Floats:
    """A day of bars as a (t, 3) array of HISTORY_COLUMNS. The first return starts at the first open."""
    opens, highs, lows, closes, _, volumes = bars.values[day].T
    before = np.concatenate((opens[:1], closes[:-1]))
    return np.stack([(closes / before - 1) * 1e4, (highs - lows) / closes * 1e4, volumes], axis=1)


def days_of(scenarios: Floats, start_ticks: float, starts_ns: Any, bar_ns: int) -> BarDays:
    """Scenarios (n, horizon, 3) as days of bars that start at `start_ticks`. A bar's range is centred on its open and close."""
    closes = start_ticks * np.cumprod(1 + scenarios[..., 0] * 1e-4, axis=1)
    opens = np.concatenate((np.full((len(closes), 1), start_ticks), closes[:, :-1]), axis=1)
    body_high, body_low = np.maximum(opens, closes), np.minimum(opens, closes)
    spare = np.maximum(0.0, scenarios[..., 1] * 1e-4 * closes - (body_high - body_low)) / 2
    highs, lows = body_high + spare, np.maximum(body_low - spare, 1.0)
    typical = (highs + lows + closes) / 3
    values = np.stack([opens, highs, lows, closes, typical, np.rint(scenarios[..., 2])], axis=-1)
    return BarDays(np.asarray(starts_ns, np.int64), bar_ns, np.maximum(values, [1, 1, 1, 1, 1, 0]))
