"""A market maker in thirty lines: quotes one tick inside the best prices of other participants, and requotes when they move.

serl exchange start --symbols DEMO          # in one terminal
python examples/bot.py                      # in another
"""

import sys

from serl.clients.blocking import connect

SIZE_LOTS, POSITION_MAX_LOTS, FIRST_PRICE_TICKS = 10, 100, 10_000


def main(endpoint: str = "tcp://127.0.0.1:5570", symbol: str = "DEMO", rounds: int = 1_000_000) -> None:
    with connect(endpoint, "maker", cancel_on_disconnect=True, replace=True) as exchange:
        exchange.follow(symbol)
        quotes: dict[str, int] = {}
        quoted_position = 0
        for _ in range(rounds):
            bids, asks = exchange.book(symbol)
            others_bid = next((price for price, _, _ in bids if price != quotes.get("buy")), FIRST_PRICE_TICKS - 5)
            others_ask = next((price for price, _, _ in asks if price != quotes.get("sell")), others_bid + 10)
            position = exchange.position(symbol)
            targets = {"buy": others_bid + 1, "sell": max(others_ask - 1, others_bid + 2)}
            if targets != quotes or position != quoted_position:
                exchange.mass_cancel(symbol)
                if position < POSITION_MAX_LOTS:
                    exchange.buy(symbol, SIZE_LOTS, targets["buy"])
                if position > -POSITION_MAX_LOTS:
                    exchange.sell(symbol, SIZE_LOTS, targets["sell"])
                print(f"position {position:+} lots, quoting {targets['buy']} / {targets['sell']}", flush=True)
                quotes, quoted_position = targets, position
            exchange.wait(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:3])
