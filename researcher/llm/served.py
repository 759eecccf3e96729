"""The embedded endpoint as a supervised child process."""

import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from serl.clients.processes import terminate
from serl.extras import require
from serl.researcher.llm import models
from serl.researcher.llm.eight_bit import served_file
from serl.researcher.llm.errors import ModelServerError
from serl.researcher.llm.settings import Endpoint

READY_S_MAX = 120.0
STOP_S_MAX = 10.0
ANSWER_S_MAX = 1800.0
"""Timeout of one answer. A large model on a busy CPU takes minutes, and a retry would start from the beginning. A dead server is noticed at once."""


class ServedModel:
    """A model served by a child process. Use `served_model`, which stops it."""

    endpoint: Endpoint
    serving: tuple[Path | None, Path | None]
    """Adapter and weights of the last `restart`."""

    def __init__(self, model: str, port: int, threads: int, context_tokens: int, slots: int) -> None:
        require("the embedded language model", "xllamacpp")
        self._name, self._threads, self._context, self._slots = model, threads, context_tokens, slots
        self._port = port
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115

    @property
    def pid(self) -> int:
        """Process id of the server; ModelServerError if it has exited."""
        if self._process is None or not self.alive:
            raise ModelServerError(f"the server of {self._name} has exited: {self._last_log_lines()}; restart it")
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the server process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def url(self) -> str:
        """URL of the server, without /v1."""
        return self.endpoint.base_url.removesuffix("/v1")

    def wait(self) -> None:
        """Block until the process exits, then raise ModelServerError."""
        if self._process is not None:
            self._process.wait()
            raise ModelServerError(f"the server of {self._name} has exited: {self._last_log_lines()}; start it again")

    def restart(self, lora: Path | None = None, model: Path | None = None) -> Endpoint:
        """Restart the server on the same port, with the given adapter (GGUF) and weights.

        The new endpoint's model name contains the hashes of both, so a record never mixes their answers.
        """
        self.stop()
        self.serving = lora, model
        self.endpoint = self._start(lora, model)
        return self.endpoint

    def stop(self) -> None:
        """Stop the process and wait for it."""
        if self._process is None:
            return
        terminate(self._process, STOP_S_MAX)
        assert self._process.stdout
        self._process.stdout.close()
        self._process = None

    def close(self) -> None:
        """Stop the server and close its log."""
        self.stop()
        self._log.close()

    def _start(self, lora: Path | None, weights: Path | None) -> Endpoint:
        path = weights or models.find(self._name)
        pinned = self._name in models.MODELS
        changed = [models.sha256_of(file)[:12] for file in (weights, lora) if file]
        name = "+".join([self._name if pinned else path.stem, *changed])
        served = weights or served_file(self._name)
        arguments = [str(served), "--name", name, "--port", str(self._port), "--threads", str(self._threads)]
        arguments += ["--context", str(self._context), "--slots", str(self._slots), "--parent", str(os.getpid())]
        arguments += ["--lora", str(lora)] if lora else []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "serl.researcher.llm.embedded", *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, text=True, start_new_session=True,
        )  # fmt: skip
        address = self._await_ready()
        self._port = int(address.rpartition(":")[2])
        return Endpoint(base_url=f"{address}/v1", model=name, dialect="embedded", timeout_s=ANSWER_S_MAX)

    def _await_ready(self) -> str:
        """Wait until the process is ready. Returns the address that it prints then."""
        assert self._process and self._process.stdout
        deadline = time.monotonic() + READY_S_MAX
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while selector.select(max(0.0, deadline - time.monotonic())):
                line = self._process.stdout.readline()
                if line.startswith("ready "):
                    return line.split()[1]
                if not line:
                    break
        self.stop()
        port = f" on port {self._port} (already in use?)" if self._port else ""
        raise ModelServerError(f"the server of {self._name} does not start{port}: {self._last_log_lines()}")

    def _last_log_lines(self) -> str:
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()
        return " / ".join(lines[-3:]) or "no output"


@contextmanager
def served_model(
    model: str = "tiny",
    lora: Path | None = None,
    port: int = 0,
    *,
    threads: int = 1,
    context_tokens: int = 4096,
    slots: int = 1,
) -> Iterator[ServedModel]:
    """Serve a model on this machine for the duration of the context: `tiny`, `coder` or the path of a GGUF file.

    Port 0 is any free port. `slots` answers are generated in parallel; with several, the result of a seed depends on the other answers.
    ModelFileError if the model is missing, ModelServerError if the server does not start.
    """
    served = ServedModel(model, port, threads, context_tokens, slots)
    try:
        served.restart(lora)
        yield served
    finally:
        served.close()
