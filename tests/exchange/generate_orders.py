"""Orders with flags and terms for the generator of commands: a stream of what `docs/orders.md` allows, and some of what it does not."""

import dataclasses
from collections.abc import Callable

import numpy as np

from serl.exchange.records import CommandFlag, Peg, SelfTrade, Term, TimeInForce

AT_AUCTIONS = (TimeInForce.AT_OPEN, TimeInForce.AT_CLOSE)


@dataclasses.dataclass
class Wish:
    """A NEW that is being made up."""

    side: int
    qty_lots: int
    price_ticks: int
    time_in_force: int
    flags: int
    time_ns: int
    near_ticks: float  # how far orders are from each other
    mid_ticks: int
    own_orders: list[int]  # order_ids of the participant
    own_waiting: list[int]  # those of them that wait for a parent
    terms: dict[int, int] = dataclasses.field(default_factory=dict)


Draw = Callable[[int, int], int]
"""A whole number from low up to high, both included."""


def add_terms(wish: Wish, random: np.random.Generator) -> None:
    """Makes a plain order a special one: one main kind, now and then more on top of it, rarely nonsense."""

    def draw(low: int, high: int) -> int:
        return int(random.integers(low, max(low, high) + 1))

    KINDS[draw(0, len(KINDS) - 1)](wish, draw)
    chance = random.random(5).tolist()
    if chance[0] < 0.12:
        wish.time_in_force = int(TimeInForce.GTT)
        wish.terms[Term.EXPIRE_NS] = wish.time_ns + draw(1, 150_000)
    if Term.WAITS in wish.terms and wish.own_waiting and chance[1] < 0.5:
        wish.terms[(Term.LINK, Term.UPDATE_LINK)[draw(0, 1)]] = wish.own_waiting[-1]
    elif chance[1] < 0.2 and wish.own_orders:
        wish.terms[(Term.LINK, Term.UPDATE_LINK)[draw(0, 1)]] = wish.own_orders[draw(0, len(wish.own_orders) - 1)]
    if Term.WAITS not in wish.terms and wish.own_waiting and chance[2] > 0.7:
        wish.terms[Term.CHILD] = wish.own_waiting[draw(0, len(wish.own_waiting) - 1)]
    if chance[2] < 0.15:
        wish.terms[Term.SELF_TRADE] = draw(0, int(max(SelfTrade)))
    if chance[3] < 0.04:
        wish.flags ^= 1 << (0, 1, 2, 3, 4, 6)[draw(0, 5)]
    if chance[4] < 0.04:
        wish.terms[draw(0, int(max(Term)) + 2)] = (-1, 0, 1, 2, wish.qty_lots + 1, 2**62)[draw(0, 5)]


def stand_across(wish: Wish, random: np.random.Generator) -> None:
    """Makes a plain order a conditional one, mostly too large to trade: it stands across the displayed book, outside the bands that are set there."""

    def draw(low: int, high: int) -> int:
        return int(random.integers(low, max(low, high) + 1))

    wish.qty_lots *= draw(1, 12)
    (_minimum, _all_or_none)[draw(0, 1)](wish, draw)
    if wish.time_in_force == TimeInForce.IOC or wish.time_in_force == TimeInForce.FOK:
        wish.time_in_force = int(TimeInForce.GTC)
    distance = draw(0, int(wish.near_ticks))
    wish.price_ticks = max(1, wish.mid_ticks + (-distance if wish.side else distance))


def replaced_terms(known: dict[int, int], wish: Wish, random: np.random.Generator) -> dict[int, int]:
    """Terms of a REPLACE of an order that had the terms `known`: mostly some of those, now and then others."""

    def draw(low: int, high: int) -> int:
        return int(random.integers(low, max(low, high) + 1))

    near = int(wish.near_ticks)
    values = {
        Term.EXPIRE_NS: wish.time_ns + draw(0, 150_000), Term.MIN_LOTS: draw(1, wish.qty_lots), Term.TRAIL_TICKS: draw(1, near),
        Term.STOP_TICKS: max(1, wish.mid_ticks + draw(-near, near)), Term.TOUCH_TICKS: max(1, wish.mid_ticks + draw(-near, near)),
    }  # fmt: skip
    chosen = [term for term in values if term in known and draw(0, 2)]
    if draw(0, 19) == 0:
        chosen.append(list(values)[draw(0, 4)])
    return {
        term: known.get(term, value) if draw(0, 3) == 0 else value for term, value in values.items() if term in chosen
    }


def _iceberg(wish: Wish, draw: Draw) -> None:
    wish.qty_lots *= 4
    wish.terms[Term.DISPLAY_LOTS] = draw(1, wish.qty_lots // 2)


def _minimum(wish: Wish, draw: Draw) -> None:
    wish.flags = 0
    wish.terms[Term.MIN_LOTS] = draw(1, wish.qty_lots)


def _all_or_none(wish: Wish, draw: Draw) -> None:
    wish.flags, wish.time_in_force = int(CommandFlag.ALL_OR_NONE), draw(0, 1)


def _hidden(wish: Wish, draw: Draw) -> None:
    wish.flags, wish.time_in_force = int(CommandFlag.HIDDEN), draw(0, 1)


def _stop(wish: Wish, draw: Draw) -> None:
    wish.terms[Term.STOP_TICKS] = max(1, wish.mid_ticks + draw(-2, int(wish.near_ticks)) * (-1 if wish.side else 1))
    wish.flags = int(CommandFlag.POST_ONLY) if draw(0, 2) == 0 and wish.time_in_force < TimeInForce.IOC else 0
    if not wish.flags and draw(0, 1):
        wish.flags |= int(CommandFlag.MARKET)
    elif draw(0, 3) == 0:
        wish.terms[Term.DISPLAY_LOTS] = draw(1, wish.qty_lots)
    if draw(0, 9) == 0:
        wish.flags |= int(CommandFlag.REDUCE_ONLY)


def _touched(wish: Wish, draw: Draw) -> None:
    _stop(wish, draw)
    del wish.terms[Term.STOP_TICKS]
    wish.terms[Term.TOUCH_TICKS] = max(1, wish.mid_ticks + draw(-2, int(wish.near_ticks)) * (1 if wish.side else -1))


def _trailing(wish: Wish, draw: Draw) -> None:
    if draw(0, 1):
        _stop(wish, draw)
    wish.terms[Term.TRAIL_TICKS] = draw(1, int(wish.near_ticks))


def _peg(wish: Wish, draw: Draw) -> None:
    wish.flags, wish.time_in_force = 0, draw(0, 1)
    wish.terms[Term.PEG] = int((Peg.PRIMARY, Peg.MID)[draw(0, 1)])
    if draw(0, 1):
        wish.terms[Term.OFFSET_TICKS] = draw(0, 5)
    if draw(0, 1):
        wish.price_ticks = 0


def _reduce_only(wish: Wish, draw: Draw) -> None:
    wish.flags |= int(CommandFlag.REDUCE_ONLY)
    wish.time_in_force = draw(0, 1)


def _to_limit(wish: Wish, draw: Draw) -> None:
    if draw(0, 3) == 0:
        (_stop, _touched)[draw(0, 1)](wish, draw)
        wish.terms.pop(Term.DISPLAY_LOTS, None)
    wish.time_in_force = draw(0, 1)
    wish.flags = int(CommandFlag.MARKET | CommandFlag.TO_LIMIT)
    wish.qty_lots *= draw(1, 4)


def _at_auction(wish: Wish, draw: Draw) -> None:
    wish.time_in_force = int(AT_AUCTIONS[draw(0, 1)])
    wish.flags = int(CommandFlag.MARKET) if draw(0, 3) == 0 else 0


def _waits(wish: Wish, draw: Draw) -> None:
    (_stop, _touched, _iceberg, _minimum, _all_or_none, _hidden, _reduce_only, _to_limit, _plain)[draw(0, 8)](
        wish, draw
    )
    wish.terms[Term.WAITS] = 1


def _plain(wish: Wish, draw: Draw) -> None:
    """What is added on top is all."""


KINDS = (
    _iceberg, _iceberg, _minimum, _all_or_none, _hidden, _stop, _stop, _touched, _touched, _trailing, _peg, _peg, _reduce_only, _to_limit, _at_auction, _waits, _waits, _waits, _plain,
)  # fmt: skip
