"""Reward: the price advantage, less a penalty for trading much of the volume and for what has to be forced at the end."""

import numpy as np

from serl.researcher.modules.contracts import Floats, RewardInputs


def reward(step: RewardInputs) -> Floats:
    """(n_envs,) rewards in bps."""
    advantage = step.gain_bps - step.last * step.vwap_bps
    crowding = 2.0 * np.square(step.participation)
    return advantage - crowding - 5.0 * step.unfilled
