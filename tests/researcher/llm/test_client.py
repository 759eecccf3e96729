"""The client against endpoints that misbehave, its budget, its record."""

import contextlib
import json
import resource
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.exchange.errors import ConfigError
from serl.researcher.cli_llm import llm
from serl.researcher.llm.attempts import REPLY_BYTES_MAX, require_reachable
from serl.researcher.llm.client import Client
from serl.researcher.llm.errors import (
    BudgetSpentError,
    EndpointRefusedError,
    EndpointUnreachableError,
    LlmError,
    OfflineMissError,
)
from serl.researcher.llm.settings import BudgetConfig, Endpoint
from serl.researcher.llm.usage import estimate_prompt_tokens
from tests.researcher.llm.fake import CLOSE, Fake, completion, fake_endpoint

ASK = [{"role": "user", "content": "hi"}]


class ClientWithoutWaits(Client):
    """A client that records its waits instead of sleeping."""

    def __init__(self, fake: Fake, record: Path | None, budget: BudgetConfig | None, **settings: Any) -> None:
        self.waits: list[float] = []
        endpoint = Endpoint(base_url=fake.url, model="fake", attempts_max=3, backoff_s=0.5, **settings)
        super().__init__(endpoint, budget, record, sleep=self.waits.append)


def client(
    fake: Fake, record: Path | None = None, budget: BudgetConfig | None = None, **settings: Any
) -> ClientWithoutWaits:
    return ClientWithoutWaits(fake, record, budget, **settings)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("reply", "name", "waits"),
    [
        ((429, {"Retry-After": "7"}, "{}"), "rate_limited", [7.0]),
        ((429, {"Retry-After": "9999"}, "{}"), "rate_limited", [60.0]),
        ((429, {}, "slow down"), "rate_limited", [0.5]),
        ((500, {}, "{}"), "server_error", [0.5]),
        ((503, {}, "loading"), "server_error", [0.5]),
        (CLOSE, "connection", [0.5]),
        ((200, {}, '{"choices": [{"mess'), "malformed", [0.5]),
        ((200, {"Content-Length": "5000"}, '{"choices": ['), "connection", [0.5]),
        ((200, {"Content-Type": "text/html"}, "<html>"), "malformed", [0.5]),
        ({**completion(), "choices": []}, "malformed", [0.5]),
        ({"object": "list"}, "malformed", [0.5]),
        ((200, {}, "[" * 100_000), "malformed", [0.5]),
        ((200, {}, json.dumps(completion()).replace(": 5,", ": 1e999,")), "malformed", [0.5]),
        (completion(prompt=-(10**9)), "malformed", [0.5]),
        ((200, {}, " " * (REPLY_BYTES_MAX + 1)), "malformed", [0.5]),
    ],
    ids=lambda value: str(value)[:60],
)
def test_transient_failures_are_named_and_retried(tmp_path: Path, reply: Any, name: str, waits: list[float]) -> None:
    with fake_endpoint(reply, completion("there")) as fake:
        asked = client(fake, tmp_path / "calls.jsonl")
        assert asked.complete(ASK).texts == ["there"]
    assert asked.waits == waits
    (line,) = lines(tmp_path / "calls.jsonl")
    assert [row["failure"] for row in line["attempts"]] == [name]
    assert line["answer"]["text"] == "there"


def test_the_text_of_a_failure_can_be_stored() -> None:
    with fake_endpoint((200, {}, '"\\ud800"')) as fake, pytest.raises(EndpointUnreachableError) as raised:
        client(fake).complete(ASK)
    assert "malformed" in str(raised.value).encode().decode()


@pytest.mark.parametrize("reached", [False, True])
def test_a_server_that_sends_a_byte_now_and_then_is_late(reached: bool) -> None:
    def drip(server: socket.socket) -> None:
        with server.accept()[0] as connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
            with contextlib.suppress(OSError):  # the client has gone
                while not ended.wait(0.02):
                    connection.sendall(b" ")

    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        limit = threading.Timer(10, ended.set)
        limit.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        endpoint = Endpoint(base_url=url, model="slow", attempts_max=1, timeout_s=0.3)
        try:
            if reached:
                require_reachable(endpoint)  # what it sends is of no interest
            else:
                with pytest.raises(EndpointUnreachableError, match="timeout"):
                    Client(endpoint).complete(ASK)
            assert not ended.is_set()
        finally:
            limit.cancel()
            ended.set()
            thread.join()


def test_waits_double_and_end(tmp_path: Path) -> None:
    with fake_endpoint((500, {}, "{}")) as fake:
        asked = client(fake, tmp_path / "calls.jsonl")
        with pytest.raises(EndpointUnreachableError, match=r"3 attempts.*server_error"):
            asked.complete(ASK)
        assert len(fake.requests) == 3
    assert asked.waits == [0.5, 1.0]
    (line,) = lines(tmp_path / "calls.jsonl")
    assert "EndpointUnreachableError" in line["error"]


@pytest.mark.parametrize(
    "reply",
    [
        (401, {}, '{"error": {"message": "bad key"}}'),
        (400, {}, "{}"),
        (404, {}, "{}"),
        (429, {}, json.dumps({"error": {"message": "pay", "code": "insufficient_quota"}})),
    ],
)
def test_refusals_are_not_retried(reply: Any) -> None:
    with fake_endpoint(reply) as fake:
        with pytest.raises(EndpointRefusedError):
            client(fake).complete(ASK)
        assert len(fake.requests) == 1


def test_a_missing_server_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    endpoint = Endpoint(base_url=f"http://127.0.0.1:{port}/v1", model="none", attempts_max=2, backoff_s=0)
    with pytest.raises(EndpointUnreachableError, match="check that it is running"):
        Client(endpoint).complete(ASK)


def test_timeouts_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        endpoint = Endpoint(base_url=url, model="none", attempts_max=2, backoff_s=0, timeout_s=0.1)
        with pytest.raises(EndpointUnreachableError, match="2 x timeout"):
            Client(endpoint).complete(ASK)


def test_the_record_answers_again_and_offline(tmp_path: Path) -> None:
    record = tmp_path / "calls.jsonl"
    with fake_endpoint(completion("one"), completion("two")) as fake:
        first = client(fake, record).complete(ASK, n=2, seed=4)
        assert [request["seed"] for request in fake.requests] == [4, 5]
        again = client(fake, record).complete(ASK, n=2, seed=4)
        assert len(fake.requests) == 2
    assert first.texts == again.texts == ["one", "two"]
    assert (first.cached, again.cached) == (0, 2)
    assert (first.completion_tokens, again.completion_tokens) == (10, 0)
    endpoint = Endpoint(base_url="http://nowhere.invalid/v1", model="fake")
    offline = Client(endpoint, record=record, offline=True)
    assert offline.complete(ASK, n=2, seed=4).texts == ["one", "two"]
    others: list[dict[str, Any]] = [{"seed": 6}, {"seed": 4, "temperature": 0.5}, {"seed": 4, "max_tokens": 9}]
    for other in others:
        with pytest.raises(OfflineMissError):
            offline.complete(ASK, **other)


def test_a_record_cut_off_by_a_kill_goes_on(tmp_path: Path) -> None:
    record = tmp_path / "calls.jsonl"
    with fake_endpoint(completion("one"), completion("two")) as fake:
        client(fake, record).complete(ASK)
        with record.open("a") as file:
            file.write('{"key": "abc", "answ')
        assert client(fake, record).complete(ASK, n=2).texts == ["one", "two"]
    assert len(lines(record)) == 2
    record.write_text('{"key": "1"}\n[1]\n')
    with pytest.raises(LlmError, match=r"calls.jsonl:2"):
        client(fake, record)


@pytest.mark.parametrize(
    "content", ["a note", "[1]\n", "[" * 100_000 + "\n", '{"key'], ids=["text", "list", "deep", "cut"]
)
def test_only_a_record_is_cut(tmp_path: Path, content: str) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    if content == '{"key':  # what a kill left of a line
        Client(Endpoint(model="none", base_url="http://x"), record=path)
        assert path.read_text() == ""
        return
    with pytest.raises(LlmError, match="expected a line of a record of calls"):
        Client(Endpoint(model="none", base_url="http://x"), record=path)
    assert path.read_text() == content


def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    path, limits = tmp_path / "calls.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    with fake_endpoint(completion("short"), completion("long " * 1000), completion("short again")) as fake:
        asked = client(fake, path)
        asked.complete(ASK)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, limits[1]))
        try:
            with pytest.raises(LlmError, match="cannot write the record"):
                asked.complete(ASK, seed=1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        asked.complete(ASK, seed=2)
    assert [line["answer"]["text"] for line in lines(path)] == ["short", "short again"]


def test_a_token_budget_outlives_the_process(tmp_path: Path) -> None:
    record, budget = tmp_path / "calls.jsonl", BudgetConfig(tokens_max=60)
    with fake_endpoint(completion(prompt=10, tokens=15)) as fake:
        client(fake, record, budget).complete(ASK, max_tokens=20)
        client(fake, record, budget).complete(ASK, max_tokens=20, seed=1)
        with pytest.raises(BudgetSpentError, match="50 of 60 tokens"):
            client(fake, record, budget).complete(ASK, max_tokens=20, seed=2)
        assert len(fake.requests) == 2
        assert client(fake, record, budget).complete(ASK, max_tokens=20).cached == 1, "recorded answers cost nothing"


def test_calls_side_by_side_do_not_exceed_the_budget_together() -> None:
    """A call may take 10 + 100 tokens and takes 50: three fit into 250 one after the other, and never more than two at once."""
    busy, most_busy, lock = 0, 0, threading.Lock()

    def reply(request: dict[str, Any]) -> dict[str, Any]:
        nonlocal busy, most_busy
        with lock:
            busy += 1
            most_busy = max(most_busy, busy)
        time.sleep(0.05)
        with lock:
            busy -= 1
        return completion(prompt=10, tokens=40)

    with fake_endpoint(reply) as fake, ThreadPoolExecutor(8) as threads:
        asked = client(fake, budget=BudgetConfig(tokens_max=250))
        calls = [threads.submit(asked.complete, ASK, max_tokens=100, seed=seed) for seed in range(8)]
        spent = [call for call in calls if isinstance(call.exception(), BudgetSpentError)]
    assert (len(fake.requests), len(spent), asked.record.tokens) == (3, 5, 150)
    assert most_busy <= 2


def test_calls_go_to_the_server_with_the_fewest_under_way(tmp_path: Path) -> None:
    both = threading.Barrier(6, timeout=5)

    def reply(request: dict[str, Any]) -> dict[str, Any]:
        both.wait()
        return completion()

    with fake_endpoint(reply) as one, fake_endpoint(reply) as other, ThreadPoolExecutor(6) as threads:
        endpoints = [Endpoint(base_url=fake.url, model="fake") for fake in (one, other)]
        spread = Client(endpoints[0], record=tmp_path / "calls.jsonl", others=endpoints[1:])
        calls = [threads.submit(spread.complete, ASK, seed=seed) for seed in range(6)]
        assert [call.result().cached for call in calls] == [0] * 6
        assert (len(one.requests), len(other.requests)) == (3, 3)
        assert spread.complete(ASK, seed=1).cached == 1, "whoever answered, the record has it"


@pytest.mark.parametrize("budget", [BudgetConfig(tokens_max=600), BudgetConfig(usd_max=0.006)])
def test_a_long_prompt_may_not_go_beyond_the_budget(budget: BudgetConfig) -> None:
    prices: dict[str, Any] = {"usd_per_million_prompt_tokens": 10.0, "usd_per_million_completion_tokens": 10.0}
    with fake_endpoint(completion(prompt=500, tokens=15)) as fake:
        asked = client(fake, budget=budget, **prices)
        with pytest.raises(BudgetSpentError, match=r"raise (tokens|usd)_max"):
            asked.complete([{"role": "user", "content": "spread " * 250}], max_tokens=100)
        with pytest.raises(BudgetSpentError):
            asked.complete(ASK, schema={"enum": ["spread " * 250]}, max_tokens=100)
        assert not fake.requests
        assert asked.complete([{"role": "user", "content": "spread " * 150}], max_tokens=100).prompt_tokens == 500


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": 40}])
def test_a_budget_ends_where_the_endpoint_does_not_count(tmp_path: Path, usage: dict[str, int] | None) -> None:
    with fake_endpoint({**completion("inventory " * 6), "usage": usage}) as fake:
        asked = client(fake, tmp_path / "calls.jsonl", BudgetConfig(tokens_max=600))
        with pytest.raises(BudgetSpentError):
            for seed in range(100):
                asked.complete(ASK, max_tokens=100, seed=seed)
        assert 5 <= len(fake.requests) <= 50
    assert all(line["estimated"] for line in lines(tmp_path / "calls.jsonl"))


def test_half_of_a_surrogate_pair_is_counted() -> None:
    with fake_endpoint({**completion("\ud83d" * 6), "usage": None}) as fake:
        assert client(fake).complete(ASK, max_tokens=100).completion_tokens == 9
    request = {"messages": [{"role": "user", "content": "\ud83d"}]}
    assert estimate_prompt_tokens(request) == estimate_prompt_tokens({"messages": [{"role": "user", "content": "abc"}]})


def test_a_money_budget() -> None:
    prices: dict[str, Any] = {"usd_per_million_prompt_tokens": 1.0, "usd_per_million_completion_tokens": 10.0}
    with fake_endpoint(completion(prompt=1000, tokens=100)) as fake:
        asked = client(fake, budget=BudgetConfig(usd_max=0.0035), **prices)
        assert asked.complete(ASK, max_tokens=100).cost_usd == pytest.approx(0.002)
        with pytest.raises(BudgetSpentError, match=r"0\.0020 of 0\.0035 USD"):
            asked.complete(ASK, max_tokens=200, seed=1)
        with pytest.raises(ConfigError, match="prices"):
            client(fake, budget=BudgetConfig(usd_max=1.0))


@pytest.mark.parametrize(
    ("dialect", "asked", "sent"),
    [
        ("openai", {"schema": {"type": "object"}}, {"response_format"}),
        ("vllm", {"grammar": 'root ::= "a"'}, {"structured_outputs"}),
        ("llama.cpp", {"grammar": 'root ::= "a"'}, {"grammar", "top_k", "min_p"}),
        ("llama.cpp", {"schema": {"enum": ["a"]}, "top_p": 0.9}, {"response_format"}),
        ("embedded", {"schema": {"enum": ["a"]}}, {"grammar", "top_k", "min_p"}),
        ("openai", {"logprobs": True}, {"logprobs"}),
    ],
)
def test_dialects(dialect: str, asked: dict[str, Any], sent: set[str]) -> None:
    with fake_endpoint(completion(), kind=dialect) as fake:
        client(fake, dialect=dialect).complete(ASK, **asked)
        common = {"model", "messages", "max_tokens", "temperature", "top_p", "seed"}
        assert set(fake.requests[0]) - common == sent


def test_a_reasoning_model_gets_only_parameters_it_accepts() -> None:
    with fake_endpoint(completion(), kind="reasoning") as fake:
        with pytest.raises(EndpointRefusedError, match="max_tokens, temperature, top_p"):
            client(fake).complete(ASK)
        settings: dict[str, Any] = {"token_limit": "max_completion_tokens", "omit": ["temperature", "top_p"]}
        asked = client(fake, budget=BudgetConfig(tokens_max=600), **settings)
        assert asked.complete(ASK, max_tokens=500).texts == ["hello"]
        assert fake.requests[-1]["max_completion_tokens"] == 500
        with pytest.raises(BudgetSpentError):
            asked.complete(ASK, max_tokens=600, seed=1)


def test_omitted_parameters_are_not_sent() -> None:
    with fake_endpoint(completion()) as fake:
        client(fake, omit=frozenset({"seed", "response_format"})).complete(ASK, schema={"enum": ["a"]})
        assert not {"seed", "response_format"} & set(fake.requests[0])
        with pytest.raises(ConfigError, match="grammar"):
            client(fake).complete(ASK, grammar='root ::= "a"')


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        Endpoint(model="any").key()
    monkeypatch.setenv("MY_KEY", "secret")
    assert Endpoint(model="any", key_variable="MY_KEY").key() == "secret"


def command(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "serl", "llm", "ask", "hi", *options], capture_output=True, text=True)


@pytest.mark.long
def test_the_command_asks_and_replays(tmp_path: Path) -> None:
    (tmp_path / "shape.json").write_text('{"type": "object"}')
    options = ["--record", str(tmp_path / "calls.jsonl"), "--schema", str(tmp_path / "shape.json")]

    def ask(url: str, *more: str) -> subprocess.CompletedProcess[str]:
        return command("--url", url, *options, *more)

    with fake_endpoint(completion("there")) as fake:
        assert ask(fake.url).stdout == "there\n"
        assert "response_format" in fake.requests[0]
    replayed = ask("http://nowhere.invalid/v1", "--offline")
    assert replayed.stdout == "there\n"
    assert "1 of 1 from the record" in replayed.stderr
    missed = ask("http://nowhere.invalid/v1", "--offline", "--seed", "5")
    assert missed.returncode == 2
    assert "offline, and the record has no answer" in missed.stderr


@pytest.mark.long
def test_the_command_asks_a_reasoning_model() -> None:
    with fake_endpoint(completion("there"), kind="reasoning") as fake:
        refused = command("--url", fake.url)
        assert refused.returncode == 2 and "Unsupported parameter" in refused.stderr
        options = ["--token-limit", "max_completion_tokens", "--omit", "temperature", "--omit", "top_p"]
        assert command("--url", fake.url, *options).stdout == "there\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--url", "http://"], "--url, --model: base_url"),
        (["--url", "http://127.0.0.1:9", "--model", ""], "--url, --model: model"),
        (["--schema", "[1]"], "expected a JSON schema, an object, got list"),
        (["--schema", "[" * 100_000], "expected JSON"),
    ],
    ids=["url", "model", "list", "deep"],
)
def test_the_command_names_what_it_cannot_use(options: list[str], said: str, tmp_path: Path) -> None:
    if options[0] == "--schema":
        (schema := tmp_path / "schema.json").write_text(options[1])
        options = ["--schema", str(schema)]
    found = CliRunner().invoke(llm, ["ask", "hi", "--offline", *options])
    assert isinstance(found.exception, ConfigError)
    assert said in str(found.exception)


def test_an_address_that_cannot_be_looked_up_does_not_answer() -> None:
    with pytest.raises(EndpointUnreachableError, match="correct --url"):
        require_reachable(Endpoint(base_url=f"http://{'a' * 300}.com", model="none"))
