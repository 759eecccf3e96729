"""What an order waits for beside hostile clients: short pieces of other work, no disk, and nothing in Python that compiled code can do."""

import itertools
import signal
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest

from serl.exchange.config import IntervalsConfig, LimitsConfig
from serl.exchange.gateway.state import new_gateway
from serl.exchange.sessions import Sessions
from tests.exchange.test_hostile import ask, assert_prompt
from tests.exchange.test_limits import bulk, limited
from tests.raw_zmtp import frame, raw_connection
from tests.server_fixture import RawClient, start_exchange

SLOW_DISK = """
import time
from serl.exchange.journal import participants_file
write = participants_file.write_participants

def slow(folder, journal_id, texts):
    if "newcomer" in str(texts):
        time.sleep(2)
    write(folder, journal_id, texts)

participants_file.write_participants = slow
"""


@pytest.mark.long  # see also test_waiting_logins.py
@pytest.mark.parametrize("options", [{}, {"cancel_on_disconnect": True}])
def test_a_login_that_is_saved_delays_no_order(options: dict[str, bool]) -> None:
    with start_exchange(prelude=SLOW_DISK) as served:  # noqa: SIM117
        with RawClient(served.endpoint) as raw, RawClient(served.endpoint) as newcomer:
            raw.login("honest")
            newcomer.send(64, 1, 1, "newcomer", "", -1, options)
            began, slowest = time.monotonic(), 0.0
            for command_id in itertools.count(1):
                sent = time.monotonic()
                raw.send(1, command_id, 0, 0, 1, 100, 1, 0, 0)
                raw.receive(80)
                slowest = max(slowest, time.monotonic() - sent)
                if newcomer.socket.poll(0):
                    break
            assert newcomer.receive()[0] == 96
            assert time.monotonic() - began > 2, "the name is on the disk"
            assert slowest < 1.5


BUSY_THREAD = """
import threading, time

def work():
    time.sleep(1)  # the exchange starts
    while True:
        sum(range(100))

threading.Thread(target=work, daemon=True).start()
"""


def test_a_busy_thread_delays_the_loop_briefly() -> None:
    """One that runs Python, as when it reads a journal. The loop needs Python for a query, several times."""
    with start_exchange(prelude=BUSY_THREAD) as served, RawClient(served.endpoint, "queries") as raw:
        time.sleep(0.2)  # the thread works
        took_s = []
        for number in range(40):
            sent = time.monotonic()
            raw.send(132, number)
            raw.receive()
            took_s.append(time.monotonic() - sent)
    assert sorted(took_s)[10] < 0.004, "Python's own limit for each turn is 5 ms"


SLOW_CONTROL = """
import time
from serl.exchange.control import Control
answer = Control.answer_pending
Control.answer_pending = lambda self: (time.sleep(0.02), answer(self))
"""


def test_what_exceeds_a_rate_is_refused_without_python(tmp_path: Path) -> None:
    limits = {"messages_per_s_max": 5, "control_messages_per_s_max": 0}
    with limited(tmp_path, limits=limits, prelude=SLOW_CONTROL) as served, RawClient(served.endpoint) as raw:
        raw.login("hasty")
        began = time.monotonic()
        for command_id in range(1, 306):
            raw.send(1, command_id, 0, 0, 1, 100, 1, 0, 0)
            raw.send(66, -command_id)
        answers = [raw.receive() for _ in range(610)]
        assert [answer[1] for answer in answers if answer[0] == 98] == [-number for number in range(1, 306)]
        refused = [answer for answer in answers if answer[0] == 97]
        text = "command 305 was not accepted: more than 5 messages per second; resend it later"
        assert refused[-1] == [97, "throttled", text]
        assert time.monotonic() - began < 4, "not 610 times 0.02 s"
        assert ask(served, "queries", 132, 1)[5]["errors"] == {"throttled": len(refused)}
        raw.socket.send(bulk(400, 6, 100))
        raw.send(1, 1, 0, 0, 1, 100, 1, 0, 0)
        assert raw.receive(97)[2].startswith("command 400 was not")
        assert raw.receive(82)[1] == 1, "a duplicate, although it is beyond the rate"


def test_a_flood_of_commands_without_a_login_is_closed(tmp_path: Path) -> None:
    with limited(tmp_path, limits={"requests_share": 1e-6}) as served, RawClient(served.endpoint) as raw:
        raw.login("honest")
        command_id, sent = 1, 0
        with raw_connection(served.endpoint, "orders", b"DEALER") as flood:
            flood.settimeout(0.01)
            with suppress(ConnectionError):
                while sent < 3_000_000:
                    assert_prompt(raw, command_id)
                    command_id += 1
                    with suppress(TimeoutError):
                        flood.sendall(frame(msgpack.packb([1, 1, 0, 0, 1, 100, 1, 0, 0])) * 1000)
                    sent += 1000
        assert ask(served, "queries", 132, 1)[5]["messages"] - command_id < 100_000


def test_a_pause_of_the_exchange_is_not_the_silence_of_a_client(tmp_path: Path) -> None:
    with (
        limited(
            tmp_path, intervals={"silence_s": 0.6, "heartbeat_s": 0.1}, limits={"messages_per_s_max": 20}
        ) as served,
        RawClient(served.endpoint) as raw,
    ):
        raw.login("patient")
        served.process.send_signal(signal.SIGSTOP)
        raw.send(66, 4)  # on its way during the pause
        for number, pause_s in ((signal.SIGSTOP, 1.5), (signal.SIGCONT, 0.3)):
            served.process.send_signal(number)
            time.sleep(pause_s)
        raw.send(66, 5)
        assert [raw.receive(98, 100)[:2] for _ in range(2)] == [[98, 4], [98, 5]]
        for command_id in range(1, 16):
            raw.send(1, command_id, 0, 0, 1, 100, 1, 0, 0)
        while (message := raw.receive(80, 97))[0] == 80 and message[2][-1][2] < 15:
            pass
        assert message[0] == 80, "the pause took away what its rate had left"


def test_a_pause_moves_no_message_into_the_future() -> None:
    """Messages read between a pause and the next check: the time until the next one was negative, and took away what the rate had left."""
    gateway, now_ns = new_gateway(LimitsConfig()), time.monotonic_ns()
    gateway.last_in_ns[:2] = now_ns - 10**9, now_ns
    sessions: Any = SimpleNamespace(
        _gateway=gateway, _clock=SimpleNamespace(now_ns=lambda: 0), _checked_ns=now_ns - 10**10, _unsent_goodbyes=[],
        _config=SimpleNamespace(intervals=IntervalsConfig()),
    )  # fmt: skip
    assert Sessions.check_liveness(sessions) == []
    assert now_ns <= gateway.last_in_ns[:2].min() and gateway.last_in_ns.max() <= time.monotonic_ns()
