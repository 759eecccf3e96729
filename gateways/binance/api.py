"""Endpoints, defined alike for REST and the WebSocket API."""

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from serl.gateways.binance.account import Account
from serl.gateways.binance.errors import BinanceError
from serl.gateways.binance.limits import Limits
from serl.gateways.binance.market import Market
from serl.gateways.binance.parameters import Parameters
from serl.gateways.binance.signing import check_signature, check_time


class Security(Enum):
    """The credentials that a request needs."""

    NONE = 0
    KEY = 1  # an API key
    SIGNED = 2  # an API key and a signature


class Gateway(NamedTuple):
    """The state that endpoints work on. accounts: by API key."""

    market: Market
    accounts: Mapping[str, Account]
    limits: Limits

    def find_account(self, key: str | None) -> Account:
        """The account of an API key. Raises BinanceError."""
        if not key:
            raise BinanceError(-2014, "API-key format invalid.", 401)
        account = self.accounts.get(key)
        if account is None:
            raise BinanceError(-2015, "Invalid API-key, IP, or permissions for action.", 401)
        return account


class Call(NamedTuple):
    """One request.

    Attributes:
        key: the API key that was sent; None for none.
    """

    gateway: Gateway
    parameters: Parameters
    key: str | None

    @property
    def account(self) -> Account:
        """The account of a request with an API key."""
        assert self.key is not None
        return self.gateway.accounts[self.key]


Run = Callable[[Call], Awaitable[Any]]
Weight = int | Callable[[Parameters], int]


class Endpoint(NamedTuple):
    """One endpoint.

    Attributes:
        run: answers a request with a JSON value. Raises BinanceError.
        weight: the request weight, or a function of the parameters that returns it.
        allowed: names of the parameters.
    """

    run: Run
    weight: Weight = 1
    security: Security = Security.NONE
    allowed: frozenset[str] = frozenset()

    def cost(self, parameters: Parameters) -> int:
        """The weight of a request."""
        return self.weight if isinstance(self.weight, int) else self.weight(parameters)

    def check(
        self, gateway: Gateway, parameters: Parameters, key: str | None, payload: Callable[[], bytes], *, logged_on: bool = False
    ) -> None:  # fmt: skip
        """Raises BinanceError unless the request may be run.

        payload: returns the bytes that a signature covers.
        logged_on: the key is that of the connection, so a request needs only its time.
        """
        if self.security is not Security.NONE:
            account = gateway.find_account(key)
            if self.security is Security.SIGNED:
                if logged_on:
                    check_time(parameters)
                else:
                    check_signature(account.api_key, parameters, payload())
        parameters.refuse_others(self.allowed)


def names(text: str, *, signed: bool = False) -> frozenset[str]:
    """The set of parameter names in a text, with `signed` also those of a signature."""
    return frozenset(text.split()) | (
        frozenset(("timestamp", "recvWindow", "signature", "apiKey")) if signed else frozenset()
    )


def signed(run: Run, weight: Weight, parameters: str = "") -> Endpoint:
    """An endpoint for a signed request."""
    return Endpoint(run, weight, Security.SIGNED, names(parameters, signed=True))


def public(run: Run, weight: Weight, parameters: str = "") -> Endpoint:
    """An endpoint for everybody. Clients may send their API key as a parameter of the WebSocket API, which is ignored."""
    return Endpoint(run, weight, Security.NONE, names(parameters))


def not_found() -> BinanceError:
    """The error for a path or a method that does not exist."""
    return BinanceError(-1000, "Path not found; see docs/gateways/binance.md for the endpoints of this gateway.", 404)
