"""What an observation says about the next prices (measured by inner/signals.py), for all parts of the researcher; imports neither PyTorch nor a market."""

from collections.abc import Mapping
from dataclasses import dataclass

T_MIN = 2.0
"""From where on a signal counts."""


@dataclass(frozen=True)
class Signal:
    """What one standard deviation more of an observation says."""

    gain_bps: float
    """How much more an order's price improves, in its favour, until the mean mid of the rest of its window."""
    t: float
    """gain_bps over its standard error, clustered by day."""

    @property
    def counts(self) -> bool:
        """Whether it is more than noise."""
        return abs(self.t) >= T_MIN


Signals = Mapping[str, Signal]
"""By the name of the observation."""


def surest(signals: Signals) -> list[tuple[str, Signal]]:
    """Those that count, the surest first."""
    return sorted((one for one in signals.items() if one[1].counts), key=lambda one: -abs(one[1].t))
