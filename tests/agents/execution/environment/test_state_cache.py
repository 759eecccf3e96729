"""States of simulated days that are kept: they are exact, small, and within their budget; windows that begin from them are the same."""

import gc
from typing import Any

import numpy as np
import pytest

from serl.agents.execution.environment import dynamic, state_cache
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.market_state import MarketState
from serl.agents.execution.environment.records import CHILD, EPISODE
from serl.agents.execution.environment.state_cache import MEGABYTE, StateCache
from serl.agents.traders.population import PopulationConfig
from serl.exchange.records import Rows
from tests.agents.execution.environment.stage import SECOND_NS, episode
from tests.agents.execution.environment.test_dynamic import OPEN_S, SMALL, children
from tests.agents.traders.test_rules import population

BANDS = {"band_ppm": 1000, "reference_ticks": 10_000, "band_action": "auction", "volatility_s": 20}
ADDRESSES = {"agents": ["function_address", "profile_address", "memory_address"]}


def fields_of(state: MarketState) -> dict[str, bytes]:
    """All that a market's future depends on, without addresses and room for requests."""
    traders, market = state.crowd.traders._asdict(), state.market.state._asdict()
    arrays = (
        traders | {f"market.{name}": array for name, array in market.items()} | {"memory": state.crowd.changing[-1]}
    )
    found = {}
    for name, array in arrays.items():
        if name in ("handle", "market_view", "requests", "market.handle", "market.scratch"):
            continue
        names = [field for field in array.dtype.names or () if field not in ADDRESSES.get(name, ())]
        found[name] = b"".join(array[field].tobytes() for field in names) if names else array.tobytes()
    return found


def starts(*seconds: int, seed: int = 0) -> Rows:
    """Windows of one seed, seconds after the open."""
    rows = np.concatenate([episode(start=OPEN_S + second, qty=50, steps=6) for second in seconds])
    rows["day"] = seed
    return rows


def begun(market: DynamicMarket, rows: Rows) -> list[dict[str, bytes]]:
    """What the environments begin with."""
    market.reset(np.arange(len(rows)), rows)
    return [fields_of(market._states[env]) for env in range(len(rows))]


@pytest.fixture(params=["plain", "bands"])
def config(request: pytest.FixtureRequest) -> PopulationConfig:
    """A population without rules, and one whose rules act between steps."""
    return SMALL if request.param == "plain" else population(**BANDS)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """States each 30 seconds."""
    monkeypatch.setattr(state_cache, "FINEST_NS", 30 * SECOND_NS)
    monkeypatch.setattr(dynamic, "COMMANDS_MIN", 1)


@pytest.mark.usefixtures("often")
def test_a_window_begins_with_the_same_market_however_it_was_reached(config: PopulationConfig) -> None:
    """Alone from the open; together with other windows of its seed; and from kept states, in memory that was used."""
    rows = starts(500, 80, 317, 318, 80, 30)
    expected = [begun(DynamicMarket(config, 1, cache_mb=0), rows[[row]])[0] for row in range(len(rows))]
    market, sent = DynamicMarket(config, len(rows), threads=2), children(len(rows), 3)
    for order in (np.arange(6), np.arange(6), np.array([3, 2, 5, 0, 1, 4])):
        found = begun(market, rows[order])
        assert found == [expected[row] for row in order]
        assert market.frames["time_ns"].tolist() == rows["start_ns"][order].tolist()
        market.step(sent.copy(), rows["start_ns"][order] + 60 * SECOND_NS)
    assert len(market.cache) > 10
    assert len({one["market.orders"] for one in expected}) == 5


def opened(config: PopulationConfig, second: int, seed: int = 1) -> MarketState:
    """A market at a time."""
    market = DynamicMarket(config, 1, cache_mb=0)
    market.reset(np.arange(1), starts(second, seed=seed))
    return market._states[0]


def test_a_kept_state_is_exact_and_small(config: PopulationConfig) -> None:
    cache, state, other = StateCache(config.open_ns, 64), opened(config, 0), opened(config, 300)
    cache.keep(1, config.open_ns, state)
    cache.keep(1, other_ns := (OPEN_S + 300) * SECOND_NS, other)
    expected = fields_of(other)
    time_ns, kept = cache.latest(1, other_ns + 5)
    assert time_ns == other_ns and kept is not None
    restored = kept.restored(None)
    assert fields_of(restored) == expected
    again = kept.restored(restored)
    assert again.market is restored.market, "in the same memory"
    assert fields_of(again) == expected
    assert kept.bytes < other.block.words.nbytes / 8


def test_an_array_that_has_grown_is_kept_too(config: PopulationConfig) -> None:
    cache, state = StateCache(config.open_ns, 64), opened(config, 300)
    cache.keep(1, config.open_ns, opened(config, 0))
    state.market.grow()
    cache.keep(1, config.open_ns + 1, state)
    kept = cache.latest(1, config.open_ns + 1)[1]
    assert kept is not None
    assert len(kept.restored(opened(config, 10)).market.state.orders) == len(state.market.state.orders)
    assert fields_of(kept.restored(opened(config, 10))) == fields_of(state)


def test_traders_outlive_the_market_that_a_state_was_kept_from() -> None:
    """Their parameters lie in memory of the first market of their seed."""
    cache, rows = StateCache(SMALL.open_ns, 64), starts(200, seed=1)
    cache.keep(1, int(rows["start_ns"][0]), opened(SMALL, 200))
    gc.collect()
    rubbish = [np.full(64, 7.7) for _ in range(5000)]
    market = DynamicMarket(SMALL, 1)
    market.cache = cache
    found, until = [], rows["start_ns"] + 300 * SECOND_NS
    for fresh in (market, DynamicMarket(SMALL, 1)):
        fresh.reset(np.arange(1), rows)
        fresh.step(np.zeros(1, CHILD), until)
        found.append(fields_of(fresh._states[0]))
    assert found[0] == found[1] and rubbish


def recounted(cache: StateCache) -> int:
    """Bytes of all that a cache holds."""
    bases = sum(base.block.words.nbytes for base in cache._bases.values())
    return bases + sum(kept.bytes for kept in cache._states.values()) + len(cache._times_ns) * cache._seed_bytes


@pytest.mark.usefixtures("often")
def test_the_interval_doubles_until_the_states_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_cache, "COARSEST_NS", 120 * SECOND_NS)
    rows = np.zeros(3, EPISODE)
    rows[:] = starts(900)
    rows["day"] = range(3)
    sizes: dict[int, Any] = {}
    for size_mb in (9, 4, 2, 0):
        market = DynamicMarket(SMALL, 3, cache_mb=size_mb)
        market.reset(np.arange(3), rows)
        cache = market.cache
        assert cache.bytes_used == recounted(cache) <= size_mb * MEGABYTE
        sizes[size_mb] = cache.interval_ns // SECOND_NS, len(cache)
        market.close()
    assert sizes[0][1] == 0 and sizes[9][0] < sizes[4][0] <= sizes[2][0] == 120
    assert sizes[9][1] > sizes[4][1] > sizes[2][1] > 0


@pytest.mark.usefixtures("often")
def test_the_least_recently_used_state_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_cache, "COARSEST_NS", 30 * SECOND_NS)
    cache, state = StateCache(SMALL.open_ns, 2), opened(SMALL, 300)
    times_ns = [SMALL.open_ns + number * 30 * SECOND_NS for number in range(400)]
    for number, time_ns in enumerate(times_ns):
        cache.keep(1, time_ns, state)
        assert cache.latest(1, SMALL.open_ns)[0] == SMALL.open_ns, "used just now"
        if len(cache) <= number:
            break
    assert cache.latest(1, times_ns[1])[0] == SMALL.open_ns
    assert cache.bytes_used == recounted(cache) <= 2 * MEGABYTE


def test_the_open_is_kept_whatever_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although it is no multiple of the interval."""
    monkeypatch.setattr(state_cache, "FINEST_NS", 30 * SECOND_NS)
    open_ns, state = SMALL.open_ns + 7 * SECOND_NS, opened(SMALL, 300)
    cache = StateCache(open_ns, 2)
    for number in range(400):
        cache.keep(1, open_ns + number, state)
    assert cache.interval_ns > 30 * SECOND_NS
    assert len(cache) < 400 and cache.latest(1, open_ns)[0] == open_ns and cache.latest(1, open_ns)[1] is not None
