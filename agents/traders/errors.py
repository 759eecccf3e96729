"""Errors of populations and simulations."""

from serl.exchange.errors import ConfigError, SerlError


class PopulationError(ConfigError):
    """Raised for an invalid population: an unknown trader, a parameter out of range, an unreadable file."""


class FlowFileError(SerlError, OSError):
    """Raised when a file of order flow cannot be written."""


class SimulationError(SerlError, RuntimeError):
    """Raised when a simulation cannot continue."""
