"""Routes of the researcher's page: the page, the overview of a run, one candidate."""

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from serl.researcher.browse import runs
from serl.researcher.outer.errors import RunError

STATIC = files("serl.researcher.browse") / "static"


def routes(folder: Path) -> list[BaseRoute]:
    """The routes for a run's folder."""

    def page(request: Request) -> Response:
        return FileResponse(str(STATIC / "researcher.html"))

    def overview(request: Request) -> Response:
        tag = f'"{runs.state(folder)}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"etag": tag})
        return _answer(lambda: runs.overview(folder), tag)

    def candidate(request: Request) -> Response:
        return _answer(lambda: runs.candidate(folder, request.path_params["iteration"], request.path_params["slot"]))

    return [
        Route("/researcher", page),
        Route("/researcher/overview", overview),
        Route("/researcher/candidate/{iteration:int}/{slot:int}", candidate),
        Mount("/researcher/static", StaticFiles(directory=str(STATIC))),
    ]


def _answer(read: Callable[[], dict[str, Any]], tag: str | None = None) -> Response:
    try:
        return JSONResponse(read(), headers={"etag": tag} if tag else None)
    except RunError as error:
        return JSONResponse({"problem": str(error)}, 404)
