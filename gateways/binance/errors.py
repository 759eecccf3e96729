"""Binance's errors: code, message and HTTP status; and the error for each rule of the exchange."""

from typing import Any

from serl.exchange.errors import SerlError
from serl.exchange.records import Reason


class BinanceError(SerlError):
    """A refused request. `code` and `text` are Binance's answer, `status` is the HTTP status, `data` is a part of some WebSocket errors."""

    def __init__(self, code: int, text: str, status: int = 400, data: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.code, self.text, self.status, self.data = code, text, status, data

    def body(self) -> dict[str, Any]:
        """The JSON object of the answer."""
        body: dict[str, Any] = {"code": self.code, "msg": self.text}
        return body | ({"data": self.data} if self.data is not None else {})


def away() -> BinanceError:
    """The exchange behind the gateway does not answer; nothing was sent."""
    return BinanceError(-1001, "Internal error; unable to process your request. Please try again.", 503)


def throttled() -> BinanceError:
    """The exchange currently accepts no more commands from the account; nothing was executed."""
    return BinanceError(-1015, "Too many new orders; the exchange accepts no more of this account now.", 429)


def unknown_outcome() -> BinanceError:
    """A command was sent, but no answer arrived."""
    return BinanceError(
        -1007,
        "Timeout waiting for response from backend server. Send status unknown; execution status unknown.",
        504,
    )


def bad_symbol() -> BinanceError:
    """A symbol that is not listed."""
    return BinanceError(-1121, "Invalid symbol.")


def filter_failure(name: str) -> BinanceError:
    """An order that a filter of exchangeInfo refuses."""
    return BinanceError(-1013, f"Filter failure: {name}")


def refused(text: str) -> BinanceError:
    """A new order that was refused."""
    return BinanceError(-2010, text)


def no_such_order() -> BinanceError:
    """A cancel or a change of an order that is not open."""
    return BinanceError(-2011, "Unknown order sent.")


def order_does_not_exist() -> BinanceError:
    """A query for an order that never existed."""
    return BinanceError(-2013, "Order does not exist.")


FILTERS = {
    Reason.BAD_QTY: "LOT_SIZE",
    Reason.LIMIT_QTY: "LOT_SIZE",
    Reason.BAD_PRICE: "PRICE_FILTER",
    Reason.OUTSIDE_BAND: "PERCENT_PRICE_BY_SIDE",
    Reason.LIMIT_PRICE: "PERCENT_PRICE_BY_SIDE",
    Reason.LIMIT_NOTIONAL: "NOTIONAL",
    Reason.LIMIT_ORDERS: "MAX_NUM_ORDERS",
    Reason.LIMIT_POSITION: "MAX_POSITION",
    Reason.BOOK_FULL: "EXCHANGE_MAX_NUM_ORDERS",
}
TEXTS = {
    Reason.WOULD_CROSS: "Order would immediately match and take.",
    Reason.LIMIT_BALANCE: "Account has insufficient balance for requested action.",
    Reason.KILLED: "This action is disabled on this account.",
    Reason.NOT_PERMITTED: "This action is disabled on this account.",
}


def rejection(reason: int) -> BinanceError:
    """Binance's answer to a command that the exchange rejected for a `Reason`."""
    name = Reason(reason)
    if name in FILTERS:
        return filter_failure(FILTERS[name])
    if name in (Reason.HALTED, Reason.WRONG_PHASE):
        return BinanceError(-1013, "Market is closed.")
    if name == Reason.UNKNOWN_ORDER:
        return no_such_order()
    return refused(TEXTS.get(name, f"Order was rejected by the exchange: {name.name}."))
