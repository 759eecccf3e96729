"""Checks that a module's output keeps its contract. All raise ModuleError if it does not."""

from typing import Any

import numpy as np

from serl.researcher.modules.contracts import HISTORY_COLUMNS, MEMORY_SIZE, MESSAGE_MAX, Floats
from serl.researcher.modules.errors import ModuleError, NotFiniteError

TRADERS_MAX = 5000
REWARD_MAX = 1e6
INTERVAL_S_MIN, RATE_PER_S_MAX = 0.01, 1000


def numbers(values: Any, shape: tuple[int, ...], what: str) -> Floats:
    """The values as finite float64 of that shape; ModuleError otherwise."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ModuleError(f"{what}: expected an array of numbers, got {type(values).__name__} ({error})") from None
    if array.dtype.kind not in "fiub":
        raise ModuleError(f"{what}: expected an array of numbers, got {type(values).__name__} of {array.dtype}")
    if array.shape != shape:
        raise ModuleError(f"{what}: expected shape {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise NotFiniteError(
            f"{what}: expected finite numbers, got {int((~np.isfinite(array)).sum())} of {array.size} NaN or infinite"
        )
    return array.astype(np.float64)


def rewards(values: Any, count: int) -> Floats:
    """(count,) rewards."""
    array = numbers(values, (count,), "the reward")
    if np.abs(array).max(initial=0) > REWARD_MAX:
        raise ModuleError(f"the reward: expected numbers within {REWARD_MAX:g}, got {np.abs(array).max():g}")
    return array


def rewards_and_memory(values: Any, count: int) -> tuple[Floats, Floats]:
    """(count,) rewards and (count, MEMORY_SIZE) memory, which is 0 if a module returns only rewards."""
    if not isinstance(values, tuple):
        return rewards(values, count), np.zeros((count, MEMORY_SIZE))
    if len(values) != 2:
        raise ModuleError(f"the reward: expected rewards, or a pair of rewards and memory, got {len(values)} values")
    memory = numbers(values[1], (count, MEMORY_SIZE), "the memory")
    if np.abs(memory).max(initial=0) > REWARD_MAX:
        raise ModuleError(f"the memory: expected numbers within {REWARD_MAX:g}, got {np.abs(memory).max():g}")
    return rewards(values[0], count), memory


def scenarios(values: Any, n: int, horizon: int) -> Floats:
    """(n, horizon, 3) scenarios."""
    array = numbers(values, (n, horizon, len(HISTORY_COLUMNS)), "the scenarios")
    if (array[..., 1:] < 0).any():
        raise ModuleError(
            "the scenarios: expected ranges and volumes (columns 1 and 2) of at least 0, got negative ones"
        )
    if np.abs(array[..., 0]).max(initial=0) > 1000:
        raise ModuleError("the scenarios: expected returns within 1000 bps per bar (column 0), got larger ones")
    return array


def messages(values: Any, count: int) -> Floats:
    """(count, m) messages."""
    shape = np.shape(values)
    if len(shape) != 2 or not 1 <= shape[1] <= MESSAGE_MAX:
        raise ModuleError(f"the messages: expected shape ({count}, m) with m from 1 to {MESSAGE_MAX}, got {shape}")
    array = numbers(values, (count, shape[1]), "the messages")
    if np.abs(array).max() > 1:
        raise ModuleError(f"the messages: expected numbers from -1 to 1, got {np.abs(array).max():g}; use tanh or clip")
    return array


def decisions(values: Any, count: int) -> Floats:
    """(count, 3) decisions of a policy."""
    return numbers(values, (count, 3), "the policy")


def population(values: Any) -> dict[str, Any]:
    """A valid population: one symbol, no imports, a bounded number of traders and bounded rates."""
    from serl.agents.traders.errors import PopulationError
    from serl.agents.traders.population import check_population

    if not isinstance(values, dict):
        raise ModuleError(f"the population: expected a dict with name and groups, got {type(values).__name__}")
    unknown = sorted(str(key) for key in values if key not in ("name", "groups", "value"))
    if unknown:
        raise ModuleError(f"the population: expected only name, groups and value, got also {', '.join(unknown)[:200]}")
    try:
        found = check_population(values, "the population")
    except PopulationError as error:
        raise ModuleError(str(error)) from None
    if found.traders > TRADERS_MAX or any(group.symbol for group in found.groups):
        raise ModuleError(f"the population: expected at most {TRADERS_MAX} traders of symbol 0, got {found.traders}")
    for group in found.groups:
        _check_rates(group.trader, group.profile)
    return values


def _check_rates(trader: str, profile: dict[str, Any]) -> None:
    """Raise ModuleError for traders so fast that simulating a day would take forever."""
    for name, value in profile.items():
        fastest = np.max(value) if np.size(value) and not isinstance(value, str) else 0
        slow = name.endswith("interval_s") and np.min(value) < INTERVAL_S_MIN
        if slow or (name.endswith("_per_s") and fastest > RATE_PER_S_MAX):
            raise ModuleError(
                f"the population: trader {trader!r}: expected intervals of at least {INTERVAL_S_MIN} s and rates up to {RATE_PER_S_MAX} per s, "
                f"got {name} {value}"
            )
