"""Checks of a decision before anything is sent: what the mind owns, sensible prices, its own orders."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from serl.clients.session import Order
from serl.exchange.records import CASH_MAX, Side, TimeInForce
from serl.minds.config import MindsConfig
from serl.minds.decision import Decision
from serl.minds.errors import DecisionRefused
from serl.minds.market_view import SymbolView
from serl.minds.portfolio import Portfolio, money


@dataclass(frozen=True)
class OrderPlan:
    """An order that passed every check."""

    symbol: str
    side: Side
    qty_lots: int
    price_ticks: int
    time_in_force: TimeInForce


def check_order(
    decision: Decision,
    symbol: str | None,
    shown: str,
    views: Mapping[str, SymbolView],
    portfolio: Portfolio,
    open_orders: int,
    config: MindsConfig,
) -> OrderPlan:
    """The order of a decision to buy or sell. symbol, shown: the symbol's name on the exchange and in the prompt. Raises DecisionRefused.

    A market order is sent as an immediate-or-cancel limit order at most `market_slippage` behind the touch, so that its cost has a bound.
    """
    if symbol is None:
        raise DecisionRefused("symbol", f"expected a symbol of the market, got {decision.symbol!r}; choose another")
    if open_orders >= config.open_orders_max:
        raise DecisionRefused(
            "open_orders", f"you have {open_orders} open orders, the most that are allowed; cancel one first"
        )
    if not 1 <= decision.quantity <= config.order_lots_max:
        raise DecisionRefused(
            "quantity", f"expected a quantity from 1 to {config.order_lots_max}, got {decision.quantity}"
        )
    side = Side.BUY if decision.action == "buy" else Side.SELL
    view = views[symbol]
    if decision.quantity % (multiple := view.rules.lot_multiple):
        raise DecisionRefused("quantity", f"expected a multiple of {multiple} lots of {shown}, got {decision.quantity}")
    if decision.order_type == "market":
        bound_ticks = market_limit_ticks(view, side, config.market_slippage)
        if bound_ticks is None:
            raise DecisionRefused("no_quotes", f"nobody offers the other side of {shown}; use a limit order or wait")
        price_ticks, time_in_force = bound_ticks, TimeInForce.IOC
    else:
        price_ticks, time_in_force = _limit_price(decision.price, view, side, shown, config.price_band), TimeInForce.GTC
    plan = OrderPlan(symbol, side, decision.quantity, price_ticks, time_in_force)
    _check_holdings(plan, shown, view, portfolio)
    return plan


def market_limit_ticks(view: SymbolView, side: Side, slippage: float) -> int | None:
    """The worst price of a market order; None if the other side has no quotes."""
    levels = view.asks if side == Side.BUY else view.bids
    if not levels:
        return None
    touch = levels[0].price_ticks
    worst = math.floor(touch * (1 + slippage)) if side == Side.BUY else max(1, math.ceil(touch * (1 - slippage)))
    return view.rules.on_tick(worst, side) or None


def price_bounds_ticks(view: SymbolView, band: float) -> tuple[Decimal, Decimal | None]:
    """The lowest and the highest allowed limit price. The highest is None if nothing is known about the symbol's price."""
    reference, lowest = view.reference_ticks, Decimal(view.rules.on_tick(1, Side.SELL))
    if reference is None:
        return lowest, None
    return max(lowest, reference * Decimal(str(1 - band))), reference * Decimal(str(1 + band))


def _limit_price(price: Decimal, view: SymbolView, side: Side, shown: str, band: float) -> int:
    """The limit price in ticks, rounded away from the market to one that an order can have: never worse than what the mind asked for."""
    exact = price / view.instrument.tick_size
    low, high = price_bounds_ticks(view, band)
    highest = Decimal(CASH_MAX) if high is None else high
    if not low <= exact <= highest:
        tick = view.instrument.tick_size
        has_no_bound = high is None and exact < low
        bounds = f"from {low * tick:.4f} on" if has_no_bound else f"from {low * tick:.4f} to {highest * tick:.4f}"
        raise DecisionRefused("price", f"expected a price of {shown} {bounds}, got {price}; choose another")
    return view.rules.on_tick(math.floor(exact) if side == Side.BUY else math.ceil(exact), side)


def _check_holdings(plan: OrderPlan, shown: str, view: SymbolView, portfolio: Portfolio) -> None:
    if plan.side == Side.BUY:
        cost = money(view.instrument, plan.qty_lots, plan.price_ticks)
        if cost > portfolio.free_cash:
            raise DecisionRefused(
                "cash", f"{plan.qty_lots} {shown} cost up to {cost:.2f}, your free cash is {portfolio.free_cash:.2f}"
            )
    elif plan.qty_lots > portfolio.free_lots[plan.symbol]:
        raise DecisionRefused(
            "shares",
            f"you cannot sell {plan.qty_lots} {shown}, you have {portfolio.free_lots[plan.symbol]} that no order offers",
        )


def check_cancel(decision: Decision, open_orders: Sequence[Order]) -> Order:
    """The order that a decision cancels. Raises DecisionRefused."""
    for order in open_orders:
        if order.order_id == decision.order_id:
            return order
    known = ", ".join(f"{order.order_id}" for order in open_orders) or "none"
    raise DecisionRefused(
        "order_id", f"expected the id of an open order of yours ({known}), got {decision.order_id}; correct it"
    )
