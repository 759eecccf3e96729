"""What can be wrong with a calibration."""

from serl.exchange.errors import SerlError


class CalibrationError(SerlError, ValueError):
    """A day or settings to which no population can be fitted; the text says why and what to do."""
