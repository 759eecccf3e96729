"""A market maker in thirty lines: quotes one tick inside the touch on both sides, and moves when the market does.

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
        quoted_at = 0
        for _ in range(rounds):
            bids, asks = exchange.book(symbol)
            others_bid = next((price for price, _, _ in bids if price != quotes.get("buy")), FIRST_PRICE_TICKS - 5)
            others_ask = next((price for price, _, _ in asks if price != quotes.get("sell")), others_bid + 10)
            position = exchange.position(symbol)
            wanted = {"buy": others_bid + 1, "sell": max(others_ask - 1, others_bid + 2)}
            if wanted != quotes or position != quoted_at:
                exchange.mass_cancel(symbol)
                if position < POSITION_MAX_LOTS:
                    exchange.buy(symbol, SIZE_LOTS, wanted["buy"])
                if position > -POSITION_MAX_LOTS:
                    exchange.sell(symbol, SIZE_LOTS, wanted["sell"])
                print(f"position {position:+} lots, quoting {wanted['buy']} / {wanted['sell']}", flush=True)
                quotes, quoted_at = wanted, position
            exchange.wait(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:3])
