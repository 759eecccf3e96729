"""The message layouts of NASDAQ OUCH 5.0, from its public specification; big-endian. Prices have four decimals.

Single letters are stored as their codes. Outbound layouts begin with the header of the SoupBinTCP packet that carries the message.
"""

from typing import Any

import numpy as np

from serl.gateways.soup.packets import SEQUENCED

PRICE_UNITS = 10_000
"""Price units per dollar."""
MARKET_PRICES = (2_000_000_000, 0x7FFFFFFF)
"""Prices of an order without a limit: 200,000.0000, and the largest of older versions."""
CODES = {"1": "u1", "B": "u1", "H": ">u2", "I": ">u4", "i": ">i4", "Q": ">u8", "q": ">i8"}

_ORDER = "side:1 quantity:I symbol:8 price:q time_in_force:1 display:1"
_CROSS = "capacity:1 sweep:1 cross:1"


def _dtype(text: str, first: str = "") -> Any:
    fields: list[Any] = []
    for item in f"{first} type:1 {text}".split():
        name, _, code = item.partition(":")
        fields.append((name, CODES.get(code, f"S{code}")))
    return np.dtype(fields)


INBOUND = {
    kind: _dtype(text)
    for kind, text in {
        "O": f"user_ref:I {_ORDER} {_CROSS} cl_ord_id:14 appendage_bytes:H",
        "U": "orig_user_ref:I user_ref:I quantity:I price:q time_in_force:1 display:1 sweep:1 cl_ord_id:14 "
        "appendage_bytes:H",
        "X": "user_ref:I quantity:I",
        "M": "user_ref:I side:1 quantity:I",
        "C": "user_ref:I firm:4 symbol:8",
        "Q": "",
    }.items()
}
"""Enter Order, Replace Order, Cancel Order, Modify Order, Mass Cancel, Account Query. Appendages follow."""
APPENDAGE_AT = {"O": 45, "U": 38, "X": 9, "M": 10, "C": 17, "Q": 1}
"""Offset of the appendage's length; a message that ends there has no appendage (except O and U, whose layout contains the length)."""

OUTBOUND = {
    kind: _dtype(f"time_ns:Q {text}", "packet_bytes:H packet:1")
    for kind, text in {
        "S": "event:1",
        "A": f"user_ref:I {_ORDER} order_number:Q {_CROSS} state:1 cl_ord_id:14 appendage_bytes:H",
        "U": f"orig_user_ref:I user_ref:I {_ORDER} order_number:Q {_CROSS} state:1 cl_ord_id:14 appendage_bytes:H",
        "C": "user_ref:I quantity:I reason:1",
        "D": "user_ref:I quantity:I reason:1 prevented:I price:q liquidity:1 strategy:1",
        "E": "user_ref:I quantity:I price:q liquidity:1 match:Q appendage_bytes:H",
        "J": "user_ref:I reason:H cl_ord_id:14",
        "I": "user_ref:I",
        "M": "user_ref:I side:1 quantity:I",
        "T": "user_ref:I price:q display:1 order_number:Q",
        "R": "user_ref:I reason:1 appendage_bytes:H shown_bytes:B shown_tag:B shown:I number_bytes:B number_tag:B "
        "order_number:Q",
        "X": "user_ref:I firm:4 symbol:8 appendage_bytes:H",
        "Q": "next_user_ref:I",
    }.items()
}
"""System Event, Accepted, Replaced, Canceled, AIQ Canceled, Executed, Rejected, Cancel Reject, Order Modified, Order Priority Update,
Order Restated (with its two options), Mass Cancel Response, Account Query Response."""
OPTION_SECONDARY_NUMBER, OPTION_SHOWN = 1, 22
"""Options of Order Restated."""


def outbound(kind: str, count: int, time_ns: Any) -> Any:
    """Creates `count` messages of a type with their times after midnight; the other fields are zero."""
    layout = OUTBOUND[kind]
    messages = np.zeros(count, layout)
    messages["packet_bytes"] = layout.itemsize - 2
    messages["packet"] = ord(SEQUENCED)
    messages["type"] = ord(kind)
    messages["time_ns"] = time_ns
    return messages
