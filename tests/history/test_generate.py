"""Generated days: the same for the same seed, with a plausible market."""

from typing import Any

import numpy as np
import pytest

from serl.exchange.errors import ConfigError
from serl.exchange.records import EventKind
from serl.history.generate import OPEN_NS, SECOND_NS, generate_day
from serl.history.verify import market_of

HOUR_NS = 3600 * SECOND_NS


@pytest.mark.parametrize("seed", [0, 1, 2, 7])
def test_market_is_never_empty_and_plausible(seed: int) -> None:
    day = generate_day(seed, end_ns=OPEN_NS + HOUR_NS)
    assert 20_000 < len(day) < 100_000
    market, commands = market_of(day)
    spreads, fills = [], 0
    opening = int(np.count_nonzero(day.rows < 0))
    market.submit(commands[:opening])
    for start in range(opening, len(day), 100):
        events = market.submit(commands[start : start + 100])
        assert not np.any(events["kind"] == EventKind.REJECTED)
        fills += int(np.count_nonzero(events["kind"] == EventKind.FILL)) // 2
        bids, asks = market.book(0, 10)
        assert len(bids) == len(asks) == 10, "ten levels at any time"
        spreads.append(int(asks["price_ticks"][0] - bids["price_ticks"][0]))
    assert 1 <= np.mean(spreads) <= 3 and np.quantile(spreads, 0.99) <= 6
    assert fills > len(day) / 20
    market.validate()


def test_same_seed_same_day_other_seed_other_day() -> None:
    first, again, other = (generate_day(seed, end_ns=OPEN_NS + HOUR_NS // 6) for seed in (3, 3, 4))
    assert first.commands.tobytes() == again.commands.tobytes() and first.reference == again.reference
    assert first.commands.tobytes() != other.commands.tobytes()


def test_ids_times_and_reference() -> None:
    day = generate_day(5, "ABC", start_ns=10 * HOUR_NS, end_ns=11 * HOUR_NS, commands_per_s=2.0, tick_size="0.5")
    assert day.commands["command_id"].tolist() == list(range(1, len(day) + 1))
    times = day.commands["time_ns"]
    assert np.all(np.diff(times) >= 0) and times[0] == 10 * HOUR_NS and times[-1] < 11 * HOUR_NS
    assert day.rows[0] == -1 and np.all(np.diff(day.rows) >= 0)
    reference = day.reference
    assert (reference.symbols[0].name, reference.symbols[0].tick_size, reference.source) == ("ABC", "0.5", "generated")
    assert reference.parameters["seed"] == 5


def test_busier_at_open_and_close() -> None:
    times = generate_day(1).commands["time_ns"]
    counts, _ = np.histogram(times, bins=13, range=(OPEN_NS, OPEN_NS + 6.5 * HOUR_NS))
    assert counts[0] > 2 * counts[6] and counts[12] > 2 * counts[6]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"seed": -1}, "seed: expected 0 or more"),
        ({"seed": 1, "start_ns": 5, "end_ns": 5}, "start and end"),
        ({"seed": 1, "commands_per_s": 0.0}, "commands_per_s"),
        ({"seed": 1, "price_ticks": 100}, "price_ticks"),
    ],
)
def test_invalid_arguments(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        generate_day(**arguments)
