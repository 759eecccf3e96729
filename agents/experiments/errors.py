"""Errors of experiments."""

from serl.exchange.errors import ConfigError


class ExperimentError(ConfigError):
    """Raised for an invalid experiment: an arm that is no population, an unknown measure."""
