"""Policies by name, as on the command line."""

import importlib
from pathlib import Path

from serl.agents.execution.policies.policy import Policy
from serl.agents.execution.policies.reactive import Aggressive, Participation, Passive
from serl.agents.execution.policies.schedules import AlmgrenChriss, Twap
from serl.agents.execution.policies.volume import VolumeCurve, Vwap
from serl.exchange.errors import ConfigError

NAMES = ("twap", "vwap", "pov", "ac", "aggressive", "passive")


def choose(
    name: str, *, curve: Path | None = None, rate: float = 0.1, risk_aversion: float = 1e-6, volatility: float = 2.0,
    impact: float = 1.0, cross_share: float = 0.2,
) -> Policy:  # fmt: skip
    """The schedule of NAMES, or the learnt policy of a file; ConfigError if it is neither or lacks what it needs."""
    if name == "twap":
        return Twap()
    if name == "vwap":
        if curve is None:
            raise ConfigError(
                "vwap: --curve FILE is due; `serl volume-curve DAY... -o FILE` makes one of training days"
            )
        return Vwap(VolumeCurve.load(curve))
    if name == "pov":
        return Participation(rate)
    if name == "ac":
        return AlmgrenChriss(risk_aversion, volatility, impact)
    if name == "aggressive":
        return Aggressive()
    if name == "passive":
        return Passive(cross_share)
    if not Path(name).exists():
        raise ConfigError(f"policy: one of {', '.join(NAMES)} or a file with a learnt one is due, got {name!r}")
    return load(Path(name))


def load(path: Path) -> Policy:
    """The learnt policy of a file."""
    policy: Policy = importlib.import_module("serl.agents.learning.policy").load_policy(path)
    return policy
