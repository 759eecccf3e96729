"""What can be wrong in the researcher; each text says what was expected, what came and what to do."""

from importlib.util import find_spec

from serl.exchange.errors import SerlError


class ResearcherError(SerlError, RuntimeError):
    """Research that cannot go on."""


class MissingResearcherError(ResearcherError):
    """What the researcher needs is not installed."""


def require_researcher(*names: str) -> None:
    """MissingResearcherError unless these modules of the extra `researcher` are installed."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise MissingResearcherError(
            f"{', '.join(missing)}: not installed; install it with: pip install 'serl[researcher]'"
        )
