"""A published forecast: a news message of kind `signal` with a JSON body."""

import json
import math
from typing import Any, NamedTuple

from serl.agents.signals.errors import SignalError
from serl.agents.signals.labels import CLASSES, NAMES
from serl.exchange.news import News, NewsKind
from serl.exchange.wire import is_int

FILLS = ("fill_buy", "fill_sell")
DIGITS = 4
TOLERANCE = 0.01
"""How far the sum of the three rounded probabilities may be from 1."""


class Forecast(NamedTuple):
    """Probabilities that the mid goes down, stays flat or goes up until each horizon, the volume until then, and the probabilities of fills.

    Attributes:
        symbol: the forecast symbol.
        time_ns: exchange time of the book from which the forecast was made.
        mid_ticks: the mid at that time.
        horizons_s: seconds, one or more.
        thresholds_ticks: for each horizon, the largest absolute move that counts as flat.
        probabilities: for each horizon (down, flat, up).
        source: the maker of the forecast.
        volumes_lots: for each horizon, the expected volume; empty in messages from before there were such forecasts.
        fills: for each horizon, the probabilities (buy, sell) that an order of one lot that joins the queue at the touch is filled; or empty.
    """

    symbol: str
    time_ns: int
    mid_ticks: float
    horizons_s: tuple[float, ...]
    thresholds_ticks: tuple[float, ...]
    probabilities: tuple[tuple[float, float, float], ...]
    source: str
    volumes_lots: tuple[float, ...] = ()
    fills: tuple[tuple[float, float], ...] = ()

    @property
    def headline(self) -> str:
        """A one-line summary."""
        parts = [
            f"{seconds:g} s: " + " ".join(f"{name} {share:.2f}" for name, share in zip(NAMES, shares, strict=True))
            for seconds, shares in zip(self.horizons_s, self.probabilities, strict=True)
        ]
        return f"Forecast {self.symbol}, " + "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """The body of the message; probabilities by class, each a list over the horizons."""
        by_class = dict(zip(NAMES, map(list, zip(*self.probabilities, strict=True)), strict=True))
        if self.volumes_lots:
            by_side = dict(zip(FILLS, map(list, zip(*self.fills, strict=True)), strict=True))
            by_class |= {"volumes_lots": list(self.volumes_lots)} | by_side
        return {
            "symbol": self.symbol, "time_ns": self.time_ns, "mid_ticks": self.mid_ticks,
            "horizons_s": list(self.horizons_s), "thresholds_ticks": list(self.thresholds_ticks), **by_class,
        }  # fmt: skip

    def to_news(self) -> News:
        """The message, not yet with a number and a time."""
        return News(0, 0, NewsKind.SIGNAL, self.symbol, self.headline, json.dumps(self.to_json()), None, self.source)

    @classmethod
    def from_news(cls, message: News) -> "Forecast":
        """Reads the forecast in a message of kind `signal`. Raises SignalError for an invalid one, which any publisher may write."""
        try:
            if message.kind != NewsKind.SIGNAL:
                raise ValueError(f"kind {message.kind}")
            values = json.loads(message.body)
            if not is_int(values["time_ns"]):
                raise ValueError("a time that is no integer")
            horizons, thresholds = _numbers(values["horizons_s"]), _numbers(values["thresholds_ticks"])
            shares = tuple(zip(*(_numbers(values[name]) for name in NAMES), strict=True))
            if not len(horizons) == len(thresholds) == len(shares) > 0:
                raise ValueError("lists of different lengths")
            if any(min(one) < 0 or abs(math.fsum(one) - 1) > TOLERANCE for one in shares):
                raise ValueError("probabilities that do not sum to 1")
            (mid,) = _numbers([values["mid_ticks"]])
            return cls(
                message.symbol, values["time_ns"], mid, horizons, thresholds, shares, message.source, *_trading(values, len(horizons))
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise SignalError(
                f"message {message.sequence}: expected a forecast, got {str(error)[:100]!r}; skip it"
            ) from None


def _trading(values: dict[str, Any], count: int) -> tuple[tuple[float, ...], tuple[tuple[float, float], ...]]:
    """Reads (volumes, fills), both empty if the message has neither. Raises ValueError."""
    if not {"volumes_lots", *FILLS} & set(values):
        return (), ()
    volumes = _numbers(values["volumes_lots"])
    buys, sells = (_numbers(values[name]) for name in FILLS)
    if not len(volumes) == len(buys) == len(sells) == count:
        raise ValueError("lists of different lengths")
    if min(volumes) < 0 or not all(0 <= one <= 1 for one in (*buys, *sells)):
        raise ValueError("a volume below 0, or a probability that is not between 0 and 1")
    return volumes, tuple(zip(buys, sells, strict=True))


def _numbers(values: Any) -> tuple[float, ...]:
    found = tuple(float(one) for one in values)
    if not all(map(math.isfinite, found)):
        raise ValueError("a number that is not finite")
    return found


def rounded(probabilities: Any) -> tuple[tuple[float, float, float], ...]:
    """[H, class] probabilities, rounded for publication."""
    assert probabilities.shape[1] == CLASSES
    return tuple((round(down, DIGITS), round(flat, DIGITS), round(up, DIGITS)) for down, flat, up in probabilities.tolist())  # fmt: skip


def rounded_fills(fills: Any) -> tuple[tuple[float, float], ...]:
    """[H, side] probabilities, rounded for publication."""
    return tuple((round(buy, DIGITS), round(sell, DIGITS)) for buy, sell in fills.tolist())
