"""What can go wrong with a population."""

from serl.exchange.errors import ConfigError, SerlError


class PopulationError(ConfigError):
    """A population that cannot be: an unknown trader, a parameter out of its range, a file that is none."""


class FlowFileError(SerlError, OSError):
    """A file of order flow that cannot be written."""


class SimulationError(SerlError, RuntimeError):
    """A simulation that cannot go on."""
