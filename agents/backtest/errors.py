"""Errors of backtests and of the strategies in them."""

from serl.exchange.errors import SerlError


class BacktestError(SerlError, ValueError):
    """A backtest that cannot be run as it was asked for."""


class StrategyError(SerlError, RuntimeError):
    """A strategy's file that cannot be used, or an exception in its code; the text names file and line."""
