"""Errors of experiments."""

from serl.exchange.errors import ConfigError


class ExperimentError(ConfigError):
    """Raised for an invalid experiment, such as an arm that is not a valid population or an unknown measure."""
