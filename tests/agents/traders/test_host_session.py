"""What a host does with commands that a restarted exchange has not received."""

from typing import Any

import msgpack
import numpy as np
import pytest

from serl.agents.traders.host_session import HostSession
from serl.exchange.records import COMMAND, EVENT, EventKind
from serl.exchange.wire import Kind
from tests.clients.stand_in import StandIn, logged_in, pause, receive_until, stand_in


def ids_of(message: list[Any]) -> list[int]:
    """The command ids of a bulk message."""
    assert message[0] == Kind.BULK
    return np.frombuffer(message[1], COMMAND)["command_id"].tolist()


def report(exchange: StandIn, number: int, command_id: int) -> None:
    """The report of an order that rests."""
    rows = np.zeros(1, EVENT)
    rows["kind"], rows["command_id"], rows["order_id"] = EventKind.ACCEPTED, command_id, command_id
    exchange.sockets["orders"].send_multipart(
        [exchange.route, msgpack.packb([Kind.REPORT_ROWS, number, rows.tobytes()])]
    )


@pytest.mark.parametrize(
    ("last_command_id", "sent_again"), [(2, [[3, 4], [5], [6]]), (3, [[3, 4], [5], [6]]), (4, [[5], [6]])]
)
def test_what_a_restarted_exchange_has_not_received_is_sent_again(
    last_command_id: int, sent_again: list[list[int]]
) -> None:
    """It was lost: a trader whose cancel was lost never cancelled that order, and one whose order was lost waited for it."""
    session = HostSession("traders", rows=True)
    with stand_in() as exchange, logged_in(exchange, session) as core:

        def send(*command_ids: int) -> None:
            rows = np.zeros(len(command_ids), COMMAND)
            rows["command_id"] = command_ids
            core.send_command(session.rows(rows))

        for ids in ((1, 2), (3, 4), (5,)):
            send(*ids)
            assert ids_of(exchange.arrived()) == list(ids)
        report(exchange, 1, 2)
        receive_until(core, lambda: core.inbox)
        exchange.send(Kind.ERROR, "not_logged_in", "log in first")
        receive_until(core, lambda: not session.live)
        send(6)
        assert exchange.arrived()[0] == Kind.HELLO and exchange.arrived(timeout_ms=100) == []
        exchange.welcome(2, last_command_id)
        receive_until(core, lambda: session.live)
        assert [ids_of(exchange.arrived()) for _ in sent_again] == sent_again
        for number, command_id in enumerate((3, 4, 5, 6), 2):
            report(exchange, number, command_id)
        receive_until(core, lambda: session.last_report == 5)
        assert not session.unanswered and not session.replayed
        pause(core)
        assert exchange.arrived(timeout_ms=100) == []
