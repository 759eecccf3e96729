"""The market of docs/orders.md in plain Python: to be read beside it, and to hold the compiled kernel to it."""

from serl.exchange.reference.market import ReferenceMarket as ReferenceMarket
