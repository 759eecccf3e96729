"""The in-process market: the order book and its traders in one compiled loop, driven by the next thing to happen."""

from typing import Any

from serl.agents.traders.engine import has_room, hear, land, next_arrival, next_wake, observe, wake
from serl.agents.traders.records import Traders
from serl.exchange.compiling import compiled
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, execute

# Why the loop came back
FINISHED, TRADERS_FULL, MARKET_FULL, TAPE_FULL = 0, 1, 2, 3


@compiled(nogil=True)
def run(
    traders: Traders, state: Any, events: Any, tape: Any, count: int, first_sequence: int, until_ns: int
) -> tuple[int, int]:
    """Runs the market up to `until_ns` (exclusive): (why it came back, commands on the tape).

    tape: COMMAND rows as they arrived, the first with `first_sequence`; `count` of them are there already.
    O(log traders + log commands under way) an event.
    """
    while True:
        arrival_ns, wake_ns = next_arrival(traders), next_wake(traders)
        if min(arrival_ns, wake_ns) >= until_ns:
            return FINISHED, count
        if wake_ns < arrival_ns:
            if not has_room(traders):
                return TRADERS_FULL, count
            wake(traders, state)
            continue
        if count == tape.size:
            return TAPE_FULL, count
        slot = traders.flight_item[1]
        traders.flight[slot].sequence = first_sequence + count
        status = EVENTS_FULL
        while status == EVENTS_FULL:
            done, status = execute(state, traders.flight, slot, events, 0)
            for index in range(done):
                observe(traders, events[index])
                hear(traders, events[index])
        if status != DONE:
            return MARKET_FULL, count
        tape[count] = traders.flight[slot]
        count += 1
        land(traders)
