"""A market maker in one file that can be backtested and can trade on a server.

serl backtest examples/strategy.py --population liquid --window 09:30-10:30 --seeds 20
serl run examples/strategy.py               # on a running exchange
"""

import serl

SIZE_LOTS, POSITION_MAX_LOTS = 10, 100


class Maker(serl.Strategy):
    """Joins the best bid and ask, follows them when they move, and quotes one side only at its largest position."""

    interval_s = 0.1

    def on_start(self, market):
        self.symbol = market.symbols[0]
        self.quotes = {"buy": None, "sell": None}

    def on_wake(self, market):
        bid, ask = market.best(self.symbol)
        if bid is None or ask is None:
            return
        position = market.position(self.symbol)
        self.quote(market, "buy", bid, position < POSITION_MAX_LOTS)
        self.quote(market, "sell", ask, position > -POSITION_MAX_LOTS)

    def quote(self, market, side, price_ticks, wanted):
        """Keep one order on this side at this price, or none if `wanted` is false."""
        order = self.quotes[side]
        if order is not None and order.state in ("sent", "open"):
            if wanted and order.price_ticks == price_ticks:
                return
            market.cancel(order)
        send = market.buy if side == "buy" else market.sell
        self.quotes[side] = send(self.symbol, SIZE_LOTS, price_ticks, post_only=True) if wanted else None
