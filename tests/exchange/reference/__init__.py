"""The market of docs/orders.md in plain Python: the specification that the compiled kernel is tested against."""

from tests.exchange.reference.market import ReferenceMarket as ReferenceMarket
