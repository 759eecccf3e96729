"""A book that grows in place, and copies of it from which snapshots are made while it changes."""

import ctypes
import mmap
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from serl.exchange import growth
from serl.exchange.config import load_config
from serl.exchange.core import ROOM_SLOTS, Core
from serl.exchange.growth import STEP_SLOTS, Room
from serl.exchange.journal.journal import Journal
from serl.exchange.journal.snapshots import SavedSnapshot
from serl.exchange.kernel.state import State
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.memory import POPULATE_WRITE, populate
from serl.exchange.records import COMMAND, CommandKind, Rows, TimeInForce
from tests.exchange.notation import parse_all

LIMITS = MarketLimits(window_ticks=128, participants_max=8, orders_open_max=2**20)
SPECIAL = "p1 c900001 NEW buy 30@7 display=5; p2 c900001 NEW sell 4@9 stop=3; p3 c900001 NEW buy 9@5 peg=primary"


def orders(count: int, first_id: int = 1, seed: int = 1) -> Rows:
    """One-lot orders of four participants that rest, inside and outside the window."""
    random, rows = np.random.default_rng(seed), np.zeros(count, COMMAND)
    rows["kind"], rows["time_in_force"], rows["qty_lots"] = CommandKind.NEW, TimeInForce.GTC, 1
    rows["price_ticks"], rows["command_id"] = random.integers(1, 1000, count), first_id + np.arange(count)
    rows["participant"] = random.integers(0, 4, count)
    return rows


@pytest.mark.long
@pytest.mark.parametrize("setup", ["", "p1 c1 NEW buy 30@7 display=5"])
def test_a_market_that_grows_in_place_is_the_same(setup: str) -> None:
    """Also beyond its room, where it is copied, and with the arrays of the full rule book."""
    market, copied = Market(1, limits=LIMITS, room_slots=3 * STEP_SLOTS), Market(1, limits=LIMITS)
    places, sizes = set(), []
    for each in (market, copied):
        if setup:
            each.submit(parse_all(setup))
    for part in range(8):
        rows = orders(12_000, 10 + part * 12_000, part)
        events = market.submit(rows)
        assert (events == copied.submit(rows)).all()
        sizes.append(len(market.state.orders))
        places.add((sizes[-1] > 3 * STEP_SLOTS, market.state.orders.ctypes.data))
    assert market.state_hash() == copied.state_hash()
    assert {size % STEP_SLOTS for size in sizes} == {0} and sizes[-1] == 6 * STEP_SLOTS
    assert len(places) == 2, "it moved once, when there was no room left"
    market.validate()


def test_a_step_takes_no_longer_in_a_large_market(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copied one takes time in proportion to the orders that it has."""

    def growth_s(room_slots: int) -> float:
        market, found = Market(1, limits=LIMITS, room_slots=room_slots), []
        grow = growth.grow_orders

        def timed(state: State, capacity: int, room: Room) -> State:
            room.populate(("orders", "levels"), len(state.orders), len(state.table))
            began_s = time.thread_time()
            grown = grow(state, capacity, room)
            found.append(time.thread_time() - began_s)
            return grown

        monkeypatch.setattr(growth, "grow_orders", timed)
        market.submit(orders(300_000))
        monkeypatch.setattr(growth, "grow_orders", grow)
        return found[-1]

    assert growth_s(ROOM_SLOTS) < 0.2 * growth_s(0)


def test_a_copy_does_not_change_with_the_market() -> None:
    market, room = Market(1, limits=LIMITS, room_slots=ROOM_SLOTS), Room(ROOM_SLOTS)
    for part in range(4):
        market.submit(orders(9000, 1 + part * 9000, part))
        copy, expected = market.copied(room), market.state_hash()
        assert copy.books is not None
        market.submit(parse_all("; ".join(f"p{1 + part} c{number} MASS_CANCEL" for number in range(900, 903))))
        market.submit(orders(9000, 500_000 + part * 9000, 7))
        assert market.state_hash() != expected
        assert copy.snapshot().digest() == expected
        assert Market.restore(copy.snapshot(), 1, limits=LIMITS).state_hash() == expected


def test_a_snapshot_of_many_symbols_touches_no_memory_that_is_not_used() -> None:
    """The windows of 4,000 symbols are 130 MB, their far prices 800 MB."""
    market, room = Market(4000, limits=MarketLimits(participants_max=8)), Room(ROOM_SLOTS)
    rows = orders(20_000)
    rows["symbol"] = np.arange(len(rows)) % 4000
    market.submit(rows)
    expected, began_s = market.state_hash(), time.thread_time()
    copy = market.copied(room)
    took_s = time.thread_time() - began_s
    assert copy.snapshot().digest() == expected
    assert took_s < 0.25


@pytest.mark.parametrize(("count", "is_copied"), [(100, False), (5000, True)])
def test_a_copy_has_what_the_full_rule_book_knows(count: int, is_copied: bool) -> None:
    """Whether books are copied, or orders listed at once, because they are few."""
    market, room = Market(1, limits=LIMITS), Room()
    market.submit(orders(count))
    market.submit(parse_all(SPECIAL))
    copy, expected = market.copied(room), market.snapshot()
    assert (copy.books is not None) == is_copied
    market.submit(parse_all("p1 c900009 MASS_CANCEL; p2 c900009 MASS_CANCEL"))
    assert len(copy.snapshot().specials) == len(expected.specials) == 3
    assert copy.snapshot().digest() == expected.digest()


def test_a_snapshot_is_of_the_time_at_which_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it is made later, in another thread, and another one while that runs."""
    core = Core(load_config(overrides={"symbols": [{"name": "A"}]}), tmp_path)
    waiting: list[Callable[[], SavedSnapshot]] = []
    monkeypatch.setattr(core.journal, "save_snapshot", lambda make, gateway: waiting.append(make))
    monkeypatch.setattr(Journal, "is_saving_snapshot", property(lambda journal: bool(waiting)))
    expected = []
    for part in range(3):
        core.submit(orders(2000, 1 + part * 2000, part))
        core.save_snapshot()
        expected.append((core.command_sequence, core.market.state_hash()))
    assert [(made.sequence, made.market.digest()) for made in (make() for make in waiting)] == expected
    core.journal.abandon()


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _can_populate() -> bool:
    array = np.zeros(1 << 16, np.uint8)
    place = -(-array.ctypes.data // 4096) * 4096
    return sys.platform == "linux" and not ctypes.CDLL(None).madvise(ctypes.c_void_p(place), 4096, POPULATE_WRITE)


@pytest.mark.skipif(not _can_populate(), reason="needs Linux 5.14")
def test_the_memory_of_the_next_step_is_there() -> None:
    def faults(before: Callable[[np.ndarray], None]) -> int:
        memory = mmap.mmap(-1, 3_900_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        array = np.frombuffer(memory, np.uint8)
        array[1_000_000:1_000_008] = 7
        before(array)
        first = _faults()
        array[1::4096] = 1
        assert (array[1_000_000:1_000_008] == 7).all()
        return _faults() - first

    assert faults(lambda array: None) > 900
    assert faults(lambda array: populate(array, 0, len(array))) < 50
    assert faults(lambda array: populate(array, 2_000_000, 2 * len(array))) < 600
