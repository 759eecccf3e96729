"""Gateways: orders a second through each, and the latency that it adds to the native client on the same exchange.

Each figure is explained in `benchmarks/gateway_*.py`. Load generator, gateway and exchange share the machine.
"""

from benchmarks import gateway_binance, gateway_fix, gateway_ouch


def run() -> dict[str, float]:
    """All figures."""
    return {**gateway_binance.run(), **gateway_fix.run(), **gateway_ouch.run()}
