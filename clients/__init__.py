"""Sessions to an exchange: asyncio and blocking clients, book builders, the replayer."""

if __name__ == "clients":
    raise ImportError("import serl.clients, not clients: install the project first (make test does it)")
