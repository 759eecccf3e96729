"""Makes policies from names, as given on the command line."""

import importlib
from pathlib import Path

from serl.agents.execution.policies.policy import Policy
from serl.agents.execution.policies.reactive import Aggressive, Participation, Passive, Patience
from serl.agents.execution.policies.schedules import AlmgrenChriss, Twap
from serl.agents.execution.policies.volume import VolumeCurve, Vwap
from serl.exchange.errors import ConfigError

NAMES = ("twap", "vwap", "pov", "ac", "aggressive", "passive", "patience")


def make_policy(
    name: str, *, curve: Path | None = None, rate: float = 0.1, risk_aversion: float = 1e-6, volatility: float = 2.0,
    impact: float = 1.0, cross_share: float = 0.2,
) -> Policy:  # fmt: skip
    """Makes a policy of NAMES, or loads a trained policy from a file. Raises ConfigError for any other name or a missing setting."""
    if name == "twap":
        return Twap()
    if name == "vwap":
        if curve is None:
            raise ConfigError(
                "vwap: expected --volume-curve FILE, got none; make one from training days with `serl volume-curve DAY... -o FILE`"
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
    if name == "patience":
        return Patience()
    if not Path(name).exists():
        raise ConfigError(f"policy: expected one of {', '.join(NAMES)}, or the file of a trained policy, got {name!r}")
    return _load(Path(name))


def packages_of(name: str) -> tuple[str, ...]:
    """The optional packages that a named policy needs: a trained one needs those that read its file."""
    return ("safetensors", "torch") if name not in NAMES and Path(name).exists() else ()


def _load(path: Path) -> Policy:
    """Loads the trained policy of a file."""
    policy: Policy = importlib.import_module("serl.agents.learning.policy").load_policy(path)
    return policy
