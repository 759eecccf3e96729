"""The order flow of a whole market as one trader, drawn event by event from a network trained on real days (`serl flow train`).

Each event is a token relative to the live book (flow_tokens.py), drawn from the network's distribution given the book and averages of the past
(flow_features.py). Its size, for a cancellation the age of the order, and the wait to the next event are drawn next. So the flow reacts to whatever
changes the book; with `hears`, others' trades and orders also count like the messages of a day. Tokens that the book does not allow have probability
0. A cancellation goes to the trader's own order at the level whose age is nearest to the drawn one. Behind the visible levels, which messages do not
show, the trader keeps RESERVE (flow_events.py) orders with gaps and sizes as measured at the last visible level. Outside its training hours it
behaves as at their average hour.

Scenarios change what is drawn, not what was learnt: `pace` makes the flow's own time run faster, `value_lean` makes events towards the value more
probable. With an opening (flow_opening.py), the flow continues a recorded day.
"""

import base64
import math
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from serl.agents.traders.flow_events import (
    BOOK_AT,
    INPUTS_AT,
    MEMORY,
    SCRATCH_AT,
    STATE_AT,
    act,
    address,
    between,
    cancel_far,
    forbid_impossible,
    hear_others,
    lean,
    note_sent,
    open_book,
    refill,
    send_opening,
    skip_heard,
    survey,
)
from serl.agents.traders.flow_features import STATE, add_event, add_wait, start_state, write_inputs
from serl.agents.traders.flow_network import (
    NUMBERS,
    PARTS,
    STARTS,
    WAITS,
    condition_on,
    draw_class,
    forget_hour,
    read_numbers,
    run_network,
)
from serl.agents.traders.flow_opening import FIELDS, read_opening
from serl.agents.traders.flow_tokens import LEVELS, TOKENS
from serl.agents.traders.random import uniform
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import BUY, SELL, recall, remember, sleep, two_sided, value_at

DRAWS_PER_EVENT = 64
"""Random numbers reserved for each event, so that a market with an extra order continues with the same ones (common random numbers)."""
GAP_MAX = 3.0
"""Largest distance of the value from the mid that counts, in spreads."""
HOUR_NS, NOON_NS = 3_600_000_000_000, 45_900_000_000_000
"""Hours are counted from 12:45, the middle of the trading day."""
_WAIT_EDGES, _HOURS = STARTS["wait_log_s"], STARTS["hours"]


def _untrained() -> str:
    """Numbers for which all possible events are equally probable: one lot, after a hundredth of a second to a second."""
    parts = {name: np.zeros(shape, "<f4") for name, shape in PARTS.items()}
    for name in ("inverse_deviation", "size_low_lots", "size_high_lots", "deep_gap_ticks", "deep_lots"):
        parts[name] += 1.0
    parts["wait_log_s"] += np.linspace(np.log(0.01), 0.0, len(parts["wait_log_s"]))
    parts["age_log_s"] += np.linspace(np.log(0.01), np.log(100.0), len(parts["age_log_s"]))
    parts["hours"] += [-24.0, 24.0]
    parts["opening_spread_ticks"] += 2.0
    parts["visible_levels"] += LEVELS
    return base64.b64encode(b"".join(part.tobytes() for part in parts.values())).decode()


class NeuralFlowProfile(Profile):
    """The numbers of the network, written by `serl flow train`."""

    numbers: str = Field(_untrained(), description="flow_network.PARTS as float32, little-endian, base64")
    opening: str = Field(
        "", description="the orders and averages that it begins with; `serl flow continue` writes them"
    )
    pace: float = Field(
        1.0, ge=0.01, le=100, description="how fast the flow's own time runs: 4 doubles the volatility of a minute"
    )
    value_lean: float = Field(
        0.0,
        ge=0,
        le=10,
        description="nats by which events towards the value gain, per spread between value and mid, at most 3",
    )

    hears: int = Field(
        0, ge=0, le=1, description="1: others' trades and displayed orders count as messages of the day do"
    )

    @field_validator("opening")
    @classmethod
    def _readable(cls, text: str) -> str:
        if text:
            try:
                read_opening(text)
            except ValueError as error:
                raise ValueError(f"{error}; continue the day again") from None
        return text

    @field_validator("numbers")
    @classmethod
    def _decodable(cls, text: str) -> str:
        try:
            found = read_numbers(text)
        except ValueError as error:
            raise ValueError(f"expected base64 ({error}); train the flow again") from None
        if len(found) != NUMBERS or not np.isfinite(found).all():
            raise ValueError(
                f"expected {NUMBERS} finite numbers, got {len(found)}, {int((~np.isfinite(found)).sum())} of them not finite; train the flow again"
            )
        return text

    @classmethod
    def dtype(cls) -> np.dtype[Any]:
        """The record that compiled code reads."""
        return np.dtype(
            [("numbers", "<f4", (NUMBERS,)), ("pace", "<f8"), ("value_lean", "<f8"), ("hears", "<i8"), *FIELDS],
            align=True,
        )

    def record(self) -> np.ndarray[Any, np.dtype[np.void]]:
        """One row of `dtype()`."""
        row = np.zeros(1, self.dtype())
        row["numbers"] = read_numbers(self.numbers)
        row["pace"], row["value_lean"], row["hears"] = self.pace, self.value_lean, self.hears
        if self.opening:
            orders, row["state"] = read_opening(self.opening)
            row["orders_open"] = len(orders)
            row["orders"][0, : len(orders)] = orders
        return row


@trader("neural_flow", NeuralFlowProfile, memory=MEMORY, depth=LEVELS)
def neural_flow(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Makes one event per wake-up; if a side is empty, sends orders that fill it instead. O(own orders), and a forward pass of some 30,000 products."""
    agent.draws = (agent.draws // DRAWS_PER_EVENT + 1) * DRAWS_PER_EVENT
    numbers = profile.numbers
    if recall(market, 0) == 0.0 and profile.orders_open > 0:
        if send_opening(profile, market, requests):
            skip_heard(market, requests)
            return
        for slot in range(STATE):
            remember(market, STATE_AT + slot, profile.state[slot])
        remember(market, 0, 1.0)
    if not two_sided(market):
        open_book(agent, numbers, market, requests)
        skip_heard(market, requests)
        sleep(requests, market, 1e6 + 2.0 * agent.latency_ns)
        return
    state, scratch, mid = (
        address(market, STATE_AT),
        address(market, SCRATCH_AT),
        0.5 * (market.bid_ticks + market.ask_ticks),
    )
    if recall(market, 0) == 0.0:
        start_state(state, mid)
        remember(market, 0, 1.0)
    if profile.hears:
        hear_others(market, mid)
    survey(profile, market)
    hour, inputs = (market.time_ns - NOON_NS) / HOUR_NS, address(market, INPUTS_AT)
    write_inputs(state, address(market, BOOK_AT), inputs, hour, 0)
    if hour < numbers[_HOURS] or hour > numbers[_HOURS + 1]:
        forget_hour(numbers, inputs)
    run_network(numbers, inputs, scratch)
    forbid_impossible(market, numbers)
    if profile.value_lean > 0.0:
        gap = (value_at(market, market.time_ns) - mid) / max(1, market.ask_ticks - market.bid_ticks)
        lean(market, profile.value_lean * min(GAP_MAX, max(-GAP_MAX, gap)))
    token = max(0, draw_class(scratch, 0, TOKENS, uniform(agent)))
    condition_on(numbers, scratch, token)
    wait = draw_class(scratch, TOKENS, WAITS, uniform(agent))
    wait_s = math.exp(between(numbers, _WAIT_EDGES + wait, uniform(agent)))
    act(agent, profile, market, requests, token)
    refill(agent, numbers, market, requests, BUY)
    refill(agent, numbers, market, requests, SELL)
    cancel_far(market, numbers, requests)
    if profile.hears:
        note_sent(market, requests)
    add_event(state, token, mid)
    add_wait(state, wait_s)
    sleep(requests, market, 1e9 * wait_s / profile.pace)
