"""Profiles: a quiet market of value traders around two makers."""

from typing import Any

import numpy as np

from serl.researcher.modules.contracts import MarketStatistics


def profiles(statistics: MarketStatistics, rng: np.random.Generator) -> dict[str, Any]:
    """A population."""
    lots = max(1, round(statistics.trade_lots))
    believers = {"interval_s": 30.0, "mean_ticks": statistics.mid_ticks, "noise_variance_ticks2": 25.0}
    makers = {"order_lots": 2 * lots, "volatility_ticks_per_root_s": max(0.01, statistics.volatility_ticks_per_root_s)}
    return {
        "name": "quiet",
        "value": {
            "mean_ticks": statistics.mid_ticks,
            "volatility_ticks_per_root_s": statistics.volatility_ticks_per_root_s,
        },
        "groups": [
            {"trader": "zero_intelligence", "start_spread_s": 0.001, "profile": {"limit_lots": float(lots)}},
            {"trader": "avellaneda_stoikov", "count": 2, "profile": makers},
            {
                "trader": "value",
                "count": int(rng.integers(20, 60)),
                "start_spread_s": 30.0,
                "profile": believers,
            },
        ],
    }
