"""The exchange's sockets: how much libzmq queues for their connections, and the ports that they listen on."""

import zmq

from serl.exchange.config import ExchangeConfig, endpoint_port
from serl.exchange.errors import SerlError
from serl.exchange.keys import Keys
from serl.exchange.libzmq import assign_routing_ids
from serl.exchange.ports import free_port, listening_process
from serl.exchange.zap import DOMAIN

CURVE_HANDSHAKE_BYTES = 1024
"""The largest message of a CURVE handshake: libzmq limits it like every other message."""
UNREAD_MAX = {"feed": 2, "queries": 16, "admin": 16}
"""Messages per connection that libzmq reads ahead; more wait in TCP. Whenever the exchange sends on the feed, libzmq moves so many of each connection
into a queue without a limit, and a flood of subscriptions filled it. With 1, libzmq reads none."""
KINDS = {"orders": zmq.ROUTER, "feed": zmq.XPUB, "queries": zmq.ROUTER, "admin": zmq.ROUTER}


class PortInUse(SerlError, RuntimeError):
    """An endpoint is in use."""


def bind_sockets(
    context: "zmq.Context[zmq.Socket[bytes]]", config: ExchangeConfig, manual_subscriptions: bool, keys: Keys | None
) -> dict[str, "zmq.Socket[bytes]"]:
    """Binds the sockets and returns them by name. manual_subscriptions: the exchange decides who receives what. Raises PortInUse after ending
    the context."""
    sockets = {}
    for name, endpoint in config.endpoints.items():
        socket = context.socket(KINDS[name])
        socket.linger = 200
        _limit(socket, name, config)
        socket.setsockopt(zmq.ZAP_DOMAIN, DOMAIN)
        if name == "orders":
            socket.router_mandatory = True
        if name == "feed":
            socket.setsockopt(zmq.XPUB_VERBOSER, 1)
            socket.setsockopt(zmq.XPUB_MANUAL, int(manual_subscriptions))
        if keys is not None:
            socket.curve_server = True
            socket.curve_secretkey = keys.server_secret.encode()
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            context.destroy(0)
            owner = listening_process(endpoint_port(endpoint))
            reason = (error.strerror or str(error)).partition(" (addr=")[0]
            raise PortInUse(
                f"{endpoint} ({name}) cannot be bound: {reason}{f' by {owner}' if owner else ''}; stop the process that listens there "
                f"or choose another port, for example --endpoint tcp://127.0.0.1:{free_port()}, which is free"
            ) from None
        if KINDS[name] == zmq.ROUTER:
            assign_routing_ids(socket)
        sockets[name] = socket
    return sockets


def _limit(socket: "zmq.Socket[bytes]", name: str, config: ExchangeConfig) -> None:
    """Limits what libzmq queues for one connection. A larger message closes its connection before libzmq stores it."""
    limits = config.limits
    handshake_bytes = CURVE_HANDSHAKE_BYTES if config.login.curve_keys else 0
    socket.maxmsgsize = {
        "orders": 4 * limits.message_bytes_max, "feed": limits.subscription_bytes_max + handshake_bytes,
        "admin": limits.request_bytes_max + limits.news_bytes_max,
    }.get(name, limits.request_bytes_max)  # fmt: skip
    socket.sndhwm = limits.outbound_messages_max
    if name in ("queries", "admin"):
        socket.sndhwm = limits.replies_unread_max
    if name in UNREAD_MAX:
        socket.rcvhwm = UNREAD_MAX[name]
