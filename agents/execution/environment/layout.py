"""The layout of an observation: the names of its numbers, in order. Uses no compiled code, which takes a sixth of a second to import."""

import dataclasses
from functools import cached_property

from serl.exchange.errors import ConfigError

HISTORY_STEPS = 5
"""Past steps in an observation, each with HISTORY_FEATURES."""
HISTORY_FEATURES = ("return", "volume", "signed", "gap")
"""Return of the mid, volume, signed volume (bought minus sold), and distance of the final mid above the step's VWAP, for each past step."""

FORECAST_FEATURES = ("trend", "move", "fill", "volume")
"""For each horizon: P(up) - P(down) of the mid for a seller, its negative for a buyer, so that above 0 the price is expected to get better;
P(up) + P(down); the probability that an order which joins the queue at the own-side touch is filled; and ln of the expected volume divided by its
mean in the training hours."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """The numbers in an observation: all except `left_out`, followed by those of forecasts."""

    levels: int = 5
    left_out: tuple[str, ...] = ()
    """Names of numbers to leave out: one number, like return_4, or without the index all numbers of a name, like return."""
    horizons_s: tuple[float, ...] = ()
    """Horizons of the forecasts, if the observation has any."""

    def __post_init__(self) -> None:
        known = {part for name in self.all_names for part in (name, _without_index(name))}
        if unknown := [name for name in self.left_out if name not in known]:
            raise ConfigError(
                f"left_out: expected names of observations, got {', '.join(unknown)}; Layout().names lists them"
            )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers, in order."""
        left = set(self.left_out)
        kept = (name for name in self.all_names if name not in left and _without_index(name) not in left)
        forecasts = (f"{feature}_{horizon_s:g}s" for horizon_s in self.horizons_s for feature in FORECAST_FEATURES)
        return (*kept, *forecasts)

    @cached_property
    def all_names(self) -> tuple[str, ...]:
        """Names of all numbers except forecasts, including those that are left out."""
        book = [
            f"{side}_{quantity}_{level}"
            for side in ("bid", "ask")
            for quantity in ("distance", "lots")
            for level in range(1, self.levels + 1)
        ]
        history = [f"{feature}_{lag}" for feature in HISTORY_FEATURES for lag in range(HISTORY_STEPS)]
        own = ["time_left", "inventory", "behind_schedule", "resting", "ahead", "sign", "drift"]
        return (*book, "spread", "imbalance", *history, *own)

    @property
    def size(self) -> int:
        """How many numbers an observation has."""
        return len(self.names)


def _without_index(name: str) -> str:
    stem, _, index = name.rpartition("_")
    return stem if index.isdigit() else name
