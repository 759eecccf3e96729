"""Turns on a lockstep clock: a promise, and the wait for the grant."""

import time
from collections import deque

import msgpack

from serl.clients.core import ClientCore, Steps
from serl.clients.errors import SessionEnded
from serl.clients.inbox import InboxItem
from serl.clients.session import Grant
from serl.exchange.wire import Kind


def take_turn(core: ClientCore, time_ns: int) -> Steps[Grant]:
    """Promises that nothing from us arrives before time_ns; returns at our turn, with the feed complete.

    The turn of another participant may take any time; the exchange sends heartbeats meanwhile. Raises `ExchangeUnreachable` if they stop, and
    `SessionEnded` if the exchange was restarted meanwhile, which ends the promise, or has ended the session.
    """
    core.relogin.raise_if_over()
    core.send(msgpack.packb([Kind.PROMISE, time_ns]))
    promised_s, logins = time.monotonic(), core.logins
    while True:
        core.receive()
        grant = core.grant
        if grant is not None and grant.time_ns >= time_ns and core.is_feed_complete(grant):
            break
        if core.logins != logins:
            raise SessionEnded(
                "restarted", f"{core.endpoint} was restarted during a turn; start all participants of the run again"
            )
        core.raise_if_dead(promised_s)
        yield core.idle_wait_s
    core.grant = None
    _remove(core.inbox, grant)
    return grant


def _remove(inbox: "deque[InboxItem]", grant: Grant) -> None:
    """Removes the grant. Searches newest first, because it is at the end of the inbox or close to it."""
    for place in range(len(inbox) - 1, -1, -1):
        if inbox[place] is grant:
            del inbox[place]
            return
