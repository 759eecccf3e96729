"""Prices and money in a program that has set the precision of its decimals."""

from collections.abc import Iterator
from decimal import Decimal, localcontext

import pytest

from serl.clients.errors import PriceOffTick
from serl.clients.instrument import Instrument
from serl.clients.values import AssetBalance, Balance
from serl.exchange.account import Account

DEMO = Instrument.of(0, "DEMO", "0.01", "1")


@pytest.fixture(autouse=True)
def six_digits() -> Iterator[None]:
    with localcontext() as context:
        context.prec = 6
        yield


def test_an_order_has_the_price_that_was_given() -> None:
    """An order at 123456.78 was sent at 123457.00."""
    assert DEMO.ticks("123456.78") == 12_345_678
    assert str(DEMO.price(12_345_678)) == "123456.78"
    with pytest.raises(PriceOffTick, match=r"the nearest prices are 123456\.78 and 123456\.79"):
        DEMO.ticks("123456.785")


def test_balances_are_exact() -> None:
    balance = Balance.in_money(DEMO, Account(1, -12_345_678, 12_345_601, 0), 12_345_679)
    assert list(map(str, balance[1:4])) == ["-123456.78", "-0.77", "0.78"]
    assert AssetBalance(Decimal("123456.78"), Decimal("0.01")).free == Decimal("123456.77")
