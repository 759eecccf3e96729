"""Routes of the page of LLM traders: the page, the overview of a run, one mind."""

from importlib.resources import files
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from serl.minds.browse.live_run import LiveRun

STATIC = files("serl.minds.browse") / "static"


def routes(folder: Path) -> list[BaseRoute]:
    """The routes for a run's folder."""
    run = LiveRun(folder)

    def page(request: Request) -> Response:
        return FileResponse(str(STATIC / "minds.html"))

    def overview(request: Request) -> Response:
        tag = f'"{run.tag()}"'  # before the data, so that anything written in between is requested again
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304)
        return JSONResponse(run.overview(), headers={"etag": tag})

    def mind(request: Request) -> Response:
        found = run.mind(request.query_params.get("name", ""))
        return JSONResponse({"problem": "no such mind"}, 404) if found is None else JSONResponse(found)

    return [
        Route("/minds", page),
        Route("/minds/overview", overview),
        Route("/minds/mind", mind),
        Mount("/minds/static", StaticFiles(directory=str(STATIC))),
    ]
