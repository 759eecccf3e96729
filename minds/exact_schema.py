"""A JSON schema of exactly the decisions that are possible now: symbols with quotes, prices within the band, what the mind owns, its orders.

Under a grammar, even small models then give no answer that must be refused. OpenAI's API does not allow alternatives at the root of a schema, and
takes seconds to prepare each new schema; there, `decision_schema` is used and the checks do the rest.
"""

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from serl.clients.session import Order
from serl.exchange.records import Side
from serl.minds.anonymous import Disguise
from serl.minds.checks import market_limit_ticks, price_bounds_ticks
from serl.minds.config import MindsConfig
from serl.minds.decision import strict_object
from serl.minds.market_view import SymbolView
from serl.minds.portfolio import Portfolio, money
from serl.minds.prompts import Observation


def exact_schema(seen: Observation, config: MindsConfig, disguise: Disguise) -> dict[str, Any]:
    """The schema for one observation."""
    choices = [*_order_choices(seen, config, disguise), {"action": {"enum": ["nothing"]}}]
    if seen.open_orders:
        choices.append(_cancel(seen.open_orders))
    if config.loans is not None:
        choices += _loan_choices(seen.portfolio, config.loans.share_max)
    reason = {"reason": {"type": "string", "maxLength": config.text_length_max}}
    post = {"post": {"type": "string", "maxLength": config.text_length_max}} if config.forum else {}
    return {"anyOf": [strict_object(reason | choice | post) for choice in choices]}


def _order_choices(seen: Observation, config: MindsConfig, disguise: Disguise) -> Iterator[dict[str, Any]]:
    if len(seen.open_orders) >= config.open_orders_max:
        return
    for symbol, view in seen.views.items():
        for side, action in ((Side.BUY, "buy"), (Side.SELL, "sell")):
            named = {"action": {"enum": [action]}, "symbol": {"enum": [disguise.shown(symbol)]}}
            low, high = price_bounds_ticks(view, config.price_band)
            lots = _lots_max(symbol, view, side, high, seen.portfolio, config)
            if high is not None and lots >= 1 and (prices := _prices(view, low, high)):
                yield named | {"order_type": {"enum": ["limit"]}, "price": prices, "quantity": _quantity(view, lots)}
            bound = market_limit_ticks(view, side, config.market_slippage)
            if bound is None:
                continue
            lots = _lots_max(symbol, view, side, Decimal(bound), seen.portfolio, config)
            if lots >= 1:
                yield named | {"order_type": {"enum": ["market"]}, "quantity": _quantity(view, lots)}


def _lots_max(
    symbol: str, view: SymbolView, side: Side, price_ticks: Decimal | None, portfolio: Portfolio, config: MindsConfig
) -> int:  # fmt: skip
    if side == Side.SELL:
        lots = portfolio.free_lots[symbol]
    elif price_ticks is None:
        return 0
    else:
        lots = int(portfolio.free_cash / money(view.instrument, 1, math.ceil(price_ticks)))
    return view.rules.whole_lots(min(config.order_lots_max, lots))


def _prices(view: SymbolView, low: Decimal, high: Decimal) -> dict[str, Any] | None:
    """The schema of prices that fit at every level from low to high, which also bounds their digits; None if there is no such price."""
    step = view.rules.multiple_between(math.ceil(low), math.floor(high))
    size = step * view.instrument.tick_size
    first, last = math.ceil(low / step), math.floor(high / step)
    if first > last:
        return None
    return {"type": "number", "minimum": float(first * size), "maximum": float(last * size), "multipleOf": float(size)}


def _quantity(view: SymbolView, lots_max: int) -> dict[str, Any]:
    multiple = view.rules.lot_multiple
    whole = {"multipleOf": multiple} if multiple > 1 else {}
    return {"type": "integer", "minimum": multiple, "maximum": lots_max} | whole


def _cancel(orders: Sequence[Order]) -> dict[str, Any]:
    return {"action": {"enum": ["cancel"]}, "order_id": {"enum": [order.order_id for order in orders]}}


def _loan_choices(portfolio: Portfolio, share_max: float) -> Iterator[dict[str, Any]]:
    room = int(portfolio.wealth * Decimal(str(share_max)) - portfolio.loan)
    payable = int(min(portfolio.loan, portfolio.free_cash))
    for action, amount_max in (("borrow", room), ("repay", payable)):
        if amount_max >= 1:
            yield {"action": {"enum": [action]}, "amount": {"type": "integer", "minimum": 1, "maximum": amount_max}}
