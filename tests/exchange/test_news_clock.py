"""A scaled clock is never set back behind news: their times increase, and so does the time of those who read them."""

from contextlib import closing
from pathlib import Path

import pytest

from serl.clients.replay import Replayer, set_clock
from serl.exchange.errors import RequestRejected
from serl.exchange.request import Request, request_socket
from serl.exchange.wire import Kind
from serl.history.generate import OPEN_NS, SECOND_NS, generate_day
from tests.server_fixture import launch, start_exchange

HOUR_NS = 3600 * SECOND_NS
TOO_EARLY = r"expected a time from {} \(the last command or news message\) .* time cannot go back"


def publish(ask: Request) -> tuple[int, int]:
    """Publishes a message; returns its number and time."""
    sequence, time_ns = ask(Kind.PUBLISH_NEWS, "", 1, "", "Rain", "", None, "")[5]
    return sequence, time_ns


def test_a_scaled_clock_goes_back_to_the_last_message_at_most(tmp_path: Path) -> None:
    journal = ("--symbols", "DEMO", "--clock", "scaled:1", "--journal", str(tmp_path / "journal"))
    served = launch(*journal)
    with request_socket(served.endpoint, "admin") as ask:
        set_clock(served.endpoint, "", OPEN_NS + HOUR_NS, run=False)
        set_clock(served.endpoint, "", OPEN_NS, run=False)  # nothing has happened so far
        assert publish(ask) == (1, OPEN_NS)
        set_clock(served.endpoint, "", OPEN_NS + HOUR_NS, run=False)
        assert publish(ask) == (2, OPEN_NS + HOUR_NS)
        with pytest.raises(RequestRejected, match=TOO_EARLY.format(OPEN_NS + HOUR_NS)):
            set_clock(served.endpoint, "", OPEN_NS + HOUR_NS - 1, run=False)
        set_clock(served.endpoint, "", OPEN_NS + 2 * HOUR_NS, run=False)
        set_clock(served.endpoint, "", OPEN_NS + HOUR_NS, run=False)
        with (
            closing(Replayer(generate_day(1, end_ns=OPEN_NS + SECOND_NS), served.endpoint)) as replayer,
            pytest.raises(RequestRejected, match=TOO_EARLY.format(OPEN_NS + HOUR_NS)),
        ):
            replayer.run(lambda _: None)
    served.kill()
    assert served.process.stdout is not None
    served.process.stdout.close()
    with (
        start_exchange(symbols="DEMO", clock="scaled:1", journal=tmp_path / "journal") as again,
        request_socket(again.endpoint, "queries") as query,
    ):
        assert query(Kind.INFO)[5][2][2] >= OPEN_NS + HOUR_NS, "a restart continues after the last message"
