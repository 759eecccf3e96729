"""Argument and return types of the client API, apart from orders and reports (session.py)."""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

from serl.clients.instrument import EXACT
from serl.clients.session import Instrument
from serl.exchange.account import Account
from serl.exchange.errors import ConfigError
from serl.exchange.records import MICRO, HaltReason, Phase

Price = Decimal | str | float
"""A price in money. A float is read as its shortest decimal form."""


class FeedMessage(NamedTuple):
    """A message of a subscribed channel: the topic, e.g. `trade/AMZN/`, and `[kind, epoch, previous, sequence, time_ns, items]`."""

    topic: str
    message: list[Any]


class Trade(NamedTuple):
    """A trade of the market.

    Attributes:
        aggressor_side: 0 if the buyer, 1 if the seller took liquidity; for a print, 0 if the resting party sold.
        off_book: 0 for a trade in the continuous book, 1 for a print, 2 for an auction (which has no aggressor).
    """

    match_id: int
    time_ns: int
    price_ticks: int
    qty_lots: int
    aggressor_side: int
    off_book: int


class SymbolStatus(NamedTuple):
    """The trading status of a symbol.

    Attributes:
        reason: why it is halted, or interrupted (VOLATILITY); otherwise NONE.
    """

    halted: bool
    phase: Phase
    reason: HaltReason

    @classmethod
    def of(cls, halted: int, phase: int, reason: int) -> "SymbolStatus":
        """Creates one from an exchange's integers."""
        return cls(bool(halted), Phase(phase), HaltReason(reason))


class Balance(NamedTuple):
    """A participant's position, cash and profit in a symbol since it first traded it, over all of its sessions, in money.

    Attributes:
        position_lots: lots bought minus lots sold; below 0: short.
        cash: received for sales minus paid for purchases, before fees.
        realised: profit of closed positions, at average cost, before fees.
        unrealised: profit of the open position at the last trade.
        fees: paid so far; below 0: rebates.
    """

    position_lots: int
    cash: Decimal
    realised: Decimal
    unrealised: Decimal
    fees: Decimal

    @classmethod
    def in_money(cls, instrument: Instrument, account: Account, last_ticks: int) -> "Balance":
        """Converts an account in a symbol whose last trade was at `last_ticks`."""
        with localcontext(EXACT):
            unit = instrument.tick_size * instrument.lot_size
            fees = unit * account.fees_microticks / MICRO or Decimal(0)  # not 0E-9
            return cls(
                account.position_lots, unit * account.cash_ticks, unit * account.realised_ticks,
                unit * account.unrealised_ticks(last_ticks), fees,
            )  # fmt: skip


def balances_in_money(rows: Iterable[Sequence[int]], numbered: Callable[[int], Instrument]) -> dict[str, Balance]:
    """Balances by symbol name, from an exchange's rows [symbol, last_ticks, balances ...] of one participant."""
    instruments = ((numbered(symbol), last_ticks, balances) for symbol, last_ticks, *balances in rows)
    return {
        one.name: Balance.in_money(one, Account.from_balances(balances), last) for one, last, balances in instruments
    }


class AssetBalance(NamedTuple):
    """A participant's balance of an asset.

    Attributes:
        balance: deposits plus the effect of trades and fees; below 0: short, or in debt.
        reserved: the amount that open orders could spend, fees included; 0 for an account without balance checks.
    """

    balance: Decimal
    reserved: Decimal

    @property
    def free(self) -> Decimal:
        """The amount that new orders can spend."""
        with localcontext(EXACT):
            return self.balance - self.reserved


def to_ticks(instrument: Instrument, price_ticks: int | None, price: Price | None) -> int | None:
    """The price of an order in ticks, given in ticks or in money; None if neither is given. Raises ConfigError if both are, and PriceOffTick."""
    if price is None:
        return price_ticks
    if price_ticks is not None:
        raise ConfigError(f"{instrument.name}: expected price_ticks or price, got {price_ticks} and {price}; give one")
    return instrument.ticks(price)
