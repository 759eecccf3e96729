"""Replies with an error status, keys, reasoning and counts of tokens that endpoints get wrong."""

import contextlib
import json
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.exchange.errors import ConfigError
from serl.researcher.llm import attempts
from serl.researcher.llm.attempts import Malformed, Reply
from serl.researcher.llm.client import Client
from serl.researcher.llm.errors import EndpointRefusedError, EndpointUnreachableError, LlmError
from serl.researcher.llm.settings import Endpoint
from tests.researcher.llm.fake import completion, fake_endpoint

ASK = [{"role": "user", "content": "hi"}]


@contextmanager
def raw_endpoint(send: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """The URL of a server that sends what it likes to each connection; the event is set at the end."""
    ended = threading.Event()

    def serve(server: socket.socket) -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError), server.accept()[0] as connection:
                connection.settimeout(10)  # a client may send nothing more
                connection.recv(65536)
                send(connection, ended)

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        port = server.getsockname()[1]
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        limit = threading.Timer(10, ended.set)
        limit.start()
        try:
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            limit.cancel()
            ended.set()
            thread.join()


def cut(connection: socket.socket, ended: threading.Event) -> None:
    connection.sendall(b"Content-Length: 5000\r\n\r\nbusy")


def drip(connection: socket.socket, ended: threading.Event) -> None:
    connection.sendall(b"Content-Length: 5000\r\n\r\nbusy")
    while not ended.wait(0.02):
        connection.sendall(b" ")


def flood(connection: socket.socket, ended: threading.Event) -> None:
    connection.sendall(b"Content-Length: 4000000000\r\n\r\nbusy")
    while not ended.is_set():
        connection.sendall(bytes(2**20))


@pytest.mark.parametrize("rest", [cut, drip, flood])
@pytest.mark.parametrize(
    ("head", "raised", "said"),
    [
        ("503 Busy", EndpointUnreachableError, "2 x server_error"),
        ("429 Slow\r\nRetry-After: 7", EndpointUnreachableError, "2 x rate_limited"),
        ("401 Key", EndpointRefusedError, "Error code: 401"),
    ],
)
def test_the_body_of_an_error_is_read_as_far_as_it_arrives(
    head: str, raised: type[Exception], said: str, rest: Callable[[socket.socket, threading.Event], None]
) -> None:
    def send(connection: socket.socket, ended: threading.Event) -> None:
        connection.sendall(f"HTTP/1.1 {head}\r\nContent-Type: text/plain\r\n".encode())
        rest(connection, ended)

    waits = list[float]()
    with raw_endpoint(send) as url:
        endpoint = Endpoint(base_url=url, model="any", attempts_max=2, timeout_s=1.0)
        began = time.monotonic()
        with pytest.raises(raised, match=said) as error:
            Client(endpoint, sleep=waits.append).complete(ASK)
        assert time.monotonic() - began < 9
    assert len(str(error.value)) < 1000
    assert waits == ([7.0] if "429" in head else [] if "401" in head else [0.5])


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ((422, {}, '{"detail": [{"loc": ["body", "seed"], "msg": "extra field"}]}'), "extra field.*under omit"),
        ((404, {}, '{"error": "no model any"}'), "404 - no model any; correct base_url, model or the key"),
        ((403, {}, "<html>\n<h1>the proxy\x1b says no"), "403 - <html> <h1>the proxy says no"),
        ((502, {}, "<h1>Bad gateway</h1>"), "502 - <h1>Bad gateway</h1>"),
        ((200, {}, "<html>Log in, please</html>"), "expected JSON, got '<html>Log in, please</html>'"),
        ((200, {}, ""), "expected JSON, got ''"),
    ],
)
def test_an_error_tells_what_came(reply: Any, said: str) -> None:
    with fake_endpoint(reply) as fake, pytest.raises(LlmError, match=said):
        Client(Endpoint(base_url=fake.url, model="any", attempts_max=1)).complete(ASK)


def test_any_number_of_attempts_has_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait of the 1,025th attempt was not a number."""

    def fail(*_: Any) -> Reply:
        raise Malformed("nothing")

    monkeypatch.setattr(attempts, "_reply", fail)
    waits = list[float]()
    endpoint = Endpoint(base_url="http://127.0.0.1:1/v1", model="any", attempts_max=1100)
    with pytest.raises(EndpointUnreachableError, match="1100 x malformed"):
        Client(endpoint, sleep=waits.append).complete(ASK)
    assert waits[-1] == endpoint.backoff_s_max


def drip_header(connection: socket.socket, ended: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not ended.wait(0.02):
        connection.sendall(b"x")


def drip_interim(connection: socket.socket, ended: threading.Event) -> None:
    while not ended.wait(0.02):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


def flood_interim(connection: socket.socket, ended: threading.Event) -> None:
    while not ended.is_set():
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


@pytest.mark.parametrize(
    ("send", "reused"),
    [(drip_header, False), (drip_interim, False), (flood_interim, False), (drip_header, True), (drip_interim, True)],
)
def test_headers_that_never_end_are_a_timeout(
    send: Callable[[socket.socket, threading.Event], None], reused: bool
) -> None:
    def answer_first(connection: socket.socket, ended: threading.Event) -> None:
        if reused:
            body = json.dumps(completion("first")).encode()
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            connection.recv(65536)
        send(connection, ended)

    with raw_endpoint(answer_first) as url:
        client = Client(Endpoint(base_url=url, model="any", attempts_max=1, timeout_s=2.0 if reused else 0.5))
        if reused:
            assert client.complete(ASK).texts == ["first"]
        began = time.monotonic()
        with pytest.raises(EndpointUnreachableError, match=r"\(1 x timeout;"):
            client.complete(ASK, seed=1)
        assert time.monotonic() - began < 8


@pytest.mark.parametrize("key", ["sk-secret\n", "sk-sécret", "sk-secret "], ids=["line break", "not ASCII", "space"])
def test_a_key_that_no_header_can_contain_is_refused_without_being_told(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", key)
    with fake_endpoint(completion()) as fake:
        endpoint = Endpoint(base_url=fake.url, model="any", key_variable="MY_KEY", attempts_max=1)
        with pytest.raises(ConfigError, match="MY_KEY: expected") as error:
            Client(endpoint, record=tmp_path / "calls.jsonl").complete(ASK)
    assert key.strip() not in str(error.value)
    assert not (tmp_path / "calls.jsonl").exists()


@pytest.mark.parametrize("status", [401, 500])
def test_a_key_that_the_endpoint_repeats_is_not_recorded(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-secret")
    told = json.dumps({"error": {"message": f"{'x' * 465} invalid key sk-secret"}})
    with fake_endpoint((status, {}, told)) as fake:
        endpoint = Endpoint(base_url=fake.url, model="any", key_variable="MY_KEY", attempts_max=2, backoff_s=0)
        with pytest.raises(LlmError, match="xx invalid") as error:
            Client(endpoint, record=tmp_path / "calls.jsonl").complete(ASK)
    assert "sk-" not in str(error.value) + (tmp_path / "calls.jsonl").read_text()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('<think>\n```json\n{"buy": 1}\n```\nNo.</think>\n```json\n{"sell": 2}\n```', '```json\n{"sell": 2}\n```'),
        ('Perhaps {"buy": 1}? No.\n</think>\n\n{"sell": 2}', '{"sell": 2}'),
        ('<think>Perhaps {"buy": 1}', ""),
        ('{"sell": "<think>"}', '{"sell": "<think>"}'),
        ([{"type": "thinking", "thinking": "buy"}, {"type": "text", "text": '{"sell": '}, {"type": "text", "text": "2}"}], '{"sell": 2}'),
        (None, ""),
    ],
    ids=["whole", "end", "beginning", "quoted", "parts", "none"],
)  # fmt: skip
def test_reasoning_is_not_part_of_an_answer(content: Any, text: str) -> None:
    reply: dict[str, Any] = {**completion(), "usage": None}
    reply["choices"][0]["message"]["content"] = content
    with fake_endpoint(reply) as fake:
        answers = Client(Endpoint(base_url=fake.url, model="any", attempts_max=1)).complete(ASK)
    assert answers.texts == [text]
    assert answers.completion_tokens == (
        math.ceil(len(content) / 2) if isinstance(content, str) else math.ceil(len(text) / 2)
    )


def test_a_refusal_is_the_text_of_an_answer() -> None:
    reply = completion()
    reply["choices"][0]["message"] = {"role": "assistant", "content": None, "refusal": "I cannot trade."}
    with fake_endpoint(reply) as fake:
        answers = Client(Endpoint(base_url=fake.url, model="any", attempts_max=1)).complete(ASK)
    assert answers.texts == ["I cannot trade."]


def test_an_answer_of_no_tokens_is_counted_by_its_text(tmp_path: Path) -> None:
    reply = {**completion("inventory"), "usage": {"prompt_tokens": 40, "completion_tokens": 0}}
    with fake_endpoint(reply) as fake:
        answers = Client(Endpoint(base_url=fake.url, model="any"), record=tmp_path / "calls.jsonl").complete(ASK)
    assert (answers.prompt_tokens, answers.completion_tokens) == (40, 5)
    assert json.loads((tmp_path / "calls.jsonl").read_text())["estimated"]


def test_answers_of_an_endpoint_without_seeds_are_different_ones(tmp_path: Path) -> None:
    record = tmp_path / "calls.jsonl"
    with fake_endpoint(completion("one"), completion("two"), completion("three")) as fake:
        endpoint = Endpoint(base_url=fake.url, model="any", omit=frozenset({"seed"}))
        assert Client(endpoint, record=record).complete(ASK, n=2, seed=4).texts == ["one", "two"]
        assert not any("seed" in request for request in fake.requests)
    again = Client(endpoint, record=record, offline=True)
    assert again.complete(ASK, n=2, seed=4).texts == ["one", "two"]
    assert again.complete(ASK, seed=5).texts == ["two"]


@pytest.mark.parametrize(("ahead_s", "least", "most"), [(20, 17, 20), (-20, 0.5, 0.5), (9999, 60, 60)])
def test_a_date_to_retry_after_is_waited_for(ahead_s: float, least: float, most: float) -> None:
    waits = list[float]()
    date = formatdate(time.time() + ahead_s, usegmt=True)
    with fake_endpoint((429, {"Retry-After": date}, "{}"), completion("there")) as fake:
        endpoint = Endpoint(base_url=fake.url, model="any", attempts_max=2)
        assert Client(endpoint, sleep=waits.append).complete(ASK).texts == ["there"]
    assert least <= waits[0] <= most
