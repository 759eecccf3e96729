"""Reward: the default. It sums to the advantage over even slices at the mid, less what it costs to deviate from them and to be forced."""

from serl.researcher.modules.contracts import Floats, RewardInputs


def reward(step: RewardInputs) -> Floats:
    """(n_envs,) rewards in bps."""
    traded = step.decision_gain_bps
    held = step.behind * step.move_bps
    return traded + held - 0.05 * step.behind**2 - 1.0 * step.unfilled
