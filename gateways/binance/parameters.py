"""Parameters of a request: each is read with Binance's error if it is missing or malformed."""

import re
from collections.abc import Mapping, Sequence

from serl.gateways.binance.errors import BinanceError

CLIENT_ID = r"^[\.A-Z\:/a-z0-9_-]{1,36}$"
_CLIENT_ID = re.compile(CLIENT_ID)
_INTEGER = re.compile(r"^[0-9]{1,20}$")
INTEGER_MAX = (1 << 63) - 1


class Parameters:
    """The parameters of one request, by name."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values

    def get(self, name: str) -> str | None:
        """A parameter; None if it was not sent. Raises BinanceError if it is empty."""
        value = self.values.get(name)
        if value == "":
            raise BinanceError(-1105, f"Parameter '{name}' was empty.")
        return value

    def text(self, name: str) -> str:
        """A mandatory parameter."""
        value = self.values.get(name)
        if not value:
            raise BinanceError(-1102, f"Mandatory parameter '{name}' was not sent, was empty/null, or malformed.")
        return value

    def integer(self, name: str, default: int | None = None, most: int = INTEGER_MAX) -> int | None:
        """An integer from 0 to `most`; larger values count as `most`."""
        value = self.get(name)
        if value is None:
            return default
        if not _INTEGER.fullmatch(value):
            raise BinanceError(
                -1100, f"Illegal characters found in parameter '{name}'; legal range is '^[0-9]{{1,20}}$'."
            )
        return min(int(value), most)

    def count(self, name: str, default: int, most: int) -> int:
        """The number of rows to return: 1 to `most`."""
        value = self.integer(name, default)
        if not value:
            raise BinanceError(-1130, f"Data sent for parameter '{name}' is not valid.")
        return min(value, most)

    def choice(self, name: str, values: Sequence[str], code: int, text: str, default: str | None = None) -> str:
        """One of `values`. Raises BinanceError with `code` and `text` for any other."""
        value = self.get(name)
        if value is None:
            if default is None:
                self.text(name)
            return default or ""
        if value not in values:
            raise BinanceError(code, text)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """A parameter that is true or false."""
        text = f"Illegal characters found in parameter '{name}'; legal range is '^(true|false)$'."
        value = self.get(name)
        return (
            default
            if value is None
            else self.choice(name, ("true", "false", "TRUE", "FALSE"), -1100, text).lower() == "true"
        )

    def client_id(self, name: str) -> str | None:
        """An order id chosen by the client."""
        value = self.get(name)
        if value is not None and not _CLIENT_ID.fullmatch(value):
            raise BinanceError(-1100, f"Illegal characters found in parameter '{name}'; legal range is '{CLIENT_ID}'.")
        return value

    def refuse_others(self, allowed: frozenset[str]) -> None:
        """Raises BinanceError if a parameter was sent that the endpoint does not have."""
        if not self.values.keys() <= allowed:
            known = sum(name in allowed for name in self.values)
            raise BinanceError(
                -1104,
                f"Not all sent parameters were read; read '{known}' parameter(s) but was sent '{len(self.values)}'.",
            )
