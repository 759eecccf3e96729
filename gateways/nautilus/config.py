"""Settings of the live clients."""

from nautilus_trader.config import LiveDataClientConfig, LiveExecClientConfig


class SerlDataClientConfig(LiveDataClientConfig, frozen=True):
    """Market data of an exchange. Clients with the same endpoint and participant share a connection.

    Attributes:
        endpoint: orders endpoint of the exchange.
        participant: the participant that logs in.
        token: its login token, if the exchange has participants.
        curve: key folder of `serl keys new`, if the exchange has keys.
        currency: the currency of prices if a symbol's name is not a pair.
    """

    endpoint: str = "tcp://127.0.0.1:5570"
    participant: str = "nautilus"
    token: str = ""
    curve: str | None = None
    currency: str = "USD"


class SerlExecClientConfig(LiveExecClientConfig, frozen=True):
    """Orders of a participant; the first five as in `SerlDataClientConfig`.

    Attributes:
        starting_balances: money of the account before its first trade, like "1000000 USD"; deposits on the exchange are not counted.
        is_replayed: whether to request all reports of earlier sessions at the start, to reconcile open orders and fills from them.
        cancel_on_disconnect: the exchange cancels the orders when the connection ends.
    """

    endpoint: str = "tcp://127.0.0.1:5570"
    participant: str = "nautilus"
    token: str = ""
    curve: str | None = None
    currency: str = "USD"
    starting_balances: tuple[str, ...] = ("1000000 USD",)
    is_replayed: bool = True
    cancel_on_disconnect: bool = False
