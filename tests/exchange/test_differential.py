"""The compiled market against the reference market: the same commands, event by event.

`SERL_DIFFERENTIAL_COMMANDS` sets how many commands are sent in all; the default is a million.
"""

import itertools
import os
from collections import Counter

import numpy as np
import pytest

from serl.exchange.market import Market
from serl.exchange.records import EventKind, Reason, Rows
from serl.exchange.reference import ReferenceMarket
from tests.exchange.generate import OPERATOR, PROFILES, SYMBOLS, Generator

COMMANDS = int(os.environ.get("SERL_DIFFERENTIAL_COMMANDS", "1000000"))
STREAMS = list(enumerate(itertools.islice(itertools.cycle(PROFILES), 8)))
BATCH_SIZES = (1, 3, 40, 400, 6000)  # the largest fill the room for events in the middle of a command
BATCHES_PER_CHECK = 25
REJECTIONS = {reason for reason in Reason if 0 < reason < Reason.REQUESTED}


def markets_of(profile: str) -> tuple[Market, ReferenceMarket]:
    limits = PROFILES[profile].limits
    compiled, reference = Market(SYMBOLS, limits=limits), ReferenceMarket(SYMBOLS, limits=limits)
    for market in (compiled, reference):
        market.grant_operator(OPERATOR)
    return compiled, reference


def send_to_reference(reference: ReferenceMarket, generator: Generator, count: int) -> tuple[Rows, Rows]:
    """(commands, events): in small pieces, so that the generator knows what is open."""
    commands, events = [], []
    for start in range(0, count, 16):
        commands.append(generator.commands(min(16, count - start)))
        events.append(reference.submit(commands[-1]))
        generator.observe(events[-1])
    return np.concatenate(commands), np.concatenate(events)


def assert_equal_events(compiled: Rows, reference: Rows, commands: Rows, first_sequence: int) -> None:
    """Equal in every field of every row; else says which event of which command differs."""
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
    compiled, reference = markets_of(profile)
    generator, sizes = Generator(seed, PROFILES[profile]), np.random.default_rng(1000 + seed)
    kinds: Counter[int] = Counter()
    reasons: Counter[int] = Counter()
    sent, deepest, total = 0, 0, max(1000, COMMANDS // len(STREAMS))
    for batch in itertools.count(1):
        commands, events = send_to_reference(reference, generator, min(total - sent, int(sizes.choice(BATCH_SIZES))))
        assert_equal_events(compiled.submit(commands), events, commands, sent + 1)
        sent += len(commands)
        deepest = max(deepest, len(reference.open))
        kinds.update(events["kind"].tolist())
        reasons.update(events["reason"].tolist())
        if sent == total or batch % BATCHES_PER_CHECK == 0:
            assert compiled.state_hash() == reference.state_hash()
            compiled.validate()
            reference.validate()
        if sent == total:
            break
    if total >= 50_000:  # the stream was worth it
        assert set(kinds) == set(EventKind)
        expected = REJECTIONS if profile == "thin" else REJECTIONS - {Reason.BOOK_FULL}
        assert expected <= set(reasons), f"never seen: {expected - set(reasons)}"
        assert kinds[EventKind.FILL] > total // 20
        assert kinds[EventKind.REJECTED] < total // 3
        least = {"deep": 4097, "thin": 64}.get(profile, 500)  # the kernel's first pool holds 4096
        assert deepest >= least, f"at most {deepest} orders at a time"


@pytest.mark.parametrize("profile", PROFILES)
def test_restored_markets_go_on_alike(profile: str) -> None:
    """Each implementation restores the other's snapshot."""
    compiled, reference = markets_of(profile)
    generator = Generator(77, PROFILES[profile])
    for _ in range(4):
        commands, events = send_to_reference(reference, generator, 2000)
        assert_equal_events(compiled.submit(commands), events, commands, reference.command_sequence - len(commands) + 1)
        taken = compiled.snapshot(), reference.snapshot()
        limits = compiled.limits
        compiled, reference = (
            Market.restore(taken[1], SYMBOLS, limits=limits),
            ReferenceMarket.restore(taken[0], SYMBOLS, limits=limits),
        )
        for market in (compiled, reference):
            market.grant_operator(OPERATOR)
            market.validate()
            assert market.state_hash() == taken[0].digest() == taken[1].digest()


def test_the_generator_is_a_function_of_its_seed() -> None:
    one, same, other = (Generator(seed, PROFILES["sweep"]).commands(500) for seed in (5, 5, 6))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
