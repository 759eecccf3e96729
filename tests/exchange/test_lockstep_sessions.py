"""The lockstep clock: what a session sent for later is neither overtaken by the participant's next session nor gets its rights."""

from pathlib import Path
from typing import Any

import numpy as np

from serl.exchange.records import COMMAND, CommandKind, Rows
from serl.exchange.wire import Kind
from tests.exchange.test_lockstep import (
    BYE,
    ERROR,
    GRANT,
    PING,
    PONG,
    PROMISE,
    REPORTS,
    bids,
    buy,
    lockstep,
    start_turns,
)
from tests.server_fixture import RawClient, Served


def operator_login(client: RawClient, name: str, token: str, **options: bool) -> list[Any]:
    client.send(64, 1, 1, name, token, -1, options)
    return client.receive(96, 97)


def recorded(participant: int, time_ns: int) -> Rows:
    """An order of a recorded day."""
    rows = np.zeros(1, COMMAND)
    rows["kind"], rows["participant"], rows["command_id"], rows["time_ns"] = CommandKind.NEW, participant, 1, time_ns
    rows["qty_lots"], rows["price_ticks"], rows["time_in_force"] = 1, 50 + participant, 1
    return rows


def is_halted(served: Served) -> bool:
    with RawClient(served.endpoint, "queries") as query:
        query.send(Kind.STATUS, 1, 0)
        return bool(query.receive()[5][0])


def waiting(served: Served) -> int:
    with RawClient(served.endpoint, "queries") as query:
        query.send(Kind.STATISTICS, 1)
        return int(query.receive()[5]["commands_waiting"])


def halt_later(client: RawClient) -> None:
    """A HALT for the time 500, of somebody who may not."""
    client.send(int(CommandKind.HALT), 1, 0, 500)
    client.send(PING, 1)
    client.receive(PONG)


def log_in_again_after_an_order(client: RawClient, other: RawClient, time_ns: int) -> None:
    """The order of the first session, for a time ahead, waits."""
    start_turns(client, other)
    buy(client, 1, time_ns, 51)
    client.send(BYE)
    client.receive(100)
    client.login("ann")


def test_commands_that_wait_do_not_become_those_of_a_recorded_participant(tmp_path: Path) -> None:
    """A client takes the name under which an operator will replay a recorded participant, who may do everything."""
    with lockstep(tmp_path, "rec/1", "bob") as (served, (taken, bob)), RawClient(served.endpoint) as operator:
        start_turns(bob)
        halt_later(taken)
        taken.send(BYE)
        taken.receive(100)
        assert operator_login(operator, "rec", served.operator)[0] == 96
        operator.send(Kind.ON_BEHALF, recorded(1, 5000).tobytes())
        assert operator.receive(ERROR)[1] == "duplicate_login"
        bob.send(PROMISE, 1000)
        bob.receive(GRANT)
        assert not is_halted(served)


def test_commands_that_wait_do_not_become_an_operators(tmp_path: Path) -> None:
    with lockstep(tmp_path, "ann", "bob") as (served, (ann, bob)), RawClient(served.endpoint) as operator:
        start_turns(bob)
        halt_later(ann)
        assert operator_login(operator, "ann", served.operator, replace=True)[:2] == [ERROR, "duplicate_login"]
        bob.send(PROMISE, 1000)
        bob.receive(GRANT)
        assert not is_halted(served)
        assert operator_login(operator, "ann", served.operator)[0] == 96


def test_a_command_that_waits_is_not_overtaken_after_a_new_login(tmp_path: Path) -> None:
    """The later command was executed first, and the earlier one, with a lower id, was stale."""
    with lockstep(tmp_path, "ann", "bob") as (served, (ann, bob)):
        log_in_again_after_an_order(ann, bob, 500)
        buy(ann, 2, 300, 52)
        assert ann.receive(ERROR)[1] == "promise"
        for client in (ann, bob):
            client.send(PROMISE, 1000)
        bob.receive(GRANT)
        assert bids(served) == [[51, 1, 1]]


def test_a_new_session_may_send_while_delayed_commands_arrive(tmp_path: Path) -> None:
    """It was refused until all commands of the session before it had arrived."""
    latency = {"orders": {"kind": "constant", "delay_us": 1}}
    with lockstep(tmp_path, "ann", "bob", latency=latency) as (_, (ann, bob)):
        log_in_again_after_an_order(ann, bob, 150)
        buy(ann, 2, 200, 52)
        ann.send(PROMISE, 2000)
        ann.send(PING, 1)
        ann.receive(PONG, ERROR)  # before the other promise, which alone would take time past the order
        bob.send(PROMISE, 2000)
        assert [event[:3] for event in ann.receive(REPORTS, ERROR)[2]] == [[1, 1150, 1], [1, 1200, 2]]


def test_recorded_commands_of_two_sessions_arrive_in_the_order_of_their_times(tmp_path: Path) -> None:
    """Those of the later session stood behind the others, and came too late or brought them too early."""
    with lockstep(tmp_path, "bob") as (served, (bob,)), RawClient(served.endpoint) as operator:
        start_turns(bob)
        for participant, time_ns in ((1, 1000), (2, 500)):
            assert operator_login(operator, "rec", served.operator)[0] == 96
            operator.send(Kind.ON_BEHALF, recorded(participant, time_ns).tobytes())
            operator.send(BYE)
            operator.receive(100)
        assert waiting(served) == 2
        bob.send(PROMISE, 600)
        bob.receive(GRANT)
        assert bids(served) == [[52, 1, 1]] and waiting(served) == 1
