"""The limits of a market, and the names of its symbols."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

from serl.exchange.errors import ConfigError
from serl.exchange.integers import integer
from serl.exchange.records import ALL_SYMBOLS, CASH_MAX

SYMBOLS_MAX = ALL_SYMBOLS
"""Symbol numbers are below ALL_SYMBOLS."""
PARTICIPANTS_MAX = 1 << 16
"""The number of participants that COMMAND.participant can distinguish."""
LOTS_MAX = 1 << 60
"""Maximum lots of all open orders together, so that 64 bits hold every sum of them."""


@dataclasses.dataclass(frozen=True)
class MarketLimits:
    """The limits of a market; it rejects commands beyond them."""

    qty_lots_max: int = 1_000_000
    price_ticks_max: int = 1_000_000_000
    orders_open_max: int = 2**23
    levels_max: int = 65_536  # per symbol, both sides together
    window_ticks: int = 4096  # a power of two
    participants_max: int = 256
    display_divisor_max: int = 1000  # an iceberg has at most this many times its displayed lots; 0 = no limit

    def __post_init__(self) -> None:
        """Raises ConfigError if a limit is no integer of 64 bits or below 1 (display_divisor_max: below 0) or the limits contradict each other."""
        for name, value in dataclasses.asdict(self).items():
            least = 0 if name == "display_divisor_max" else 1
            integer(name, value, least)
        if self.participants_max > PARTICIPANTS_MAX:
            raise ConfigError(f"participants_max: expected at most {PARTICIPANTS_MAX}, got {self.participants_max}")
        if self.window_ticks < 128 or self.window_ticks & (self.window_ticks - 1):
            raise ConfigError(f"window_ticks: expected a power of two from 128, got {self.window_ticks}")
        largest = self.qty_lots_max * self.price_ticks_max
        if largest > CASH_MAX:
            raise ConfigError(
                f"expected qty_lots_max x price_ticks_max of at most 2^53, as a float holds them exactly, got {largest}; lower one of them"
            )
        check_lots(self.qty_lots_max, self.orders_open_max)


def check_lots(qty_lots_max: int, orders_open_max: int) -> None:
    """Raises ConfigError if the lots of a price level may exceed 64 bits."""
    largest = qty_lots_max * orders_open_max
    if largest > LOTS_MAX:
        raise ConfigError(
            f"limits: expected qty_lots_max x orders_open_max of at most 2^60, so that the lots of a level fit into 64 bits, "
            f"got {largest}; lower orders_open_max to {LOTS_MAX // qty_lots_max}"
        )


def symbol_names(symbols: Sequence[str] | int) -> list[str]:
    """The names of symbols, given as a list of names or as a count. Raises ConfigError for an invalid list or count."""
    if isinstance(symbols, str):
        raise ConfigError(f"symbols: expected a list or a number, got {symbols!r}; write [{symbols!r}]")
    names = [str(number) for number in range(symbols)] if isinstance(symbols, int) else list(symbols)
    if not 1 <= len(names) <= SYMBOLS_MAX:
        raise ConfigError(f"expected 1 to {SYMBOLS_MAX} symbols, got {len(names)}")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ConfigError(f"expected each symbol once, got {', '.join(twice)} more than once")
    return names
