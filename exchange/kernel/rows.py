"""Rows of the arrays as type checkers see them: in compiled code each is a record, whose fields are these."""

from typing import Any, Protocol, TypeAlias


class CommandRow(Protocol):
    """A row of COMMAND."""

    time_ns: int
    sequence: int
    command_id: int
    order_id: int
    price_ticks: int
    qty_lots: int
    symbol: int
    participant: int
    kind: int
    side: int
    time_in_force: int
    flags: int
    reason: int


class EventRow(Protocol):
    """A row of EVENT."""

    time_ns: int
    sequence: int
    command_sequence: int
    report: int
    command_id: int
    order_id: int
    order_number: int
    price_ticks: int
    qty_lots: int
    leaves_lots: int
    match_id: int
    symbol: int
    participant: int
    kind: int
    side: int
    reason: int
    flags: int


class Counters(Protocol):
    """The record COUNTERS; in Python an array of one, by name."""

    def __getitem__(self, name: str) -> Any: ...
    def __setitem__(self, name: str, value: int) -> None: ...

    event_sequence: int
    match_id: int
    order_number: int
    command_sequence: int
    free_order: int
    free_level: int
    orders_open: int
    qty_lots_max: int
    price_ticks_max: int
    orders_open_max: int
    levels_max: int
    display_divisor_max: int
    cancelled_orders: int
    next_expiry_ns: int
    stage: int
    wants_full_book: int
    expiring_orders: int
    symbols_pending: int
    counts_open: int
    auction_ticks: int
    auction_lots: int
    auction_first_ticks: int
    triggers_symbol: int
    wants_far_levels: int
    own_fee_accounts: int
    wide_balances: int
    counts_reserves: int


class ActiveOrder(Protocol):
    """The record ACTIVE_ORDER."""

    is_active: int
    symbol: int
    side: int
    limit_ticks: int
    leaves_lots: int
    total_lots: int
    participant: int
    order_id: int
    time_in_force: int
    flags: int
    price_ticks: int
    command_id: int
    origin: int
    cancel_reason: int
    self_trade: int
    self_trade_term: int
    display_lots: int
    min_lots: int
    stop_ticks: int
    touch_ticks: int
    trail_ticks: int
    peg: int
    offset_ticks: int
    expire_ns: int
    link: int
    updates: int
    waits: int
    child: int
    round_lots: int
    round_level_lots: int
    round_spare_lots: int
    round_served_number: int
    round_served_slot: int
    round_last_number: int
    round_price_ticks: int
    next_row: int


class InstrumentRow(Protocol):
    """A row of INSTRUMENT."""

    phase: int
    last_ticks: int
    high_ticks: int
    low_ticks: int
    lot_multiple: int
    matching: int
    band_low_ticks: int
    band_high_ticks: int
    band_action: int
    halt_reason: int
    has_fees: int
    fees: Any
    tick_table: Any


class BalanceRow(Protocol):
    """A row of BALANCE."""

    position_lots: int
    cash_ticks: int
    cost_ticks: int
    fee_ticks: int
    fee_microticks: int


AccountRow: TypeAlias = Any
"""A row of State.accounts: an array by Setting."""
LevelRow: TypeAlias = Any
"""A row of LEVEL_SLOT."""
SpecialRow: TypeAlias = Any
"""A row of SPECIAL."""
