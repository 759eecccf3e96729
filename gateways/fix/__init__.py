"""A FIX 4.4 acceptor: clients that speak FIX trade on a serl exchange (docs/gateways/fix.md)."""
