"""Clients of an exchange: asyncio and blocking client, books from the feed, replay, recorders, the dashboard."""

if __name__ == "clients":
    raise ImportError("import serl.clients, not clients: install the project first (make test does it)")
