"""`serl docs`: the documentation in a browser."""

import click

PORT = 8720


@click.command(epilog="Example: serl docs --port 0 --no-browser")
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65_535), help="Port; 0: any free one.")
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open it in a browser.")
def docs(port: int, browser: bool) -> None:
    """Serve the documentation on this machine, with search, until Ctrl-C. If a page has changed, it is rebuilt first."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount
    from starlette.staticfiles import StaticFiles

    from serl.clients.dashboard.server import bind, serve_until_stopped
    from serl.docs_site import built_site, require_checkout
    from serl.extras import require

    require_checkout()
    for package in ("mkdocs", "mkdocstrings"):
        require("`serl docs`", package, extra="docs")
    with bind("127.0.0.1", port) as listening:
        click.echo("building the documentation, if it has changed ...", err=True)
        pages = StaticFiles(directory=built_site(), html=True)
        config = uvicorn.Config(Starlette(routes=[Mount("/", pages)]), log_level="warning", lifespan="off")
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        click.echo(f"documentation {address}")
        if browser:
            click.launch(address)
        serve_until_stopped(config, listening)
