"""Counter-based random numbers: a trader's n-th draw depends only on its seed and n, not on other traders or the process.

Draws are SplitMix64 (Steele, Lea, Flood 2014) of a counter, which passes BigCrush and takes 2 ns.
"""

import math
from typing import Any

import numpy as np

from serl.exchange.compiling import inlined

_GOLDEN, _A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@inlined
def mix(word: Any) -> Any:
    """SplitMix64's finaliser: mixes the bits of a uint64."""
    word = (word ^ (word >> np.uint64(30))) * _A
    word = (word ^ (word >> np.uint64(27))) * _B
    return word ^ (word >> np.uint64(31))


@inlined
def uniform(agent: Any) -> float:
    """Draws a uniform number in the open interval (0, 1)."""
    agent.draws += np.uint64(1)
    bits = mix(agent.seed + agent.draws * _GOLDEN) >> np.uint64(12)
    return (np.float64(np.int64(bits)) + 0.5) * 2.0**-52


@inlined
def exponential(agent: Any, mean: float) -> float:
    """Draws an exponential number with this mean."""
    return -mean * math.log(uniform(agent))


@inlined
def normal(agent: Any) -> float:
    """Draws a standard normal number (Box and Muller; drops the second of the pair, so that draws do not depend on earlier ones)."""
    radius = math.sqrt(-2.0 * math.log(uniform(agent)))
    return radius * math.cos(2.0 * math.pi * uniform(agent))


@inlined
def geometric(agent: Any, success: float) -> int:
    """Draws a geometric number: failures before the first success, 0, 1, 2 ..."""
    if success >= 1.0:
        return 0
    return int(math.log(uniform(agent)) / math.log(1.0 - success))


@inlined
def below(agent: Any, count: int) -> int:
    """Draws a uniform integer in 0 .. count - 1."""
    return int(uniform(agent) * count)


@inlined
def trader_seed(seed: int, number: int) -> Any:
    """The seed of trader `number` of a population with this seed."""
    return mix(mix(np.uint64(seed) + _GOLDEN) + np.uint64(number) * _B)
