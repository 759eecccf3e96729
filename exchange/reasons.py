"""What each `Reason` means, for people: one clause, in errors and in docs/orders.md. Counts of rejections by reason."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from serl.exchange.errors import Rejected
from serl.exchange.records import EventKind, Reason, Rows

REASONS_SIZE = 256

MEANINGS = {
    Reason.UNKNOWN_KIND: "there is no such kind of command",
    Reason.UNKNOWN_SYMBOL: "the exchange has no such symbol",
    Reason.BAD_SIDE: "expected buy or sell",
    Reason.BAD_QTY: "expected 1 to qty_lots_max lots, a multiple of the symbol's lot",
    Reason.BAD_PRICE: "expected 1 to price_ticks_max ticks, a multiple of the symbol's tick; 0 for a market order",
    Reason.BAD_TIME_IN_FORCE: "there is no such time in force",
    Reason.BAD_FLAGS: "a flag is unknown, or excluded by another flag or the time in force",
    Reason.UNKNOWN_ORDER: "the participant has no such open order; it may be filled or cancelled",
    Reason.WOULD_CROSS: "the order is post-only and would trade at once",
    Reason.HALTED: "the symbol is halted",
    Reason.NOT_PERMITTED: "only an operator may send this command",
    Reason.BOOK_FULL: "the exchange has as many open orders, or the symbol as many price levels, as its limits allow (orders_open_max, levels_max)",
    Reason.STALE_COMMAND_ID: "expected a command_id greater than the participant's last",
    Reason.KILLED: "the participant's kill switch is on",
    Reason.NOT_REPLACEABLE: "an order of this type cannot be replaced; cancel it and send another",
    Reason.BAD_TERMS: "a term is unknown, out of range, or excluded by another term, a flag or the time in force",
    Reason.WRONG_PHASE: "not allowed in the symbol's current phase",
    Reason.OUTSIDE_BAND: "the price is outside the symbol's price band",
    Reason.LIMIT_QTY: "more lots than the account's maximum per order",
    Reason.LIMIT_NOTIONAL: "a larger value than the account's maximum per order",
    Reason.LIMIT_PRICE: "the price is further from the last trade than the account's price collar allows",
    Reason.LIMIT_ORDERS: "the account has as many open orders as it may have",
    Reason.LIMIT_POSITION: "with its open orders, the account's position could exceed its maximum",
    Reason.REDUCE_ONLY: "the order is reduce-only, and the position is 0, on the same side or smaller",
    Reason.BAD_SETTING: "there is no such participant, asset, setting or rule, or the value is out of range",
    Reason.LIMIT_DISPLAY: "the iceberg shows too small a part of its quantity (display_divisor_max)",
    Reason.LIMIT_BALANCE: "more than the free balance",
}
"""Why a command is rejected."""


def described(reason: Reason) -> str:
    """Like `HALTED (the symbol is halted)`."""
    return f"{reason.name} ({MEANINGS[reason]})"


def rejected(reason: Reason, sent: str) -> Rejected:
    """The error about a command that was rejected."""
    return Rejected(reason.name, f"{MEANINGS[reason]}; got {sent}")


def count_rejections(rows: Rows) -> NDArray[np.int64]:
    """(256,) numbers of REJECTED events among EVENT rows, by reason."""
    return np.bincount(rows["reason"][rows["kind"] == EventKind.REJECTED], minlength=REASONS_SIZE)


def by_name(counts: NDArray[np.int64]) -> dict[str, int]:
    """Returns counts by the name of the Reason in lower case; reasons that did not occur are left out."""
    return {Reason(code).name.lower(): int(counts[code]) for code in np.flatnonzero(counts).tolist()}


def rejections_text(counts: Mapping[str, int]) -> str:
    """Formats counts from `by_name`, like `3 HALTED (the symbol is halted)`, the most frequent reason first."""
    found = [(count, Reason[name.upper()]) for name, count in counts.items()]
    return ", ".join(f"{count:,} {described(reason)}" for count, reason in sorted(found, reverse=True))
