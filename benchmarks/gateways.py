"""Gateways: orders a second through each, and the latency that it adds to the native client on the same exchange.

`benchmarks/gateway_*.py` explain each figure. Load generator, gateway and exchange share the machine.
"""

from benchmarks import gateway_binance, gateway_fix, gateway_ouch


def run() -> dict[str, float]:
    """All figures."""
    return {**gateway_binance.run(), **gateway_fix.run(), **gateway_ouch.run()}
