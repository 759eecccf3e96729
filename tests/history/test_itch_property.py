"""Any valid stream of messages, also with executions out of priority: the market's book equals the reference reader's after each."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.exchange.records import EventKind
from serl.history.verify import market_of
from tests.history.itch_sample import Fields, add, imported, order_message, reference_books
from tests.history.samples import top

LEVELS = 3


class _Stream:
    """Messages of a few orders on a few levels, bids below asks; each message changes a random open order."""

    def __init__(self) -> None:
        self.messages: list[Fields] = []
        self.open: dict[int, tuple[str, int]] = {}
        self.last = 0

    def add_message(self, kind: str, pick: int, shares: int, level: int) -> None:
        """Adds a message, if one of its kind is possible."""
        if kind == "A":
            self.last += 1
            side = "BS"[pick % 2]
            self.open[self.last] = (side, shares)
            self.messages.append(add(self.last, side, shares, self._price(side, level)))
            return
        if not self.open:
            return
        order = list(self.open)[pick % len(self.open)]
        side, open_shares = self.open.pop(order)
        if kind == "D":
            self.messages.append(order_message("D", order))
        elif kind == "U":
            self.last += 1
            self.open[self.last] = (side, shares)
            self.messages.append(order_message("U", order, shares, new_order=self.last, price=self._price(side, level)))
        else:
            taken = min(shares, open_shares)
            more: dict[str, Any] = {"printable": "Y", "price": 10_000} if kind == "C" else {}
            self.messages.append(order_message(kind, order, taken, **more))
            if open_shares > taken:
                self.open[order] = (side, open_shares - taken)

    @staticmethod
    def _price(side: str, level: int) -> int:
        return 10_000 + 100 * (1 + level) * (1 if side == "S" else -1)


MESSAGE = st.tuples(st.sampled_from("AAAAEECXDU"), st.integers(0, 50), st.integers(1, 5), st.integers(0, LEVELS - 1))


@pytest.mark.long
@settings(max_examples=150)
@given(st.lists(MESSAGE, min_size=1, max_size=60))
def test_the_book_equals_the_reference_reader(drawn: list[tuple[str, int, int, int]]) -> None:
    stream = _Stream()
    for message in drawn:
        stream.add_message(*message)
    if not stream.messages:
        return
    with tempfile.TemporaryDirectory() as folder:
        day = imported(Path(folder), *stream.messages)
    market, commands = market_of(day)
    at = 0
    messages = [{"locate": 1, **message} for message in stream.messages]
    for row, books in enumerate(reference_books(messages)):
        stop = int(np.searchsorted(day.rows, row, side="right"))
        events = market.submit(commands[at:stop])
        assert not (events["kind"] == EventKind.REJECTED).any()
        at = stop
        assert top(market, LEVELS) == books.get(1, ({}, {}))
    market.validate()
    assert day.reference.counts["missing_lots"] == day.reference.counts["executions_unfilled"] == 0
