"""Fees of fills in a population's market."""

import numpy as np
from numpy.typing import NDArray

from serl.exchange.account_config import FeesConfig
from serl.exchange.records import EventFlag, Rows


def fill_fees(fills: Rows, config: FeesConfig) -> NDArray[np.int64]:
    """(n,) fees that the owners of FILL rows pay, microticks x lots; below 0: rebates. See docs/orders.md, Fees."""
    fees, flags = dict(config), fills["flags"]
    role = [flags & EventFlag.AUCTION > 0, flags & EventFlag.MAKER > 0]
    per_lot = np.select(role, [fees["auction_microticks"], fees["maker_microticks"]], fees["taker_microticks"])
    ppm = np.select(role, [fees["auction_ppm"], fees["maker_ppm"]], fees["taker_ppm"])
    cost: NDArray[np.int64] = fills["qty_lots"] * (per_lot + fills["price_ticks"] * ppm)
    return cost
