"""Simulated days whose parameters are known."""

from functools import cache

from serl.agents.realism.tape import HOUR_NS, MINUTE_NS
from serl.agents.traders.population import PopulationConfig, check_population
from serl.agents.traders.simulate import simulate
from serl.history.day import Day

OPEN_NS = 9 * HOUR_NS + 30 * MINUTE_NS
TRAIN = (OPEN_NS + 10 * MINUTE_NS, OPEN_NS + 60 * MINUTE_NS)
HELD_OUT = (OPEN_NS + 60 * MINUTE_NS, OPEN_NS + 90 * MINUTE_NS)
LIMIT_PER_S = tuple(0.3 if level < 6 else 0.05 if level < 12 else 0.0 for level in range(30))
CANCEL_PER_S = tuple(0.04 if level < 6 else 0.02 for level in range(30))
MARKET_PER_S = 0.2


def poisson() -> PopulationConfig:
    """Zero intelligence at known rates."""
    profile = {
        "limit_per_s": LIMIT_PER_S,
        "cancel_per_s": CANCEL_PER_S,
        "market_per_s": MARKET_PER_S,
        "lots_spread": 0.3,
        "opening_levels": 10,
    }
    return check_population(
        {"name": "poisson", "groups": [{"trader": "zero_intelligence", "latency_us": 1.0, "profile": profile}]},
        "poisson",
    )


def flow(**profile: object) -> PopulationConfig:
    """The flow trader with its defaults."""
    group = {"trader": "flow", "latency_us": 1.0, "start_spread_s": 0.0, "profile": profile}
    return check_population({"name": "flow", "value": {"volatility_ticks_per_root_s": 0.0}, "groups": [group]}, "flow")


@cache
def poisson_day() -> Day:
    """An hour and a half of `poisson`."""
    return simulate(poisson(), 3, HELD_OUT[1])
