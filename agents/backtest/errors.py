"""Errors of backtests and their strategies."""

from serl.exchange.errors import SerlError


class BacktestError(SerlError, ValueError):
    """A backtest cannot be run as requested."""


class StrategyError(SerlError, RuntimeError):
    """A strategy file cannot be used, or its code raised an exception; the message names file and line."""
