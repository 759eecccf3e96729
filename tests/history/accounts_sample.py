"""Days with the commands of all participants, without an exchange process."""

import numpy as np

from serl.exchange.market import Market
from serl.exchange.records import CommandKind, Rows, command
from serl.history.accounts import EXCHANGE, LIMITS, AccountsTape, effective_commands
from serl.history.day import Day, Reference, SymbolReference
from serl.history.tape import HASH
from tests.exchange.generate import OPERATOR, PROFILES, SYMBOLS, Generator

BATCH = 100


def random_market(profile: str) -> Market:
    """A market with the operator of the generated streams."""
    market = Market([f"S{number}" for number in range(SYMBOLS)], limits=PROFILES[profile].limits)
    market.grant_operator(OPERATOR)
    return market


def random_batches(profile: str, count: int) -> tuple[Market, list[tuple[Rows, Rows]]]:
    """A market, and a stream of the differential test as batches of (commands, events)."""
    market = random_market(profile)
    generator, parts = Generator(11, PROFILES[profile]), []
    for _ in range(count // BATCH):
        commands = generator.commands(BATCH)
        events = market.submit(commands)
        generator.observe(events)
        parts.append((commands, events))
    return market, parts


def random_day(profile: str, count: int) -> Day:
    """A day of such a stream; orders expire at their time, as in an exchange process, not with the next command."""
    market, parts = random_market(profile), []
    generator = Generator(12, PROFILES[profile])
    for _ in range(count):
        row = generator.commands(1)
        while (expiry_ns := int(market.state.counters["next_expiry_ns"][0])) <= row["time_ns"]:
            clock = command(CommandKind.TIME, participant=OPERATOR, time_ns=expiry_ns)
            parts.append((clock, market.submit(clock)))
        parts.append((row, market.submit(row)))
        generator.observe(parts[-1][1])
    return recorded_day(market, parts)


def recorded_day(market: Market, parts: list[tuple[Rows, Rows]]) -> Day:
    """The day that `serl record --accounts` would write for (commands, events)."""
    commands, events = (np.concatenate([part[side] for part in parts]) for side in range(2))
    commands["sequence"] = np.arange(1, len(commands) + 1)
    tape = AccountsTape()
    tape.update(events)
    rows = effective_commands(commands, events)
    reference = Reference(
        symbols=tuple(SymbolReference(name) for name in market.names),
        date="2020-01-02",
        source="recorded",
        last_time_ns=int(rows[-1]["time_ns"]),
        parameters={HASH: tape.hexdigest(), **{name: getattr(market.limits, name) for name in LIMITS}},
        participants=(EXCHANGE, "alice", "bob"),
    )
    return Day(rows, rows["sequence"] - 1, reference)
