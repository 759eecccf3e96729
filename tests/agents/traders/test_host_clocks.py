"""Traders on live and scaled clocks: how their day maps to the exchange's time."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from serl.agents.traders.errors import SimulationError
from serl.agents.traders.host import Host
from serl.agents.traders.population import load_population
from serl.agents.traders.records import REQUEST_BITS
from serl.agents.traders.timeline import day_offset_ns
from serl.clients.blocking import connect
from serl.clients.replay import set_clock
from serl.exchange.wire import Kind
from tests.server_fixture import Served, launch, start_exchange

SMALL = load_population("small")
SECOND_NS = 1_000_000_000
HOUR_NS = 3600 * SECOND_NS
PATIENCE_S = 150
"""Starting the hosts takes most of it, on a busy machine."""


def agents(exchange: Served, *options: str) -> "subprocess.Popen[str]":
    arguments = ["agents", "start", "--population", "small", "--connect", exchange.endpoint, *options]
    return subprocess.Popen(
        [sys.executable, "-m", "serl", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def assert_trades(exchange: Served, run: "subprocess.Popen[str]", count: int = 3) -> None:
    """Waits for trades on the feed, then sends SIGINT."""
    deadline = time.monotonic() + PATIENCE_S
    try:
        with connect(exchange.endpoint, "looker") as looker:
            looker.subscribe("trade", "DEMO")
            while count > 0:
                assert run.poll() is None, run.communicate()[0]
                assert time.monotonic() < deadline, "no trades"
                item = looker.wait(0.2)
                count -= isinstance(item, tuple) and item[0] == "trade/DEMO/"
    finally:
        run.send_signal(signal.SIGINT)
        output, _ = run.communicate(timeout=30)
    assert "Traceback" not in output


@contextmanager
def at(start: str, speed: int = 1, *options: str) -> Iterator[Served]:
    """An exchange with a scaled clock."""
    exchange = launch("--symbols", "DEMO", "--clock", f"scaled:{speed}", "--clock-start", start, *options)
    try:
        yield exchange
    finally:
        exchange.stop()


@pytest.mark.long
def test_hosts_trade_on_a_live_exchange_at_once_and_again_after_an_earlier_day(tmp_path: Path) -> None:
    """Their command ids continue after those of the earlier day: smaller ids would count as repeated commands."""
    with start_exchange(symbols="DEMO") as exchange:
        for host in range(2):
            with connect(exchange.endpoint, f"traders-small-{host}") as earlier:
                earlier.session.next_command_id = SMALL.open_ns + HOUR_NS << REQUEST_BITS
                earlier.cancel(earlier.buy("DEMO", 1, 1))
        assert_trades(exchange, agents(exchange, "--hosts", "2", "--flow", str(tmp_path)))
    now_s = int(time.time()) % 86_400
    lines = (tmp_path / "traders-small-0.jsonl").read_text().splitlines()
    second = int(lines[0].split('"second": ')[1].split(",")[0])
    assert (now_s - second) % 86_400 < 2 * PATIENCE_S, "the flow file uses the exchange's time of day"


@pytest.mark.long
def test_hosts_trade_at_once_on_a_scaled_clock_before_the_open() -> None:
    with at("00:00") as exchange:
        assert_trades(exchange, agents(exchange))


def test_a_window_that_is_over_is_an_error() -> None:
    with at("11:00") as exchange:
        run = agents(exchange, "--until", "10:30")
        output, _ = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 2
    assert "expected a time before 10:30:00, got 11:00:0" in output


def test_a_window_that_is_over_is_an_error_in_lockstep(tmp_path: Path) -> None:
    config: dict[str, object] = {"clock": {"kind": "lockstep", "participants": 1, "start": "17:00"}}
    with start_exchange(symbols="DEMO", config=config, folder=tmp_path, clock="lockstep") as exchange:
        host = Host(SMALL, 1, exchange.endpoint)
        try:
            with pytest.raises(SimulationError, match="expected a time before 16:00:00, got 17:00:00"):
                host.run()
        finally:
            host.close()


def test_a_late_host_skips_the_hours_before() -> None:
    with at("12:00") as exchange:
        until_ns = SMALL.open_ns + 4 * HOUR_NS
        host = Host(SMALL, 1, exchange.endpoint, until_ns=until_ns)
        sent: list[int] = []

        def stop_after_three_seconds(running: Host) -> None:
            sent.append(running.commands)
            if running.time_ns > running.start_ns + 3 * SECOND_NS:
                running.until_ns = running.time_ns

        try:
            host.run(stop_after_three_seconds)
        finally:
            host.close()
        assert host.start_ns > SMALL.open_ns + 2 * HOUR_NS
        assert 0 < sent[-1] < 300


@pytest.mark.long
def test_hosts_wait_for_a_held_clock_and_start_at_the_time_it_is_set_to() -> None:
    with at("00:00", 60, "--hold") as exchange:
        run = agents(exchange, "--until", "10:32")
        with connect(exchange.endpoint, "looker") as looker:
            while looker.ask(Kind.STATISTICS)[5]["sessions"] < 2:
                time.sleep(0.05)
        set_clock(exchange.endpoint, "", SMALL.open_ns + HOUR_NS, run=True)
        output, _ = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, output
    last = output.strip().splitlines()[-1]
    assert last.startswith("10:3") and ", 0 commands" not in last, output


@pytest.mark.parametrize(
    ("now_ns", "wait", "offset_ns"),
    [
        (SMALL.open_ns, False, 0),
        (SMALL.close_ns - 1, False, 0),
        (SMALL.close_ns, False, SMALL.close_ns - SMALL.open_ns),
        (5, False, 5 - SMALL.open_ns),
        (5, True, 0),
        (1_750_000_000 * SECOND_NS, True, 1_750_000_000 * SECOND_NS - SMALL.open_ns),
    ],
)
def test_within_the_day_time_is_the_exchanges_and_outside_the_day_starts_at_once(
    now_ns: int, wait: bool, offset_ns: int
) -> None:
    assert day_offset_ns(SMALL, now_ns, wait_for_open=wait) == offset_ns
