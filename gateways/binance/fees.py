"""The fee of each fill of an account, by the fee rule of docs/orders.md, if the sum equals what the exchange has charged.

Reports of fills contain no fees. The gateway reads the rates periodically and sums up the fills between two readings: at the rates before
or after, their fees must equal the growth of the account's fees exactly. If they do not, the rates changed between the fills, and the fee of
each fill is unknown.
"""

from collections.abc import Mapping
from typing import NamedTuple

from serl.clients.session import Report
from serl.exchange.records import EventFlag

MAKER, TAKER, AUCTION = range(3)


class Rates(NamedTuple):
    """Fees of a symbol: microticks for each lot, and ppm of the notional."""

    maker_microticks: int = 0
    maker_ppm: int = 0
    taker_microticks: int = 0
    taker_ppm: int = 0
    auction_microticks: int = 0
    auction_ppm: int = 0

    def fee(self, role: int, lots: int, notional: int) -> int:
        """The fee in microticks x lots. notional: in ticks x lots."""
        return lots * self[2 * role] + notional * self[2 * role + 1]


class FeePeriod:
    """The fills of a symbol between two readings.

    Attributes:
        rates: the rates of the fills; None if they are not known.
    """

    __slots__ = ("_lots", "_notional", "rates")

    def __init__(self, rates: Rates | None) -> None:
        self.rates = rates
        self._lots, self._notional = [0, 0, 0], [0, 0, 0]

    def add(self, role: int, lots: int, notional: int) -> None:
        """Counts a fill."""
        self._lots[role] += lots
        self._notional[role] += notional

    def total(self, rates: Rates) -> int:
        """The fees of all fills at these rates, in microticks x lots."""
        return sum(rates.fee(role, self._lots[role], self._notional[role]) for role in (MAKER, TAKER, AUCTION))


class Charge(NamedTuple):
    """The fee of a fill, as far as it is known."""

    period: FeePeriod
    role: int
    lots: int
    notional: int

    @property
    def fee(self) -> int | None:
        """The fee in microticks x lots; None if it is not known."""
        rates = self.period.rates
        return None if rates is None else rates.fee(self.role, self.lots, self.notional)


class AccountFees:
    """The fees of one account, by number of the symbol.

    Attributes:
        rates: the rates of the next fills.
    """

    def __init__(self) -> None:
        self.rates: Mapping[int, Rates] = {}
        self._former: Mapping[int, Rates] = {}
        self._charged: Mapping[int, int] = {}
        self._until = -1
        self._periods: dict[int, FeePeriod] = {}
        self._next: dict[int, FeePeriod] = {}

    def charge(self, report: Report) -> Charge:
        """Counts the fill of a report and returns its charge."""
        flags = report.flags
        role = AUCTION if flags & EventFlag.AUCTION else MAKER if flags & EventFlag.MAKER else TAKER
        lots, notional = report.qty_lots, report.qty_lots * report.price_ticks
        periods = self._periods if self._until < 0 or report.sequence <= self._until else self._next
        period = periods.setdefault(report.symbol, FeePeriod(self.rates.get(report.symbol)))
        period.add(role, lots, notional)
        return Charge(period, role, lots, notional)

    def read(self, rates: Mapping[int, Rates], sequence: int) -> None:
        """Notes the rates as of an event of the exchange: fills after it begin another period."""
        self._former, self.rates, self._until = self.rates, rates, sequence

    def explains(self, charged: Mapping[int, int]) -> bool:
        """Whether `settle` would know the fee of every fill; it may not while reports are still to come."""
        return all(self._rates_for(symbol, charged) is not None for symbol in charged.keys() | self._periods.keys())

    def settle(self, charged: Mapping[int, int]) -> list[int]:
        """Ends the period: all reports up to the event of `read` have arrived, and `charged` were the account's fees at it, in microticks x lots.

        Returns the symbols whose fills since the last settlement match neither the rates before nor the rates now."""
        unknown = []
        for symbol in charged.keys() | self._periods.keys():
            rates = self._rates_for(symbol, charged)
            if symbol in self._periods:
                self._periods[symbol].rates = rates
            if rates is None:
                unknown.append(symbol)
        self._charged, self._periods, self._next, self._until = charged, self._next, {}, -1
        return sorted(unknown)

    def _rates_for(self, symbol: int, charged: Mapping[int, int]) -> Rates | None:
        """The rates at which the fees of this period's fills equal what the account was charged for them; None if there are none."""
        period = self._periods.get(symbol, FeePeriod(None))
        cost = charged.get(symbol, 0) - self._charged.get(symbol, 0)
        candidates = [rates[symbol] for rates in (self._former, self.rates) if symbol in rates]
        return next((rates for rates in candidates if period.total(rates) == cost), None)
