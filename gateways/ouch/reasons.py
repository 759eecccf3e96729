"""Maps the exchange's reasons to those of OUCH 5.0."""

from enum import IntEnum

import numpy as np

from serl.exchange.records import Reason


class Reject(IntEnum):
    """Why an order or a replacement was rejected, by the codes of the specification."""

    DESTINATION_CLOSED = 0x02
    INVALID_DISPLAY = 0x03
    INVALID_MAX_FLOOR = 0x04
    INVALID_PEG = 0x05
    FAT_FINGER = 0x06
    HALTED = 0x07
    SWEEP_NOT_ALLOWED = 0x08
    INVALID_SIDE = 0x09
    PROCESSING_ERROR = 0x0A
    FIRM_NOT_AUTHORIZED = 0x0C
    INVALID_MIN_QUANTITY = 0x0D
    OTHER = 0x0F
    PEGGING_NOT_ALLOWED = 0x11
    CROSSED_MARKET = 0x12
    INVALID_QUANTITY = 0x13
    INVALID_CROSS = 0x14
    REPLACE_NOT_ALLOWED = 0x15
    ROUTING_NOT_ALLOWED = 0x16
    INVALID_SYMBOL = 0x17
    INVALID_DESTINATION = 0x1C
    INVALID_PRICE = 0x1D
    SHARES_EXCEEDED = 0x1E
    NOTIONAL_EXCEEDED = 0x1F
    EXPOSURE_EXCEEDED = 0x20
    PORT_RATE = 0x29


_REJECTS = {
    Reason.UNKNOWN_SYMBOL: Reject.INVALID_SYMBOL,
    Reason.BAD_SIDE: Reject.INVALID_SIDE,
    Reason.BAD_QTY: Reject.INVALID_QUANTITY,
    Reason.BAD_PRICE: Reject.INVALID_PRICE,
    Reason.UNKNOWN_ORDER: Reject.REPLACE_NOT_ALLOWED,
    Reason.WOULD_CROSS: Reject.CROSSED_MARKET,
    Reason.HALTED: Reject.HALTED,
    Reason.NOT_PERMITTED: Reject.FIRM_NOT_AUTHORIZED,
    Reason.KILLED: Reject.FIRM_NOT_AUTHORIZED,
    Reason.NOT_REPLACEABLE: Reject.REPLACE_NOT_ALLOWED,
    Reason.WRONG_PHASE: Reject.DESTINATION_CLOSED,
    Reason.OUTSIDE_BAND: Reject.FAT_FINGER,
    Reason.LIMIT_PRICE: Reject.FAT_FINGER,
    Reason.LIMIT_QTY: Reject.SHARES_EXCEEDED,
    Reason.LIMIT_NOTIONAL: Reject.NOTIONAL_EXCEEDED,
    Reason.LIMIT_POSITION: Reject.EXPOSURE_EXCEEDED,
    Reason.LIMIT_BALANCE: Reject.EXPOSURE_EXCEEDED,
    Reason.LIMIT_ORDERS: Reject.EXPOSURE_EXCEEDED,
}
_CANCELS = {
    Reason.NONE: "U",  # of a REDUCED
    Reason.REQUESTED: "U", Reason.MASS_CANCEL: "U", Reason.REPLACED_BELOW_FILLED: "U",
    Reason.IOC_REMAINDER: "I", Reason.FOK_UNFILLABLE: "I", Reason.MARKET_REMAINDER: "I",
    Reason.AUCTION_REMAINDER: "I", Reason.EXPIRED: "T", Reason.DAY_END: "E", Reason.SELF_TRADE: "Q",
    Reason.OUTSIDE_BAND: "K", Reason.KILL: "S", Reason.PURGED: "S", Reason.DISCONNECT: "S",
}  # fmt: skip
"""U: requested by the user, I: immediate or cancel, T: expired, E: end of day, Q: self-trade prevention, K: price band, S: supervisory."""

REJECT_REASONS = np.full(256, Reject.OTHER, np.uint16)
"""Code of a rejection by `Reason`."""
CANCEL_REASONS = np.full(256, ord("Z"), np.uint8)
"""Code of a cancel by `Reason`; Z: by the system."""
for _reason, _code in _REJECTS.items():
    REJECT_REASONS[_reason] = _code
for _reason, _letter in _CANCELS.items():
    CANCEL_REASONS[_reason] = ord(_letter)
