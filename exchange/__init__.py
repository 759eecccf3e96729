"""The exchange: records, order book, journal, gateway, feed, server."""

if __name__ == "exchange":
    raise ImportError("import serl.exchange, not exchange: install the project first (make test does it)")
