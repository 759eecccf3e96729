"""Sweeps over many orders of one price, a mass cancel and an auction: the same as the reference, and no slower for linked or hidden orders."""

import time
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import CommandFlag, CommandKind, Phase, Rows, Side, Term, TimeInForce, command
from tests.exchange.reference import ReferenceMarket

LIMITS = MarketLimits(participants_max=4)
OPERATOR, ANN, BOB = 1, 2, 3
ORDERS = 120
HIDDEN, MARKET, TERMS = (int(flag) for flag in (CommandFlag.HIDDEN, CommandFlag.MARKET, CommandFlag.TERMS))


def orders(participant: int, first: int, count: int, **fields: int) -> Rows:
    """GTC orders of a lot at the price 1."""
    rows = np.repeat(
        command(CommandKind.NEW, participant=participant, qty_lots=1, price_ticks=1, time_in_force=TimeInForce.GTC),
        count,
    )
    rows["command_id"] = first + np.arange(count)
    for name, value in fields.items():
        rows[name] = value
    return rows


def linked_orders(random: Random, side: Side, flags: int) -> list[Rows]:
    """Orders of one price: Ann's, many of them linked, children or parents, and among them Bob's."""
    rows = []
    unlinked: dict[bool, list[int]] = {True: [], False: []}  # by whether they wait
    orphans: list[int] = []
    for command_id in range(10, 10 + 10 * ORDERS, 10):
        row = orders(ANN, command_id + 9, 1, side=side, qty_lots=random.randint(1, 3), flags=flags)
        row["time_in_force"] = random.choice((TimeInForce.DAY, TimeInForce.GTC))
        rows.append(row)
        if random.random() < 0.2:
            row["participant"] = BOB
            continue
        waits, terms = random.random() < 0.3, {}
        if waits:
            terms[Term.WAITS] = 1
            orphans.append(command_id + 9)
        elif orphans and random.random() < 0.5:
            terms[Term.CHILD] = orphans.pop(random.randrange(len(orphans)))
        if unlinked[waits] and random.random() < 0.6:
            near = unlinked[waits].pop(random.randrange(max(0, len(unlinked[waits]) - 3), len(unlinked[waits])))
            terms[random.choice((Term.LINK, Term.UPDATE_LINK))] = near
        else:
            unlinked[waits].append(command_id + 9)
        sent = [
            command(CommandKind.TERM, participant=ANN, command_id=command_id + number, flags=term, price_ticks=value)
            for number, (term, value) in enumerate(terms.items())
        ]
        row["flags"] |= TERMS if terms else 0
        rows[-1:] = [*sent, row]
    return rows


def assert_same(rows: Rows) -> None:
    """Both markets have the same events."""
    compiled, reference = Market(1, limits=LIMITS), ReferenceMarket(1, limits=LIMITS)
    for market in (compiled, reference):
        market.grant_operator(OPERATOR)
    assert compiled.submit(rows).tobytes() == reference.submit(rows).tobytes()
    assert compiled.state_hash() == reference.state_hash()
    compiled.validate()


@pytest.mark.parametrize("seed", range(20))
def test_a_sweep_over_linked_orders_is_the_references(seed: int) -> None:
    kind = (CommandKind.END_DAY, CommandKind.MASS_CANCEL, CommandKind.PURGE)[seed % 3]
    sender = ANN if kind == CommandKind.MASS_CANCEL else OPERATOR
    sweep = command(kind, participant=sender, command_id=10_000, order_id=ANN)
    assert_same(np.concatenate([*linked_orders(Random(seed), Side.BUY, 0), sweep]))


@pytest.mark.parametrize("seed", range(20))
def test_an_auction_over_hidden_and_market_orders_is_the_references(seed: int) -> None:
    random = Random(seed)
    sells = linked_orders(random, Side.SELL, HIDDEN)
    for row in sells:
        if row["kind"][0] == CommandKind.NEW and random.random() < 0.5:
            row["flags"] ^= HIDDEN | MARKET
            row["price_ticks"] = 0
    opening = command(CommandKind.PHASE, participant=OPERATOR, command_id=1, flags=Phase.PRE_OPEN)
    ending = command(CommandKind.PHASE, participant=OPERATOR, command_id=2)
    buys = orders(BOB, 20_000, ORDERS // 2, side=Side.BUY)
    assert_same(np.concatenate([opening, *sells, buys, ending]))


def least_cpu_s(work: Callable[[], Callable[[], object]]) -> float:
    """Of what `work` prepares and returns."""
    times = []
    for _ in range(3):
        timed = work()
        began = time.process_time()
        timed()
        times.append(time.process_time() - began)
    return min(times)


def test_a_mass_cancel_of_linked_orders_passes_the_others_once() -> None:
    """Of 50,000 others at the same price."""

    def cancel_of(terms: tuple[int, int], link: bool) -> Callable[[], Callable[[], object]]:
        def prepare() -> Callable[[], object]:
            market = Market(1, limits=LIMITS)
            market.submit(orders(BOB, 1, 50_000))
            ones, others = orders(ANN, 1, 3000)[::3].copy(), orders(ANN, 3, 3000, flags=TERMS)[::3].copy()
            term, value = terms
            sent = np.repeat(command(CommandKind.TERM, participant=ANN, flags=term, price_ticks=value), 1000)
            sent["command_id"] = ones["command_id"] + 1
            if link:
                sent["price_ticks"] = ones["command_id"]
            market.submit(np.stack([ones, sent, others], axis=1).reshape(-1))
            row = command(CommandKind.MASS_CANCEL, participant=ANN, command_id=9_000)

            def cancel() -> None:
                assert len(market.submit(row)) == 2001

            return cancel

        return prepare

    assert least_cpu_s(cancel_of((Term.LINK, 0), link=True)) < 20 * least_cpu_s(
        cancel_of((Term.SELF_TRADE, 0), link=False)
    )


def test_an_auction_passes_hidden_orders_once() -> None:
    def auction_of(flags: int) -> Callable[[], Callable[[], object]]:
        def prepare() -> Callable[[], object]:
            market = Market(1, limits=LIMITS)
            market.grant_operator(OPERATOR)
            market.submit(command(CommandKind.PHASE, participant=OPERATOR, command_id=1, flags=Phase.PRE_OPEN))
            for participant, side in ((ANN, Side.SELL), (BOB, Side.BUY)):
                market.submit(orders(participant, 1, 16_000, side=side, flags=flags if side == Side.SELL else 0))
            row = command(CommandKind.PHASE, participant=OPERATOR, command_id=2)

            def uncross() -> None:
                assert len(market.submit(row)) == 32_001

            return uncross

        return prepare

    assert least_cpu_s(auction_of(HIDDEN)) < 20 * least_cpu_s(auction_of(0))
