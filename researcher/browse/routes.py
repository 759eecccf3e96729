"""Routes of the researcher's page."""

from pathlib import Path

from starlette.routing import BaseRoute


def routes(folder: Path) -> list[BaseRoute]:
    """Of a run's folder."""
    return []
