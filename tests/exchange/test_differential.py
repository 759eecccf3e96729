"""The compiled market against the reference market: the same commands, event by event.

`SERL_DIFFERENTIAL_COMMANDS` sets how many commands are sent in all; `make test-long` sends ten million.
"""

import dataclasses
import itertools
import os
from enum import IntEnum

import numpy as np
import pytest

from serl.exchange.market import Market
from serl.exchange.records import (
    ALL_SYMBOLS,
    CASH,
    COLLECTING,
    COMMAND,
    COST,
    HAS_FEES,
    POSITION,
    CommandKind,
    EventKind,
    Reason,
    Rows,
    Rule,
    Setting,
    command,
)
from serl.exchange.snapshot import Snapshot
from tests.exchange.coverage import Coverage
from tests.exchange.generate import OPERATOR, PARTICIPANTS, PROFILES, SYMBOLS, Generator
from tests.exchange.reference import ReferenceMarket

COMMANDS = int(os.environ.get("SERL_DIFFERENTIAL_COMMANDS", "50000"))
STREAMS = list(enumerate(PROFILES))
BATCH_SIZES = (1, 3, 40, 400, 6000)  # the largest fill the room for events in the middle of a command
BATCHES_PER_CHECK = 25
CHECKS_PER_RESTORE = 3
SLOW = ("deep", "terms", "phases", "bands")
"""Profiles whose markets take the longest to restore."""
FEE_RULES = [rule for rule in Rule if Rule.MAKER_MICROTICKS <= rule <= Rule.AUCTION_PPM]
OWN_FEES = [setting for setting in Setting if Setting.OWN_FEES <= setting <= Setting.AUCTION_PPM]
OWN_FEES_OF = (1, 2)
"""Participants that have them from the start."""
PLAIN_REJECTIONS = {reason for reason in Reason if 0 < reason <= Reason.STALE_COMMAND_ID}
PLAIN_EVENTS = {kind for kind in EventKind if kind <= EventKind.DAY_ENDED}
WHOLE: dict[str, set[IntEnum]] = {
    "phases": {Reason.BOOK_FULL, Reason.NO_ROOM},
    "crowded": {Reason.NOT_REDUCING},
}
"""Profiles that cover the whole market, with the members that are too rare to expect."""


def markets_of(profile: str) -> tuple[Market, ReferenceMarket]:
    limits = PROFILES[profile].limits
    return with_operator(Market(SYMBOLS, limits=limits), ReferenceMarket(SYMBOLS, limits=limits))


def markets_with_fees(profile: str) -> tuple[Market, ReferenceMarket]:
    """Restored markets, so that the fast path runs unless something else needs the full rule book."""
    limits = PROFILES[profile].limits
    market = markets_of(profile)[1]
    for symbol, rule in itertools.product(range(SYMBOLS), FEE_RULES):
        value = (-1) ** rule * 1237 * (symbol + rule)
        market.submit(command(CommandKind.RULE, symbol=symbol, flags=rule, price_ticks=value, participant=OPERATOR))
    for participant, setting in itertools.product(OWN_FEES_OF, OWN_FEES):
        value = 1 if setting == Setting.OWN_FEES else (-1) ** setting * 811 * (participant + setting)
        values = {"order_id": participant, "flags": setting, "price_ticks": value}
        market.submit(command(CommandKind.ACCOUNT, participant=OPERATOR, **values))
    snapshot = market.snapshot()
    if profile == "edges":
        snapshot = with_balances_near_the_edge(snapshot)
    assert snapshot.symbols[:, HAS_FEES].all() and snapshot.accounts[:, Setting.OWN_FEES].sum() == len(OWN_FEES_OF)
    return with_operator(
        Market.restore(snapshot, SYMBOLS, limits=limits), ReferenceMarket.restore(snapshot, SYMBOLS, limits=limits)
    )


def with_balances_near_the_edge(snapshot: Snapshot) -> Snapshot:
    """Cash and cost that a few trades take beyond 64 bits, of pairs of participants, so that they sum to zero."""
    used, symbols, columns = snapshot.balances.shape
    balances = np.zeros((max(used, PARTICIPANTS), symbols, columns), np.int64)
    balances[:used] = snapshot.balances
    edge = 2**63 - 2**52
    for symbol, first in itertools.product(range(symbols), range(0, PARTICIPANTS, 2)):
        balances[first, symbol, [POSITION, CASH, COST]] = 2**51, -edge, edge
        balances[first + 1, symbol, [POSITION, CASH, COST]] = -(2**51), edge, -edge
    grown = {
        name: np.zeros((len(balances), *getattr(snapshot, name).shape[1:]), np.int64)
        for name in ("last_command_id", "report", "accounts", "terms", "deposits")
    }
    for name, rows in grown.items():
        rows[:used] = getattr(snapshot, name)
    grown["report"][:] = np.maximum(grown["report"], 1)  # participants that have done something
    return dataclasses.replace(snapshot, balances=balances, **grown)


def swapped(compiled: Market, reference: ReferenceMarket) -> tuple[Market, ReferenceMarket]:
    """Each implementation restored from a snapshot of the other."""
    snapshots = compiled.snapshot(), reference.snapshot()
    assert snapshots[0].digest() == snapshots[1].digest()
    limits = compiled.limits
    return with_operator(
        Market.restore(snapshots[1], SYMBOLS, limits=limits),
        ReferenceMarket.restore(snapshots[0], SYMBOLS, limits=limits),
    )


def with_operator(compiled: Market, reference: ReferenceMarket) -> tuple[Market, ReferenceMarket]:
    for market in (compiled, reference):
        market.grant_operator(OPERATOR)
    return compiled, reference


def send_to_reference(reference: ReferenceMarket, generator: Generator, count: int) -> tuple[Rows, Rows]:
    """(commands, events), in small batches, so that the generator knows the open orders."""
    commands, events = [], []
    for start in range(0, count, 16):
        commands.append(generator.commands(min(16, count - start)))
        events.append(reference.submit(commands[-1]))
        generator.observe(events[-1])
        assert_uncrossed(reference)
    return np.concatenate(commands), np.concatenate(events)


def assert_uncrossed(reference: ReferenceMarket) -> None:
    """The best displayed bid is below the best displayed ask, except while orders are collected."""
    for symbol, book in enumerate(reference.books):
        bid, ask = (side.first() for side in book.displayed)
        crossed = bid is not None and ask is not None and bid.queue_ticks >= ask.queue_ticks
        assert not crossed or book.phase in COLLECTING, f"symbol {symbol}: bid {bid}, ask {ask}"


def assert_equal_events(compiled: Rows, reference: Rows, commands: Rows, first_sequence: int) -> None:
    """Asserts equality in every field of every row; the message names the first event and command that differ."""
    if np.array_equal(compiled, reference):
        return
    shared = min(len(compiled), len(reference))
    differing = np.flatnonzero(compiled[:shared] != reference[:shared])
    row = int(differing[0]) if len(differing) else shared
    shown = [
        dict(zip(side.dtype.names or (), side[row], strict=True)) if row < len(side) else None
        for side in (compiled, reference)
    ]
    sequence = (reference if row < len(reference) else compiled)[row]["command_sequence"]
    pytest.fail(f"command {commands[sequence - first_sequence]}\n  compiled:  {shown[0]}\n  reference: {shown[1]}")


@pytest.mark.parametrize(("seed", "profile"), STREAMS)
def test_generated_commands_give_the_same_events_and_state(seed: int, profile: str) -> None:
    compiled, reference = markets_with_fees(profile)
    generator, sizes = Generator(seed, PROFILES[profile]), np.random.default_rng(1000 + seed)
    coverage = Coverage()
    sent, deepest, total = 0, 0, max(1000, COMMANDS // len(STREAMS))
    for batch in itertools.count(1):
        commands, events = send_to_reference(reference, generator, min(total - sent, int(sizes.choice(BATCH_SIZES))))
        first = reference.command_sequence - len(commands) + 1
        assert_equal_events(compiled.submit(commands), events, commands, first)
        sent += len(commands)
        deepest = max(deepest, len(reference.open))
        coverage.add(commands, events)
        if sent == total or batch % BATCHES_PER_CHECK == 0:
            assert compiled.state_hash() == reference.state_hash()
            compiled.validate()
            reference.validate()
        if batch % (BATCHES_PER_CHECK * CHECKS_PER_RESTORE) == 0:
            compiled, reference = swapped(compiled, reference)
        if sent == total:
            break
    if total >= 50_000:  # long enough to cover the market
        kinds, reasons = coverage.seen[EventKind], coverage.seen[Reason]
        if profile in WHOLE:
            assert coverage.missing(WHOLE[profile]) == []
        elif profile != "tiny":  # most of it is rejected there
            assert set(kinds) >= PLAIN_EVENTS
            expected = PLAIN_REJECTIONS if profile in ("thin", "few_levels") else PLAIN_REJECTIONS - {Reason.BOOK_FULL}
            assert expected <= set(reasons), f"never seen: {expected - set(reasons)}"
        assert kinds[EventKind.FILL] > total // (50 if profile == "tiny" else 20)
        assert kinds[EventKind.REJECTED] < total // 3 or profile == "tiny"
        assert profile != "edges" or compiled.state.carries.any(), "sums beyond 64 bits"
        assert profile != "few_levels" or reasons[Reason.BOOK_FULL] > 100
        least = {
            "deep": 4097,
            "thin": 64,
            "few_levels": 200,
            "crowded": 50,
            "bands": 50,
            "balances": 50,
            "tiny": 12,
            "edges": 50,
        }.get(profile, 500)  # the kernel's first pool holds 4096
        assert deepest >= least, f"at most {deepest} orders at a time"


@pytest.mark.parametrize(
    "profile", [pytest.param(name, marks=[pytest.mark.long] * (name in SLOW)) for name in PROFILES]
)
def test_restored_markets_continue_identically(profile: str) -> None:
    """Each implementation restores the snapshot of the other."""
    compiled, reference = markets_of(profile)
    generator = Generator(77, PROFILES[profile])
    for _ in range(4):
        commands, events = send_to_reference(reference, generator, 1000)
        assert_equal_events(compiled.submit(commands), events, commands, reference.command_sequence - len(commands) + 1)
        before = compiled.state_hash()
        compiled, reference = swapped(compiled, reference)
        for market in (compiled, reference):
            market.validate()
            assert market.state_hash() == before


@pytest.mark.parametrize("seed", range(4))
def test_odd_values_in_any_field_give_the_same_events(seed: int) -> None:
    """In a busy book: the smallest and the largest value of every field, and some between."""
    compiled, reference = markets_of("thin")
    random = np.random.default_rng(seed)
    generator = Generator(seed, PROFILES["thin"])
    for _ in range(60):
        commands = generator.commands(32)
        for name in (
            "order_id",
            "price_ticks",
            "qty_lots",
            "symbol",
            "side",
            "time_in_force",
            "flags",
            "reason",
            "kind",
        ):
            limits = np.iinfo(COMMAND[name])
            odd = [limits.min, limits.min + 1, 0, 1, 5, 255, limits.max - 1, limits.max]
            hit = random.random(len(commands)) < 0.05
            commands[name][hit] = random.choice(np.array(odd, COMMAND[name]), hit.sum())
        ids = random.random(len(commands)) < 0.02
        commands["command_id"][ids] = random.choice(np.array([-(2**63), -1, 0, 1]), ids.sum())
        first = reference.command_sequence + 1
        events = reference.submit(commands)
        generator.observe(events)
        assert_equal_events(compiled.submit(commands), events, commands, first)
    assert compiled.state_hash() == reference.state_hash()
    compiled.validate()
    reference.validate()


@pytest.mark.parametrize(
    ("reason", "reported"), [(0, 36), (37, 37), (255, 255), (256, 36), (293, 37), (2**32 - 1, 255)]
)
def test_the_reason_of_a_mass_cancel_has_eight_bits(reason: int, reported: int) -> None:
    for market in markets_of("thin"):
        market.submit(command(CommandKind.NEW, command_id=1, qty_lots=1, price_ticks=10))
        events = market.submit(command(CommandKind.MASS_CANCEL, command_id=2, symbol=ALL_SYMBOLS, reason=reason))
        assert events["reason"].tolist() == [reported, 0]


def test_the_generator_is_a_function_of_its_seed() -> None:
    one, same, other = (Generator(seed, PROFILES["sweep"]).commands(500) for seed in (5, 5, 6))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
