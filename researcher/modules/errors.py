"""Errors of modules. Their texts go back to the language model that wrote the module."""

from serl.exchange.errors import SerlError


class ModuleError(SerlError, ValueError):
    """A module breaks its contract."""


class NotFiniteError(ModuleError):
    """A module returned NaN or infinity."""


class SpecError(ModuleError):
    """A specification does not match its schema."""
