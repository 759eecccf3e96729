"""The route of a league's page in the dashboard: the report, which the browser reloads as it grows."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from serl.agents.league.report import NAME
from serl.agents.pages.page import POLICY

REFRESH_S = 5
PAGE_POLICY = f"{POLICY}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The content security policy of the report, whose style is inline, which the dashboard's own policy forbids."""


def routes(folder: Path) -> list[BaseRoute]:
    """The route for a league's folder, which may still be empty."""
    path = folder / NAME

    def page(request: Request) -> Response:
        headers = {"refresh": str(REFRESH_S), "cache-control": "no-cache", "content-security-policy": PAGE_POLICY}
        if not path.exists():
            return PlainTextResponse(f"No match has been played in {folder} yet.", headers=headers)
        return FileResponse(str(path), headers=headers)

    return [Route("/league", page)]
