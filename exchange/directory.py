"""A directory: which exchange trades which symbols, if several exchanges share a market's symbols."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serl.exchange.config import socket_endpoints
from serl.exchange.errors import ConfigError
from serl.exchange.yaml_text import read_settings

EXAMPLE = "exchanges: [{endpoint: tcp://127.0.0.1:5570, symbols: [AMZN, GOOG]}, {endpoint: tcp://127.0.0.1:5580, symbols: [MSFT]}]"


@dataclass(frozen=True)
class Directory:
    """The exchanges of a market.

    Attributes:
        path: the file.
        symbols: by endpoint, the symbols of each exchange with their tick sizes; each symbol appears only once.
    """

    path: Path
    symbols: dict[str, dict[str, str]]

    def endpoint(self, symbol: str) -> str:
        """The endpoint at which a symbol is traded. Raises ConfigError if it is not in the directory."""
        for endpoint, symbols in self.symbols.items():
            if symbol in symbols:
                return endpoint
        raise ConfigError(f"{self.path}: expected a symbol of the directory, got {symbol!r}; add it to an exchange")

    def symbols_at(self, endpoint: str) -> dict[str, str]:
        """The symbols of an exchange, with their tick sizes. Raises ConfigError if it is not in the directory."""
        if endpoint not in self.symbols:
            raise ConfigError(
                f"{self.path}: expected an endpoint of the directory, got {endpoint!r}; it has {', '.join(self.symbols)}"
            )
        return self.symbols[endpoint]


def read_directory(path: Path) -> Directory:
    """Reads a directory. Raises a ConfigError that names what is wrong."""
    values = read_settings(path, EXAMPLE)
    found: dict[str, dict[str, str]] = {}
    places: dict[str, str] = {}
    sockets: dict[str, str] = {}
    entries = values.get("exchanges")
    if values.keys() != {"exchanges"} or not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path}: expected {EXAMPLE}, got {str(values)[:80]}")
    for number, entry in enumerate(entries):
        endpoint, symbols = _exchange(f"{path}: exchanges.{number}", entry)
        for symbol in symbols:
            if symbol in places:
                raise ConfigError(
                    f"{path}: expected each symbol once, got {symbol!r} at {places[symbol]} and {endpoint}"
                )
            places[symbol] = endpoint
        for socket in socket_endpoints(endpoint).values():
            if socket in sockets:
                raise ConfigError(
                    f"{path}: expected four ports for each exchange, got {sockets[socket]} and {endpoint}, which share {socket}; leave four between them"
                )
            sockets[socket] = endpoint
        found[endpoint] = symbols
    return Directory(path, found)


def _exchange(where: str, entry: Any) -> tuple[str, dict[str, str]]:
    if not isinstance(entry, dict) or entry.keys() != {"endpoint", "symbols"}:
        raise ConfigError(f"{where}: expected endpoint and symbols, got {str(entry)[:80]}")
    endpoint, symbols = entry["endpoint"], entry["symbols"]
    try:
        socket_endpoints(str(endpoint))
    except ConfigError as error:
        raise ConfigError(f"{where}.endpoint: {str(error)[:200]}") from None
    if not isinstance(symbols, list) or not symbols or not all(isinstance(name, str) and name for name in symbols):
        raise ConfigError(f"{where}.symbols: expected a list of names, like AMZN or BTC=0.5, got {str(symbols)[:80]}")
    found = dict(ticks_of(symbols))
    if len(found) < len(symbols):
        raise ConfigError(f"{where}.symbols: expected each symbol once, got {', '.join(symbols)[:80]}")
    return str(endpoint), found


def ticks_of(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Parses texts like AMZN (tick size 0.01) or BTC=0.5 as (symbol, tick size). Raises ConfigError if a name or a tick size is missing."""
    found = []
    for text in texts:
        name, equals, tick = text.strip().partition("=")
        if not name or (equals and not tick):
            raise ConfigError(f"symbols: expected NAME or NAME=TICK, like AMZN or BTC=0.5, got {text!r}")
        found.append((name, tick or "0.01"))
    return found
