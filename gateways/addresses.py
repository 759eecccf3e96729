"""Parses the addresses at which gateways listen."""

from serl.exchange.errors import ConfigError


def read_address(option: str, text: str, example: str) -> tuple[str, int]:
    """Parses HOST:PORT as (host, port); an IPv6 host may be in brackets. Raises ConfigError."""
    host, separator, port = text.rpartition(":")
    if not separator or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ConfigError(f"{option}: expected HOST:PORT, got {text!r}; for example {example}")
    return host.removeprefix("[").removesuffix("]"), int(port)
