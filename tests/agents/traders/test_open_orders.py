"""Open orders of traders, against dictionaries."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.agents.traders import open_orders
from serl.agents.traders.build import Crowd
from serl.agents.traders.engine import has_capacity
from serl.agents.traders.records import NODES_USED
from tests.agents.traders.trader_bench import population

TRADERS = 5
CONFIG = population({"trader": "noise", "count": TRADERS})


def check(crowd: Crowd, plain: dict[int, tuple[int, int]]) -> None:
    """plain: the expected open orders, order id to (trader, lots)."""
    traders = crowd.traders
    assert traders.counter[NODES_USED] == len(plain)
    for order_id, (index, lots) in plain.items():
        node = traders.nodes[open_orders.find(traders, order_id)]
        assert (node["order_id"], node["agent"], node["open_lots"]) == (order_id, index, lots)
    places: list[int] = []
    for index in range(TRADERS):
        agent = traders.agents[index]
        start, count = int(agent["list_start"]), int(agent["orders_open"])
        places += range(start, start + int(agent["list_capacity"]))
        listed = traders.slab[start : start + count]
        assert sorted(traders.nodes["order_id"][listed]) == sorted(key for key, one in plain.items() if one[0] == index)
        assert np.array_equal(traders.nodes["list_index"][listed], np.arange(count))
    assert len(places) == len(set(places)), "lists overlap"
    assert (traders.order_table[::2] != 0).sum() == len(plain)


def play(steps: list[tuple[int, int]]) -> None:
    """(trader, 0) adds an order; (trader, n) removes the n-th open order of any trader."""
    crowd, plain = Crowd(CONFIG, 1), dict[int, tuple[int, int]]()
    for number, (index, what) in enumerate(steps):
        if what == 0 or not plain:
            if not has_capacity(crowd.traders):
                crowd.grow()
            order_id = (number + 1) * 1024 + index
            open_orders.add(crowd.traders, index, order_id, 0, 100, number + 1, number)
            plain[order_id] = (index, number + 1)
        else:
            order_id = list(plain)[what % len(plain)]
            open_orders.remove(crowd.traders, open_orders.find(crowd.traders, order_id))
            del plain[order_id]
            assert open_orders.find(crowd.traders, order_id) == -1
    check(crowd, plain)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, TRADERS - 1), st.integers(0, 3)), max_size=60))
def test_against_a_dictionary(steps: list[tuple[int, int]]) -> None:
    play(steps)


def test_thousands_of_orders_grow_the_arrays() -> None:
    draw = random.Random(4)
    play([(draw.randrange(TRADERS), draw.choice((0, 0, 0, 1))) for _ in range(8000)])
