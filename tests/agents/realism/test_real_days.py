"""LOBSTER's sample days: the tape reproduces the file, and two halves of a day are closer than a generated day."""

import time
from pathlib import Path

import numpy as np
import pytest

from serl.agents.realism.benchmark import compare
from serl.agents.realism.messages import CANCEL, LIMIT, MARKET
from serl.agents.realism.tape import HOUR_NS, build_tape
from serl.history.generate import generate_day
from serl.history.importing import import_day
from serl.history.lobster import read_lobster
from serl.history.lobster_day import book_view, lobster_day

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "lobster"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the LOBSTER sample files are not in ../shared/data/lobster"
)
NAMES = ("GOOG_2012-06-21_10", "AMZN_2012-06-21_5", "AMZN_2012-06-21_1")


@pytest.mark.parametrize("name", [*(pytest.param(name, marks=pytest.mark.long) for name in NAMES[:2]), NAMES[2]])
def test_the_tape_reproduces_the_file(name: str) -> None:
    """Every message of types 1 to 4 with its side, size, price and book; executions of one order are one message."""
    source = read_lobster(FOLDER / f"LOBSTER_SampleFile_{name}.zip")
    day = lobster_day(source)
    build_tape(day)
    began = time.perf_counter()
    tape = build_tape(day)
    assert time.perf_counter() - began < 2, "a whole day, after compilation"
    shown = source.messages[:, 0] <= 4
    shown[0] &= source.messages[0, 0] == 1  # row 1 is in the opening book otherwise
    places = np.flatnonzero(shown)
    types = source.messages[places, 0]
    kind = np.where(types == 1, LIMIT, np.where(types == 4, MARKET, CANCEL))
    resting = np.where(source.messages[places, 4] == 1, 0, 1)
    side = np.where(kind == MARKET, 1 - resting, resting)
    times = source.time_ns[places]
    same = (np.diff(times) == 0) & (np.diff(side) == 0) & (kind[1:] == MARKET) & (kind[:-1] == MARKET)
    start = np.flatnonzero(np.concatenate([[True], ~same]))
    last = places[np.concatenate([start[1:], [len(places)]]) - 1]
    assert tape.kind.tolist() == kind[start].tolist()
    assert tape.side.tolist() == side[start].tolist()
    assert tape.time_ns.tolist() == times[start].tolist()
    assert tape.qty_lots.tolist() == np.add.reduceat(source.messages[places, 2], start).tolist()
    assert tape.price_ticks.tolist() == (source.messages[last, 3] // 100).tolist()
    ticks, lots = book_view(source)
    assert (tape.book_ticks[1:] == ticks[last]).all() and (tape.book_lots[1:] == lots[last]).all()


@pytest.mark.long
def test_halves_are_closer_than_a_generated_day() -> None:
    tape = build_tape(import_day(FOLDER / f"LOBSTER_SampleFile_{NAMES[0]}.zip"))
    window = 13 * HOUR_NS, 16 * HOUR_NS
    first, second = tape.halves(*window)
    simulated = build_tape(generate_day(7), tape.levels).window(*window)
    floor = compare(first, second, bootstraps=0, seed=1).summary()["l1"]["mean"].value
    found = compare(tape.window(*window), simulated, bootstraps=0, seed=1).summary()["l1"]["mean"].value
    assert 0.1 < floor < 0.2 < 0.4 < found
