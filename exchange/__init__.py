"""The exchange: records, order book, journal, gateway, feed, server."""

import importlib
from typing import TYPE_CHECKING, Any

if __name__ == "exchange":
    raise ImportError("import serl.exchange, not exchange: install the project first (make test does it)")

if TYPE_CHECKING:
    from serl.exchange.decode import Event as Event
    from serl.exchange.errors import ConfigError as ConfigError
    from serl.exchange.errors import Rejected as Rejected
    from serl.exchange.limits import MarketLimits as MarketLimits
    from serl.exchange.market import Market as Market
    from serl.exchange.records import EventKind as EventKind
    from serl.exchange.records import Reason as Reason
    from serl.exchange.records import Side as Side
    from serl.exchange.records import TimeInForce as TimeInForce
    from serl.exchange.terms import Terms as Terms

_FILES = {
    "ConfigError": "errors", "Event": "decode", "EventKind": "records", "Market": "market", "MarketLimits": "limits", "Reason": "records",
    "Rejected": "errors", "Side": "records", "Terms": "terms", "TimeInForce": "records",
}  # fmt: skip
"""The module of each public name. Modules, and numba with them, are imported on first use."""


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module 'serl.exchange' has no attribute {name!r}")
    return getattr(importlib.import_module(f"serl.exchange.{_FILES[name]}"), name)
