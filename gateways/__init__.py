"""Gateways for protocols that bots already speak: each is a process of its own that is a client of the exchange."""

if __name__ == "gateways":
    raise ImportError("import serl.gateways, not gateways: install the project first (make test does it)")
