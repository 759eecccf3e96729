"""Decodes OUCH messages into entries and commands, a whole read at a time."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.clients.session import Instrument
from serl.exchange.errors import ConfigError
from serl.exchange.records import COMMAND, CommandFlag, CommandKind, Rows, Term, TimeInForce
from serl.gateways.ouch.messages import APPENDAGE_AT, INBOUND, MARKET_PRICES, PRICE_UNITS
from serl.gateways.ouch.options import (
    APPENDAGE_BYTES_MAX,
    FIRM,
    OptionError,
    OrderTerms,
    order_terms,
    read_options,
)
from serl.gateways.ouch.orders import ENTRY, ORDER
from serl.gateways.ouch.reasons import Reject

STOCK_BYTES = 8


def _letters(text: str) -> NDArray[np.bool_]:
    """Whether each letter is one of these, bool (256,)."""
    is_one = np.zeros(256, bool)
    is_one[[ord(letter) for letter in text]] = True
    return is_one


SIDES, DISPLAYS, SWEEPS, CROSSES, CAPACITIES = (_letters(text) for text in ("BSTE", "YNA", "YN", "NOC", "APRO"))
NO_TIF = 255
TIF = np.full(256, NO_TIF, np.uint8)
"""`TimeInForce` by its letter; NO_TIF: not supported."""
for _letter, _tif in {"0": TimeInForce.DAY, "5": TimeInForce.DAY, "3": TimeInForce.IOC, "6": TimeInForce.GTT}.items():
    TIF[ord(_letter)] = _tif
CROSS_TIF = {ord("O"): TimeInForce.AT_OPEN, ord("C"): TimeInForce.AT_CLOSE}
GTT = ord("6")
LOT_TERMS = (Term.MIN_LOTS, Term.DISPLAY_LOTS)


class Symbols:
    """The exchange's symbols in OUCH's terms. Raises ConfigError for symbols that OUCH cannot represent.

    Attributes:
        stocks: padded names by the exchange's number, dtype S8.
        units: price units per tick, by number.
        lots: shares per lot, by number.
    """

    def __init__(self, instruments: list[Instrument]) -> None:
        for instrument in instruments:
            _check(instrument)
        ordered = sorted(instruments, key=lambda instrument: instrument.number)
        self.stocks = np.array([each.name.ljust(STOCK_BYTES).encode() for each in ordered], "S8")
        self.units = np.array([int(each.tick_size * PRICE_UNITS) for each in ordered], np.int64)
        self.lots = np.array([int(each.lot_size) for each in ordered], np.int64)
        self._sorted = np.argsort(self.stocks)

    def equal(self, other: "Symbols") -> bool:
        """Whether the numbers mean the same symbols."""
        return all(np.array_equal(ours, theirs) for ours, theirs in zip(self._tables, other._tables, strict=True))

    @property
    def _tables(self) -> tuple[Any, Any, Any]:
        return self.stocks, self.units, self.lots

    def find(self, stocks: Any) -> NDArray[np.int64]:
        """The numbers of symbols; -1 for unknown ones."""
        place = np.minimum(np.searchsorted(self.stocks, stocks, sorter=self._sorted), len(self.stocks) - 1)
        number = self._sorted[place]
        return np.where(self.stocks[number] == stocks, number, -1)


def _check(instrument: Instrument) -> None:
    name, units = instrument.name, instrument.tick_size * PRICE_UNITS
    if units != int(units) or units < 1:
        raise ConfigError(
            f"{name}: expected a tick size of up to four decimals, as OUCH has, got {instrument.tick_size}; give the symbol another "
            "tick_size"
        )
    if instrument.lot_size != int(instrument.lot_size):
        raise ConfigError(
            f"{name}: expected a lot size in whole shares, got {instrument.lot_size}; give the symbol another lot_size"
        )
    if len(name) > STOCK_BYTES or not name.isascii():
        raise ConfigError(f"expected symbols of up to 8 ASCII letters, as OUCH has, got {name}; rename it")


@dataclass
class Messages:
    """Messages of one read, by type.

    Attributes:
        index: places of the messages in the read, by type.
        rows: fields of the messages, by type.
        appendages: the appendage of each message that has one, by its place.
        malformed: (place, type byte, bytes) of malformed messages.
    """

    index: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)
    appendages: dict[int, bytes] = field(default_factory=dict)
    malformed: list[tuple[int, int, int]] = field(default_factory=list)


def split(data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Messages:
    """Sorts the messages data[start:end] of a read by type."""
    found = Messages()
    buffer = np.frombuffer(data, np.uint8)
    sizes = ends - starts
    kinds = np.where(sizes > 0, buffer[np.minimum(starts, len(buffer) - 1)], 0)
    known = np.zeros(len(starts), bool)
    for kind, layout in INBOUND.items():
        least, at = layout.itemsize, APPENDAGE_AT[kind]
        places = np.flatnonzero((kinds == ord(kind)) & (sizes >= least))
        if not len(places):
            continue
        begins, extra = starts[places], sizes[places] - at
        has_length = extra >= 2
        length_at = np.where(has_length, begins + at, 0)
        length = (buffer[length_at].astype(np.int64) << 8) | buffer[length_at + 1]
        good = np.where(has_length, extra == length + 2, extra == 0)
        good &= ~has_length | (length <= APPENDAGE_BYTES_MAX)
        places, begins = places[good], begins[good]
        if not len(places):
            continue
        known[places] = True
        found.index[kind] = places
        found.rows[kind] = buffer[begins[:, None] + np.arange(least)].view(layout).ravel()
        for position in np.flatnonzero((has_length & (length > 0))[good]).tolist():
            first = int(begins[position]) + at + 2
            found.appendages[int(places[position])] = data[first : int(ends[places[position]])]
    for place in np.flatnonzero(~known).tolist():
        found.malformed.append((place, int(kinds[place]), int(sizes[place])))
    return found


@dataclass
class Orders:
    """Entered orders, checked.

    Attributes:
        entries: ENTRY rows as they are stored.
        reasons: the `Reject` of each; 0 for none.
        commands: COMMAND rows of their NEW, without ids.
        terms: terms of the orders that have any, by place in `entries`.
    """

    entries: Rows
    reasons: NDArray[np.uint16]
    commands: Rows
    terms: dict[int, OrderTerms]


def enter_orders(
    rows: Rows, places: NDArray[np.int64], appendages: dict[int, bytes], symbols: Symbols, midnight_ns: int
) -> Orders:
    """Entries and commands of Enter Order messages."""
    entries = np.zeros(len(rows), ENTRY)
    for name in (
        "user_ref",
        "side",
        "quantity",
        "price",
        "time_in_force",
        "display",
        "capacity",
        "sweep",
        "cross",
        "cl_ord_id",
    ):
        entries[name] = rows[name]
    entries["kind"], entries["stock"] = ORDER, rows["symbol"]
    numbers = symbols.find(rows["symbol"])
    entries["symbol"] = np.maximum(numbers, 0)
    commands = np.zeros(len(rows), COMMAND)
    is_market = (entries["price"] == MARKET_PRICES[0]) | (entries["price"] == MARKET_PRICES[1])
    reasons = _reasons(entries, numbers, is_market, symbols)
    side, tif, cross = entries["side"], entries["time_in_force"], entries["cross"]
    commands["kind"] = CommandKind.NEW
    commands["symbol"] = entries["symbol"]
    commands["side"] = side != ord("B")
    commands["qty_lots"] = entries["quantity"] // symbols.lots[entries["symbol"]]
    commands["price_ticks"] = np.where(is_market, 0, entries["price"] // symbols.units[entries["symbol"]])
    commands["time_in_force"] = TIF[tif]
    for letter, at in CROSS_TIF.items():
        commands["time_in_force"][cross == letter] = at
    commands["flags"] = np.where(is_market, int(CommandFlag.MARKET), 0) | np.where(
        entries["display"] == ord("N"), int(CommandFlag.HIDDEN), 0
    )
    terms = {}
    has_terms = tif == GTT
    if appendages:
        has_terms |= np.isin(places, list(appendages))
    for position in np.flatnonzero(has_terms).tolist():
        appendage = appendages.get(int(places[position]), b"")
        try:
            terms[position] = _add_options(entries, commands, position, appendage, symbols, midnight_ns)
        except OptionError as error:
            reasons[position] = reasons[position] or error.reason
    return Orders(entries, reasons, commands, {place: found for place, found in terms.items() if not reasons[place]})


def _reasons(entries: Rows, numbers: NDArray[np.int64], is_market: Any, symbols: Symbols) -> NDArray[np.uint16]:
    reasons = np.zeros(len(entries), np.uint16)
    symbol = entries["symbol"]
    checks: list[tuple[Any, Reject]] = [
        (numbers < 0, Reject.INVALID_SYMBOL),
        (~SIDES[entries["side"]], Reject.INVALID_SIDE),
        ((entries["quantity"] == 0) | (entries["quantity"] % symbols.lots[symbol] != 0), Reject.INVALID_QUANTITY),
        (
            ~is_market & ((entries["price"] <= 0) | (entries["price"] % symbols.units[symbol] != 0)),
            Reject.INVALID_PRICE,
        ),
        (~DISPLAYS[entries["display"]], Reject.INVALID_DISPLAY),
        (~SWEEPS[entries["sweep"]], Reject.SWEEP_NOT_ALLOWED),
        (~CROSSES[entries["cross"]], Reject.INVALID_CROSS),
        (TIF[entries["time_in_force"]] == NO_TIF, Reject.OTHER),
        (~CAPACITIES[entries["capacity"]], Reject.OTHER),
    ]
    for wrong, reason in reversed(checks):
        reasons[wrong] = reason
    return reasons


def _add_options(
    entries: Rows, commands: Rows, position: int, appendage: bytes, symbols: Symbols, midnight_ns: int
) -> OrderTerms:
    """Stores the appendage of an order; returns its terms in lots and ticks. Raises OptionError."""
    entry = entries[position]
    entry["appendage_bytes"], entry["appendage"] = len(appendage), appendage
    options = read_options(appendage)
    entry["firm"] = options.get(FIRM, b"")
    found = order_terms(options, bool(commands["side"][position]), entry["time_in_force"] == GTT)
    values = dict(found.terms)
    if Term.PEG in values:
        commands["flags"][position] &= ~np.uint8(CommandFlag.MARKET)  # no limit of its own
    for term in LOT_TERMS:
        if term in values:
            lots, rest = divmod(values[term], int(symbols.lots[entry["symbol"]]))
            if rest:
                raise OptionError(Reject.INVALID_MIN_QUANTITY if term == Term.MIN_LOTS else Reject.INVALID_MAX_FLOOR)
            values[term] = lots
    if Term.OFFSET_TICKS in values:
        ticks, rest = divmod(values[Term.OFFSET_TICKS], int(symbols.units[entry["symbol"]]))
        if rest:
            raise OptionError(Reject.INVALID_PEG)
        values[Term.OFFSET_TICKS] = ticks
    if Term.EXPIRE_NS in values:
        values[Term.EXPIRE_NS] = midnight_ns + values[Term.EXPIRE_NS] * 1_000_000_000
    commands["flags"][position] |= found.flags
    return OrderTerms(found.flags, values)


def term_commands(terms: OrderTerms) -> Rows:
    """The TERM commands of an order as COMMAND rows, without ids."""
    rows = np.zeros(len(terms.terms), COMMAND)
    rows["kind"] = CommandKind.TERM
    rows["flags"] = [int(term) for term in terms.terms]
    rows["price_ticks"] = list(terms.terms.values())
    return rows
