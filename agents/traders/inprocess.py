"""The in-process market: the order book and its traders in one compiled, event-driven loop."""

from typing import Any

from serl.agents.traders.engine import (
    apply_report,
    has_capacity,
    next_arrival_ns,
    next_wake_ns,
    observe_public,
    remove_arrived,
    wake_next,
)
from serl.agents.traders.records import Traders
from serl.exchange.compiling import compiled
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, execute

# Why run_market returned
FINISHED, TRADERS_FULL, MARKET_FULL, TAPE_FULL = 0, 1, 2, 3


@compiled(nogil=True)
def run_market(
    traders: Traders, state: Any, events: Any, tape: Any, count: int, first_sequence: int, until_ns: int
) -> tuple[int, int]:
    """Runs the market up to `until_ns` (exclusive); returns (why it returned, commands on the tape).

    tape: COMMAND rows as they arrive, the first with `first_sequence`; it has `count` rows already.
    O(log traders + log commands in flight) per event.
    """
    while True:
        arrival_ns, wake_ns = next_arrival_ns(traders), next_wake_ns(traders)
        if min(arrival_ns, wake_ns) >= until_ns:
            return FINISHED, count
        if wake_ns < arrival_ns:
            if not has_capacity(traders):
                return TRADERS_FULL, count
            wake_next(traders, state)
            continue
        if count == tape.size:
            return TAPE_FULL, count
        slot = traders.in_flight_item[1]
        traders.in_flight[slot].sequence = first_sequence + count
        status = EVENTS_FULL
        while status == EVENTS_FULL:
            event_count, status = execute(state, traders.in_flight, slot, events, 0)
            for index in range(event_count):
                observe_public(traders, events[index])
                apply_report(traders, events[index])
        if status != DONE:
            return MARKET_FULL, count
        tape[count] = traders.in_flight[slot]
        count += 1
        remove_arrived(traders)
