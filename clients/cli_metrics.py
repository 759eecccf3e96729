"""`serl metrics`: metrics of an exchange for Prometheus."""

from pathlib import Path

import click

from serl.exchange.cli_login import curve_option, token_options
from serl.exchange.errors import ConfigError


@click.command(epilog="Example: serl metrics --connect tcp://127.0.0.1:5570 --listen 127.0.0.1:9464")
@click.option("--connect", default="tcp://127.0.0.1:5570", show_default=True, help="Orders endpoint of the exchange.")
@click.option("--listen", default="127.0.0.1:9464", show_default=True, help="HOST:PORT to serve HTTP on.")
@curve_option
@token_options("Token of a participant that may read data")
def metrics(connect: str, listen: str, curve: Path | None, token: str) -> None:
    """Serve /metrics for Prometheus, /health and /ready of a running exchange, until Ctrl-C. Whoever reaches the port can read them."""
    from serl.clients.metrics import metrics_server
    from serl.clients.query_connection import QueryConnection
    from serl.exchange.request import request_socket
    from serl.garbage import collect_while_serving

    host, separator, port = listen.rpartition(":")
    if not separator or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"--listen: expected HOST:PORT, got {listen!r}; for example 127.0.0.1:9464")
    with request_socket(connect, "queries", curve, token):
        pass  # only checks the endpoint and the keys: the exchange may start later
    try:
        server = metrics_server(QueryConnection(connect, curve, token).ask, host, int(port))
    except OSError as error:
        raise ConfigError(f"--listen {listen}: {error.strerror or error}; choose another address or port") from None
    with server:
        click.echo(f"metrics of {connect} on http://{host}:{server.server_address[1]}/metrics")
        collect_while_serving()
        server.serve_forever()
