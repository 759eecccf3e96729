"""Appendages of Enter Order and Replace Order: optional fields, each with a length, a tag and a value."""

import struct
from dataclasses import dataclass

from serl.exchange.records import CommandFlag, Peg, Term
from serl.gateways.ouch.reasons import Reject

APPENDAGE_BYTES_MAX = 64
"""Longer appendages must repeat an option, and each option may occur only once."""

FIRM, MIN_QTY, CUSTOMER_TYPE, MAX_FLOOR, PRICE_TYPE, PEG_OFFSET, POST_ONLY = 2, 3, 4, 5, 6, 7, 12
EXPIRE_TIME, TRADE_NOW, HANDLE_INST, GROUP_ID, SHARES_LOCATED, LOCATE_BROKER = 15, 16, 17, 24, 25, 26
SIDE, USER_REF_INDEX = 27, 28

_FORMATS = {
    FIRM: "4s", MIN_QTY: "I", CUSTOMER_TYPE: "c", MAX_FLOOR: "I", PRICE_TYPE: "c", PEG_OFFSET: "i", POST_ONLY: "c",
    EXPIRE_TIME: "I", TRADE_NOW: "c", HANDLE_INST: "c", GROUP_ID: "H", SHARES_LOCATED: "c", LOCATE_BROKER: "4s",
    SIDE: "c", USER_REF_INDEX: "B",
}  # fmt: skip
_UNSUPPORTED = {
    8: Reject.INVALID_DESTINATION, 9: Reject.OTHER, 10: Reject.OTHER, 11: Reject.OTHER,
    13: Reject.INVALID_MAX_FLOOR, 14: Reject.ROUTING_NOT_ALLOWED,
}  # fmt: skip
"""Discretion, random reserves and routes: an order with them would not behave as requested."""
PEGS = {b"L": Peg.NONE, b"R": Peg.PRIMARY, b"M": Peg.MID, b"m": Peg.MID}
"""Price types: limit, primary peg, midpoint peg."""

Options = dict[int, int | bytes]
"""Values by tag."""


class OptionError(Exception):
    """An order has an option that it cannot have.

    Attributes:
        reason: the reason for rejecting the order.
    """

    def __init__(self, reason: Reject) -> None:
        super().__init__(reason.name)
        self.reason = reason


@dataclass(frozen=True)
class OrderTerms:
    """Flags and terms that result from the options of an order.

    Attributes:
        flags: `CommandFlag` bits.
        terms: values by `Term`; quantities still in shares, the peg's offset in price units, the expiry in seconds after midnight.
    """

    flags: int
    terms: dict[Term, int]


def read_options(appendage: bytes) -> Options:
    """The options of an appendage. Raises OptionError for one that is unknown, repeated or too short."""
    options: Options = {}
    at = 0
    while at < len(appendage):
        size = appendage[at]
        value = appendage[at + 2 : at + 1 + size]
        if size < 1 or at + 1 + size > len(appendage):
            raise OptionError(Reject.OTHER)
        tag = appendage[at + 1]
        code = _FORMATS.get(tag)
        if code is None:
            raise OptionError(_UNSUPPORTED.get(tag, Reject.OTHER))
        if tag in options or struct.calcsize(f">{code}") != len(value):
            raise OptionError(Reject.OTHER)
        (options[tag],) = struct.unpack(f">{code}", value)
        at += 1 + size
    return options


def order_terms(options: Options, is_sell: bool, is_gtt: bool) -> OrderTerms:
    """Flags and terms of an order with these options. Raises OptionError."""
    flags, terms = 0, {}
    if options.get(TRADE_NOW, b"N") not in (b"N", b" ") or options.get(HANDLE_INST, b" ") not in (b"N", b" "):
        raise OptionError(Reject.OTHER)
    if options.get(POST_ONLY, b"N") not in (b"P", b"N"):
        raise OptionError(Reject.OTHER)
    if options.get(POST_ONLY) == b"P":
        flags |= CommandFlag.POST_ONLY
    if _number(options, MIN_QTY):
        terms[Term.MIN_LOTS] = _number(options, MIN_QTY)
    if _number(options, MAX_FLOOR):
        terms[Term.DISPLAY_LOTS] = _number(options, MAX_FLOOR)
    terms |= _peg(options, is_sell)
    if is_gtt != bool(_number(options, EXPIRE_TIME)):
        raise OptionError(Reject.OTHER)
    if is_gtt:
        terms[Term.EXPIRE_NS] = _number(options, EXPIRE_TIME)
    return OrderTerms(flags | (CommandFlag.TERMS if terms else 0), terms)


def _number(options: Options, tag: int) -> int:
    value = options.get(tag, 0)
    assert isinstance(value, int)
    return value


def _peg(options: Options, is_sell: bool) -> dict[Term, int]:
    kind = options.get(PRICE_TYPE, b"L")
    assert isinstance(kind, bytes)
    offset = _number(options, PEG_OFFSET)
    if kind not in PEGS:
        raise OptionError(Reject.INVALID_PEG)
    if not PEGS[kind]:
        if offset:
            raise OptionError(Reject.INVALID_PEG)
        return {}
    passive = offset if is_sell else -offset
    if passive < 0:
        raise OptionError(Reject.PEGGING_NOT_ALLOWED)
    return {Term.PEG: int(PEGS[kind])} | ({Term.OFFSET_TICKS: passive} if passive else {})
