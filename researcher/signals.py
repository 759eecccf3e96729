"""Signals: what observations predict about the next prices (measured by inner/signals.py). Imports neither PyTorch nor a market, so that all parts
of the researcher can use it."""

from collections.abc import Mapping
from dataclasses import dataclass

T_MIN = 2.0
"""Smallest |t| at which a signal counts."""


@dataclass(frozen=True)
class Signal:
    """What an increase of an observation by one standard deviation predicts."""

    gain_bps: float
    """Additional move from the present mid to the mean mid over the rest of the order's window; positive in the order's favour."""
    t: float
    """gain_bps over its standard error, clustered by day."""

    @property
    def counts(self) -> bool:
        """Whether the signal is more than noise."""
        return abs(self.t) >= T_MIN


Signals = Mapping[str, Signal]
"""Signals by the name of the observation."""


def surest(signals: Signals) -> list[tuple[str, Signal]]:
    """The signals that count, largest |t| first."""
    return sorted((one for one in signals.items() if one[1].counts), key=lambda one: -abs(one[1].t))
