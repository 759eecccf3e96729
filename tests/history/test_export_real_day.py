"""A real day, exported to both formats and imported again."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from serl.history.importing import import_day
from serl.history.itch.writer import write_itch
from serl.history.lobster import read_lobster
from serl.history.lobster_day import book_view, lobster_day
from serl.history.lobster_export import write_lobster
from serl.history.tape import Tape
from serl.history.verify import market_of, verify
from tests.history.samples import sample


@pytest.mark.long
@pytest.mark.parametrize("count", [60_000, None], ids=["morning", "day"])
def test_round_trip_of_a_real_day(count: int | None, tmp_path: Path) -> None:
    """ITCH keeps the tape and the book, LOBSTER the book after every row."""
    day = import_day(sample("lobster/LOBSTER_SampleFile_AMZN_2012-06-21_5.zip"))
    day = dataclasses.replace(day, commands=day.commands[:count], rows=day.rows[:count])
    write_itch(day, tmp_path / "a.itch.gz")
    tapes, books = [], []
    for one in (day, import_day(tmp_path / "a.itch.gz")):
        market, commands = market_of(one)
        tape = Tape()
        tape.update(market.submit(commands))
        tapes.append((tape.rows, tape.hexdigest()))
        books.append(np.concatenate(market.book(0)))
    assert tapes[0] == tapes[1] and np.array_equal(books[0], books[1])
    rows = write_lobster(day, tmp_path / "a.zip", 5)
    source = read_lobster(tmp_path / "a.zip")
    result = verify(lobster_day(source), *book_view(source))
    assert (result.rows, result.differing, result.unexplained) == (rows, 0, 0)
