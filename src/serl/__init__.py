"""serl: simulate markets and teach agents to trade in them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from serl.agents.backtest.strategy import Strategy as Strategy
    from serl.exchange.market import Market as Market

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load Market and Strategy on first use: numba takes longer to load than most uses of `serl` need."""
    if name == "Market":
        from serl.exchange.market import Market

        return Market
    if name == "Strategy":
        from serl.agents.backtest.strategy import Strategy

        return Strategy
    raise AttributeError(f"module 'serl' has no attribute {name!r}")
