"""What can be wrong with a module; each text could be given back to whoever wrote it."""

from serl.exchange.errors import SerlError


class ModuleError(SerlError, ValueError):
    """A module that does not keep its contract."""


class NotFiniteError(ModuleError):
    """A module gave NaN or an infinity."""


class SpecError(ModuleError):
    """A specification that is not one of its schema."""
