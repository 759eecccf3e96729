"""Shared by all commands that send requests to a running exchange: their options, and symbols by name."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from serl.exchange.cli_login import curve_option, token_options
from serl.exchange.errors import ConfigError, RequestRejected

DEFAULT_ENDPOINT = "tcp://127.0.0.1:5570"


def _send_request(
    endpoint: str, curve: Path | None, token: str, socket: str, kind: str, *arguments: Any
) -> list[Any]:  # fmt: skip
    """Sends one request, a `Kind` given by its name, on a socket of the exchange. Returns the reply. `curve`: a key folder."""
    from serl.exchange.request import request_socket
    from serl.exchange.wire import Kind

    number = Kind[kind]
    with request_socket(endpoint, socket, curve, token) as request:
        return request(number, *((token,) if number >= Kind.ACCOUNT else ()), *arguments)


Request = Callable[..., Any]
"""`request(socket, kind, *arguments)` to the exchange that a command's options name, with their token."""


def exchange_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds --connect, --curve, --token and --token-file to a command, which receives a `request` function instead of them."""

    @click.option("--connect", default=DEFAULT_ENDPOINT, show_default=True, help="Orders endpoint of the exchange.")
    @curve_option
    @token_options("Token of a participant that may do this")
    @functools.wraps(command)
    def with_request(connect: str, curve: Path | None, token: str, **options: Any) -> None:
        command(request=functools.partial(_send_request, connect, curve, token), **options)

    return with_request


def symbol_number(request: Request, symbol: str | None) -> int:
    """The number of the symbol in an operator's command, given by its name, or, if no symbol has that name, by its number, which needs no
    permission to read data. If none is given, that of the only symbol. Raises ConfigError for any other."""
    number = int(symbol) if symbol is not None and symbol.isascii() and symbol.isdigit() else None
    try:
        symbols = request("queries", "INFO")[5][1]
    except RequestRejected as error:
        if error.code != "login":
            raise
        if number is not None:
            return number
        raise RequestRejected(
            "not_permitted",
            "expected an operator's token, got none or another; give that of a participant with the permission operate with --token-file (and "
            "--symbol as a number if it may not read data)",
        ) from None
    numbers = {name: number for number, name, *_ in symbols}
    if symbol is None and len(numbers) == 1:
        return 0
    if symbol not in numbers and number is not None:
        return number
    if symbol not in numbers:
        raise ConfigError(f"--symbol: expected one of {', '.join(numbers)}, got {symbol or 'none'}; give one of them")
    return numbers[symbol]
