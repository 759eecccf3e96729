"""Rules that trade a pair, as baselines for agents."""

import dataclasses
from typing import Any

import numpy as np

from serl.agents.pairs.environment import PairVectorEnv
from serl.exchange.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class ZScore:
    """The rule of statistical arbitrage (Gatev, Goetzmann, Rouwenhorst, Pairs trading, 2006; Avellaneda and Lee, Statistical arbitrage in the US
    equities market, 2010). With z the spread's deviation from its mean in standard deviations, it takes the largest position against z when
    |z| is above `enter`, and exits once |z| is below `leave` or z has crossed the mean. Raises `ConfigError` unless 0 <= leave < enter.
    """

    enter: float = 2.0
    leave: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.leave < self.enter:
            raise ConfigError(f"leave: expected at least 0 and less than enter ({self.enter:g}), got {self.leave:g}")

    @property
    def name(self) -> str:
        """The name, with the thresholds."""
        return f"z-score, {self.enter:g} and {self.leave:g}"

    def shares(self, env: PairVectorEnv) -> Any:
        """See `Rule`."""
        z, held = env.observer.z, np.sign(env.inventory)
        kept = np.where(held * z <= -self.leave, held, 0.0)
        return np.where(np.abs(z) > self.enter, -np.sign(z), kept)
