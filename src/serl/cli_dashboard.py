"""`serl dashboard`: the market, the researcher, LLM traders and a league in a browser."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from serl.clients.dashboard import PORT
from serl.exchange.cli_login import curve_option, token_options

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

FOLDER = click.Path(file_okay=False, path_type=Path)
"""A folder that may not exist yet."""


@click.command(epilog="Example: serl dashboard --connect tcp://127.0.0.1:5570 --researcher runs/researcher --port 8700")
@click.option("--connect", default="tcp://127.0.0.1:5570", show_default=True, help="Orders endpoint of the exchange.")
@token_options("Token of the account, or of an operator")
@click.option(
    "--account", help="Participant whose positions, orders and trades to show; no other session may use this name."
)
@curve_option
@click.option(
    "--execution", "executions", multiple=True, type=click.Path(dir_okay=False, path_type=Path),
    help="File of `serl execute --progress`; may be repeated.",
)  # fmt: skip
@click.option("--flow", type=FOLDER, help="Folder of `serl agents start --flow`.")
@click.option("--researcher", "run", type=FOLDER, help="Folder of a run of the researcher; adds its page.")
@click.option(
    "--minds", type=FOLDER, help="Folder of a run of LLM traders (`serl minds start --output`); adds their page."
)
@click.option("--league", type=FOLDER, help="Folder of a league (`serl league --output`); adds its page.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65_535), help="0: any free port.")
def dashboard(
    connect: str, token: str, account: str | None, curve: Path | None, executions: tuple[Path, ...], flow: Path | None, run: Path | None,
    minds: Path | None, league: Path | None, host: str, port: int,
) -> None:  # fmt: skip
    """Serve a web page of a running exchange until Ctrl-C. Waits for the exchange if it is not running yet."""
    from serl.clients.dashboard.account import Account
    from serl.clients.dashboard.board import Board
    from serl.clients.dashboard.link import Link
    from serl.clients.dashboard.server import serve
    from serl.exchange.login import is_name

    if account is not None and not is_name(account):
        raise click.BadParameter(
            f"expected a name of 1 to 64 printable bytes, got {account[:80]!r}", param_hint="--account"
        )
    board = Board()
    board.put("pages", {"researcher": run is not None, "minds": minds is not None, "league": league is not None})
    holder = Account(connect, account or "dashboard", token, curve, active=account is not None)
    link = Link(connect, board, holder, token=token, curve=curve, executions=executions, flow=flow)

    def print_addresses(address: str, operators: str) -> None:
        click.echo(f"dashboard {address}")
        click.echo(f"operator  {operators}")

    serve(board, link, host, port, _pages(run, minds, league), print_addresses)


def _pages(run: Path | None, minds: Path | None, league: Path | None) -> "list[BaseRoute]":
    """The routes of all pages other than the market's."""
    routes = []
    if run is not None:
        from serl.researcher.browse.routes import routes as researcher_routes

        routes += researcher_routes(run)
    if minds is not None:
        from serl.minds.browse.routes import routes as minds_routes

        routes += minds_routes(minds)
    if league is not None:
        from serl.agents.league.browse import routes as league_routes

        routes += league_routes(league)
    return routes
