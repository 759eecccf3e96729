"""The embedded endpoint with the tiny model, for real."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra `researcher` is not installed")
pytest.importorskip("xllamacpp", reason="the extra `researcher` is not installed")

from serl.researcher.llm.answers import extract_json
from serl.researcher.llm.client import Client
from serl.researcher.llm.errors import EndpointRefusedError, EndpointUnreachableError, ModelFileError, ModelServerError
from serl.researcher.llm.models import MODELS
from serl.researcher.llm.served import ServedModel, served_model
from tests.researcher.processes import is_gone

pytestmark = pytest.mark.skipif(not MODELS["tiny"].path.exists(), reason="needs the model: serl llm fetch tiny")
ASK = [{"role": "user", "content": "Weigh inventory and impact."}]
SCHEMA = {
    "type": "object",
    "properties": {
        "inventory": {"enum": [0.1, 0.2, 0.5]},
        "impact": {"type": "number", "minimum": 0.5, "maximum": 2.25},
    },
    "required": ["inventory", "impact"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def served() -> Iterator[ServedModel]:
    with served_model() as running:
        yield running


def test_specs_under_a_schema(served: ServedModel) -> None:
    answers = Client(served.endpoint).complete(ASK, schema=SCHEMA, n=3, max_tokens=100)
    specs = [extract_json(answer) for answer in answers.answers]
    assert all(spec["inventory"] in (0.1, 0.2, 0.5) and 0.5 <= spec["impact"] <= 2.25 for spec in specs)
    assert answers.texts == [json.dumps(spec) for spec in specs], "whitespace as json.dumps writes it"
    assert len({json.dumps(spec) for spec in specs}) > 1, "each answer has a seed of its own"
    assert answers.prompt_tokens > 0
    assert answers.completion_tokens > 0


@pytest.mark.parametrize(
    ("constraint", "reason"),
    [
        ({"schema": {"type": "object", "properties": {"inventory": {"type": "decimal"}}}}, "Invalid type: decimal"),
        ({"schema": {"type": "string", "pattern": "(?=x)y"}}, "look-around, .* is not supported; correct"),
        ({"grammar": "%llguidance {}\nstart: weight"}, 'unknown name: "weight"; correct'),
    ],
    ids=["type", "pattern", "grammar"],
)
def test_a_schema_that_llama_cpp_would_ignore_is_refused(
    served: ServedModel, constraint: dict[str, Any], reason: str
) -> None:
    with pytest.raises(EndpointRefusedError, match=reason):
        Client(served.endpoint).complete(ASK, max_tokens=3, **constraint)


def test_seeds_repeat_and_the_tokens_are_the_text(served: ServedModel) -> None:
    first, again = (Client(served.endpoint).complete(ASK, seed=7, max_tokens=12, logprobs=True) for _ in range(2))
    assert first.texts == again.texts
    (answer,) = first.answers
    assert "".join(token.text for token in answer.tokens) == answer.text
    assert all(token.id is not None and token.logprob <= 0 for token in answer.tokens)


def test_a_short_answer_is_called_truncated(served: ServedModel) -> None:
    (answer,) = Client(served.endpoint).complete(ASK, max_tokens=3).answers
    assert answer.finish == "length"


def test_memory_is_below_a_gigabyte(served: ServedModel) -> None:
    Client(served.endpoint).complete([{"role": "user", "content": "word " * 300}], max_tokens=1)
    status = Path(f"/proc/{served.pid}/status")
    if not status.exists():
        pytest.skip("reads memory in /proc")
    peak_kib = next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    assert peak_kib < 1e9 / 1024


def test_it_restarts_on_its_port_and_leaves_no_process() -> None:
    with served_model() as running:
        pid, endpoint = running.pid, running.endpoint
        began = time.monotonic()
        assert running.restart() == endpoint
        assert time.monotonic() - began < 5, "under a second where nothing else runs"
        assert is_gone(pid)
        os.kill(last := running.pid, signal.SIGKILL)
        with pytest.raises(EndpointUnreachableError):
            Client(endpoint.model_copy(update={"attempts_max": 1})).complete(ASK)
        with pytest.raises(ModelServerError, match="has exited"):
            running.wait()
        running.restart()
        assert running.pid != last
        last = running.pid
    assert is_gone(last)


def test_it_ends_with_the_process_that_started_it() -> None:
    code = (
        "import os, signal\nfrom serl.researcher.llm.served import served_model\n"
        "with served_model() as running:\n    print(running.pid, flush=True)\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert done.returncode == -signal.SIGKILL
    assert is_gone(int(done.stdout))


def test_the_command_serves_until_interrupted() -> None:
    command = [sys.executable, "-m", "serl", "llm", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as serving:
        assert serving.stdout
        line = serving.stdout.readline()
        assert line.startswith("tiny at http://127.0.0.1:")
        serving.send_signal(signal.SIGINT)
        assert serving.wait(20) == 128 + signal.SIGINT
    assert is_gone(int(line.split("process ")[1].split(")")[0]))


def test_a_taken_port_is_named(served: ServedModel) -> None:
    port = int(served.url.rpartition(":")[2])
    with pytest.raises(ModelServerError, match=rf"on port {port} \(already in use"), served_model(port=port):
        pass


def test_a_server_that_does_not_start_reports_why(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelServerError, match="does not start"), served_model(str(broken)):
        pass
    with (
        pytest.raises(ModelFileError, match=r"expected a \.gguf file or one of tiny, coder, got huge"),
        served_model("huge"),
    ):
        pass
