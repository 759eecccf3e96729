"""`serl metrics`: what Prometheus reads, and the health of the exchange."""

import gc
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="the extra `metrics` is not installed")

from prometheus_client.parser import text_string_to_metric_families

from serl.clients import query_connection
from serl.clients.blocking import connect
from serl.clients.drop_copy import drop_copy
from serl.clients.metrics import ExchangeCollector, metrics_server
from serl.clients.query_connection import QueryConnection
from serl.exchange.errors import ExchangeUnreachable, Rejected, RequestRejected
from serl.exchange.request import request_socket
from serl.exchange.wire import Kind
from tests.server_fixture import Served, free_endpoint, launch, start_exchange


@pytest.fixture
def exchange() -> Iterator[Served]:
    with start_exchange(symbols="A") as served:
        yield served


@pytest.fixture
def address(exchange: Served) -> Iterator[str]:
    with metrics_of(exchange) as address:
        yield address


@contextmanager
def metrics_of(exchange: Served, *options: str) -> Iterator[str]:
    program = [sys.executable, "-m", "serl", "metrics", "--connect", exchange.endpoint, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([*program, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process.stdout.readline().split()[-1].removesuffix("/metrics")
    process.terminate()
    process.communicate(timeout=20)


def get(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=20) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def samples(address: str) -> dict[tuple[str, ...], float]:
    """Values by name and labels."""
    status, text = get(f"{address}/metrics")
    assert status == 200
    families = text_string_to_metric_families(text)
    return {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}


def test_what_is_refused_is_counted_and_limits_are_shown(exchange: Served, address: str) -> None:
    with connect(exchange.endpoint, "ann") as ann:
        ann.buy("A", 5, 100)
        with pytest.raises(Rejected, match="would trade at once; got sell 5 A at 100"):
            ann.sell("A", 5, 100, post_only=True)
        with pytest.raises(Rejected, match="BAD_PRICE"):
            ann.buy("A", 5, 10**15)
        with pytest.raises(RequestRejected):
            ann.ask(Kind.L2, 7, 1)
        found = samples(address)
        assert (found["serl_up",], found["serl_sessions",], found["serl_orders_open",]) == (1, 1, 1)
        assert found["serl_commands_total",] == 3
        assert found["serl_commands_rejected_total", "would_cross"] == 1
        assert found["serl_commands_rejected_total", "bad_price"] == 1
        assert found["serl_errors_total", "unknown_symbol"] == 1
        assert found["serl_limit", "sessions_max"] == 256
    deadline = time.monotonic() + 20
    while (ended := samples(address))["serl_sessions",] and time.monotonic() < deadline:
        time.sleep(0.01)  # the BYE is on its way
    assert ended["serl_sessions_ended_total", "bye"] == 1 and ended["serl_sessions",] == 0


def test_health_follows_the_exchange(exchange: Served, address: str) -> None:
    assert get(f"{address}/health") == get(f"{address}/ready") == (200, "ok\n")
    assert get(f"{address}/else")[0] == 404
    assert get(f"{address}/ready?from=prometheus") == (200, "ok\n") and get(f"{address}/metrics?name=x")[0] == 200
    exchange.stop()
    for page in ("health", "ready"):
        status, text = get(f"{address}/{page}")
        assert status == 503 and "no exchange answers" in text
    assert samples(address) == {("serl_up",): 0}


def test_a_refused_token_is_an_answer(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each scrape printed a traceback, and the scraper got no answer."""
    config: dict[str, object] = {"login": {"participants": {"ann": {"token": "a"}}}}
    with start_exchange(symbols="A", config=config, folder=tmp_path) as served:
        questions = QueryConnection(served.endpoint, None, "wrong")
        with metrics_server(questions.ask, "127.0.0.1", 0) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                status, text = get(f"http://127.0.0.1:{server.server_address[1]}/metrics")
            finally:
                server.shutdown()
        questions.close()
    assert status == 503 and "expected the token of a participant that may read data" in text
    assert not capfd.readouterr().err


def test_queries_share_a_connection_and_survive_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def count(*arguments: Any) -> Any:
        opened.append(arguments)
        return request_socket(*arguments)

    monkeypatch.setattr(query_connection, "request_socket", count)
    config: dict[str, object] = {"login": {"participants": {"ann": {"token": "a"}}}}
    with start_exchange(symbols="A", config=config, folder=tmp_path) as served:
        found = QueryConnection(served.endpoint)  # with the operator token, which each start makes anew
        assert [found.ask(Kind.STATISTICS)["sessions"] for _ in range(3)] == [0, 0, 0]
        assert len(opened) == 1
        served.stop()
        with pytest.raises(ExchangeUnreachable, match="no exchange answers"):
            found.ask(Kind.STATISTICS)
    with start_exchange(symbols="A", config=config, folder=tmp_path, endpoint=served.endpoint):
        assert found.ask(Kind.STATISTICS)["sessions"] == 0
        found.close()


def test_a_drop_copy_goes_on_over_a_restart(tmp_path: Path) -> None:
    """With the exchange's own operator token, of which each start has another."""
    endpoint, options = free_endpoint(), ("--symbols", "A", "--journal", str(tmp_path / "journal"))
    first = launch(*options, endpoint=endpoint)
    with connect(endpoint, "ann") as ann, drop_copy(endpoint) as copy:
        ann.buy("A", 1, 10)
        (before,) = copy.batches()
        first.kill()
        assert first.process.stdout is not None
        first.process.stdout.close()
        second = launch(*options, endpoint=endpoint)
        ann.buy("A", 2, 10)
        after = [row for batch in copy.batches() for row in batch]
        assert [row["qty_lots"] for row in (*before, *after) if row["order_id"]] == [1, 2]
    second.stop()


def test_limits_are_asked_for_once_in_the_life_of_an_exchange() -> None:
    asked: list[Kind] = []
    with start_exchange(symbols="A") as served:
        found = QueryConnection(served.endpoint)

        def ask(kind: Kind) -> Any:
            asked.append(kind)
            return found.ask(kind)

        collector = ExchangeCollector(ask)
        for _ in range(3):
            limits = [family for family in collector.collect() if family.name == "serl_limit"]
            assert len(limits[0].samples) > 10
        assert asked.count(Kind.INFO) == 1 and asked.count(Kind.STATISTICS) == 3
    time.sleep(1.1)
    with start_exchange(symbols="A", endpoint=served.endpoint):
        with suppress(ExchangeUnreachable):
            list(collector.collect())  # finds the old connection gone
        list(collector.collect())
        found.close()
    assert asked.count(Kind.INFO) == 2


@pytest.mark.parametrize("options", [["--connect", "nonsense"], ["--curve", "."]])
def test_an_exchange_that_cannot_be_asked_is_an_error_at_the_start(options: list[str], tmp_path: Path) -> None:
    """It served, and each scrape was a traceback without an answer."""
    program = [sys.executable, "-m", "serl", "metrics", "--listen", "127.0.0.1:0", *options]
    done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=30)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and not done.stdout


def test_a_failed_question_leaves_no_garbage() -> None:
    found = QueryConnection("tcp://127.0.0.1:9")
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(ExchangeUnreachable) as failed:
            found.ask(Kind.STATISTICS)
        del failed
        assert not [one for one in gc.get_objects() if type(one) is ExchangeUnreachable]
    finally:
        gc.enable()


@pytest.mark.parametrize(("listen", "text"), [("9464", "expected HOST:PORT"), ("203.0.113.7:9464", "choose another")])
def test_an_address_that_cannot_be_listened_on_is_an_error(listen: str, text: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "serl", "metrics", "--listen", listen], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and text in done.stderr


@pytest.mark.parametrize(
    ("error", "printed"),
    [(BrokenPipeError(), ""), (ConnectionResetError(), ""), (ValueError("else"), "ValueError: else")],
)
def test_a_scraper_that_leaves_prints_nothing(
    error: Exception, printed: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def ask(_kind: Kind) -> object:
        raise error

    with (
        metrics_server(ask, "127.0.0.1", 0) as server,
        socket.create_connection(("127.0.0.1", server.server_port)) as scraper,
    ):
        server.daemon_threads = False
        scraper.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        server.handle_request()
        server.server_close()  # waits for the request's thread
    assert printed in capfd.readouterr().err if printed else not capfd.readouterr().err
