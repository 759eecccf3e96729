"""The signal operator: rules whose terms use what predicts the price, with signs that trade sooner when the order's price is about to get worse.

A uniform draw picks observations with and without a signal equally often, and the wrong sign as often as the right one. Signals are measured on
training days (inner/signals.py) in seconds, whereas scoring a rule that uses one costs hundreds of orders.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from serl.researcher.modules.contracts import Kind
from serl.researcher.outer import uniform
from serl.researcher.signals import Signals

SOONER = {"take": 1, "rest": 1, "offset": -1}
"""Whether more of an output trades an order sooner (1) or later (-1)."""
T_MAX = 10.0
"""|t| above which a signal is not drawn more often."""
OTHERS_WEIGHT = 0.5
"""Weight of an observation without a signal, where others have |t|: some predict nothing, but matter to what an order does."""
WEIGHT_PERCENT_MIN = 20
"""Smallest weight of a term with a signal: smaller ones hardly change what is traded."""


def draw(signals: Signals, rng: np.random.Generator) -> str:
    """A specification of kind `policy` with at least one term, drawn by signals; the rest is drawn uniformly."""
    return uniform.written(uniform.chosen(Kind.POLICY, _Choice(signals, rng)))


class _Choice:
    """Chooses the values of a rule in the order of its schema: a term's output and observation are known when its weight is chosen."""

    def __init__(self, signals: Signals, rng: np.random.Generator) -> None:
        self._signals, self._rng = signals, rng
        self._term: dict[str, Any] = {}

    def __call__(self, path: uniform.Path, options: Sequence[Any]) -> Any:
        """See uniform.Choose."""
        name = path[-1]
        if path == ("terms",):
            options = [length for length in options if length]
        elif name == "observed":
            return self._noted(name, self._observation(options))
        elif name == "weight_percent" and (sign := self._sign()):
            options = [one for one in options if one * sign >= WEIGHT_PERCENT_MIN]
        return self._noted(name, options[int(self._rng.integers(len(options)))])

    def _noted(self, name: Any, value: Any) -> Any:
        self._term[name] = value
        return value

    def _observation(self, options: Sequence[str]) -> str:
        found = [self._signals.get(one) for one in options]
        weights = np.array([min(abs(one.t), T_MAX) if one and one.counts else OTHERS_WEIGHT for one in found])
        return options[int(self._rng.choice(len(options), p=weights / weights.sum()))]

    def _sign(self) -> int:
        """Sign of the weight of the present term; 0 where it does not matter."""
        one = self._signals.get(self._term["observed"])
        if one is None or not one.counts or self._term["shape"] == "square":
            return 0
        return SOONER[self._term["output"]] * (1 if one.gain_bps < 0 else -1)
