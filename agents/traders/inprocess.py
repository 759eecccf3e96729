"""The in-process market: the order book and its traders in one compiled, event-driven loop."""

from typing import Any

from serl.agents.traders.engine import (
    WAKEUPS_A_CALL,
    has_capacity,
    next_arrival_ns,
    next_wake_ns,
    observe,
    remove_arrived,
    wake_next,
)
from serl.agents.traders.records import Traders
from serl.exchange.compiling import compiled, inlined
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, execute
from serl.exchange.records import EventFlag, EventKind

# Statuses that run_market returns
FINISHED, TRADERS_FULL, MARKET_FULL, TAPE_FULL, PHASE_CHANGED, KEPT_FULL, PAUSED = 0, 1, 2, 3, 4, 5, 6
PARTICIPANT = 0
"""The participant number of all simulated traders together."""
_PHASED, _FILL, _MAKER = int(EventKind.PHASED), int(EventKind.FILL), int(EventFlag.MAKER)


@inlined
def observe_events(traders: Traders, events: Any, event_count: int, kept: Any, kept_count: Any) -> bool:
    """Shows a command's events to the traders; returns whether a symbol's phase changed. kept: EVENT rows for trades and phases, may be empty."""
    observe(traders, events, event_count, PARTICIPANT)
    phase_changed = False
    for index in range(event_count):
        event = events[index]
        is_phase = event.kind == _PHASED
        phase_changed |= is_phase
        if kept.size and (is_phase or (event.kind == _FILL and event.flags & _MAKER)):
            kept[kept_count[0]] = event
            kept_count[0] += 1
    return phase_changed


@compiled(nogil=True)
def run_market(
    traders: Traders, state: Any, events: Any, tape: Any, count: int, first_sequence: int, until_ns: int, kept: Any,
    kept_count: Any,
) -> tuple[int, int]:  # fmt: skip
    """Runs the market up to `until_ns` (exclusive); returns (status, commands on the tape).

    tape: COMMAND rows as they arrive, the first with `first_sequence`; it already has `count` rows. kept: see `observe_events`; kept_count: (1,)
    number of kept rows. The status is PHASE_CHANGED after a command that changed a symbol's phase (an order outside a price band), and PAUSED after
    WAKEUPS_A_CALL wake-ups. Takes O(log traders + log commands in flight) per event.
    """
    wakeups_left = WAKEUPS_A_CALL
    while True:
        arrival_ns, wake_ns = next_arrival_ns(traders), next_wake_ns(traders)
        if min(arrival_ns, wake_ns) >= until_ns:
            return FINISHED, count
        if wake_ns < arrival_ns:
            if not has_capacity(traders):
                return TRADERS_FULL, count
            if wakeups_left == 0:
                return PAUSED, count
            wakeups_left -= 1
            wake_next(traders, state)
            continue
        if count == tape.size:
            return TAPE_FULL, count
        slot = traders.in_flight_item[1]
        traders.in_flight[slot].sequence = first_sequence + count
        status, phase_changed = EVENTS_FULL, False
        while status == EVENTS_FULL:
            if kept.size and kept_count[0] + events.size > kept.size:
                return KEPT_FULL, count
            event_count, status = execute(state, traders.in_flight, slot, events, 0)
            phase_changed |= observe_events(traders, events, event_count, kept, kept_count)
        if status != DONE:
            return MARKET_FULL, count
        tape[count] = traders.in_flight[slot]
        count += 1
        remove_arrived(traders)
        if phase_changed:
            return PHASE_CHANGED, count


@compiled
def execute_scheduled(traders: Traders, state: Any, events: Any, command: Any, kept: Any, kept_count: Any) -> int:
    """Executes one of the exchange's own commands, a (1,) COMMAND row, and shows its events to the traders. Returns FINISHED, or MARKET_FULL or
    KEPT_FULL: then call it again. kept, kept_count: as in `run_market`."""
    status = EVENTS_FULL
    while status == EVENTS_FULL:
        if kept.size and kept_count[0] + events.size > kept.size:
            return KEPT_FULL
        event_count, status = execute(state, command, 0, events, 0)
        observe_events(traders, events, event_count, kept, kept_count)
    return FINISHED if status == DONE else MARKET_FULL


@compiled
def next_arrival(traders: Traders) -> int:
    """Arrival time of the next command of a trader, ns; NEVER if none is in flight."""
    return next_arrival_ns(traders)
