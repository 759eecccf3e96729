"""A real exchange process for tests, and a raw client of its sockets."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import yaml
import zmq

from serl.exchange.config import local_operator_token, socket_endpoints
from serl.exchange.ports import free_port

WAIT_MS = 20_000


def free_endpoint() -> str:
    """A loopback endpoint whose port and next three ports are free."""
    return f"tcp://127.0.0.1:{free_port()}"


class RawClient:
    """A DEALER socket that sends arbitrary messages. `slow`: with minimal receive buffers, so that unread messages block the exchange."""

    def __init__(self, endpoint: str, socket: str = "orders", *, slow: bool = False) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 0
        if slow:
            self.socket.rcvhwm, self.socket.rcvbuf = 1, 4096
        self.socket.connect(socket_endpoints(endpoint)[socket])

    def send(self, *message: Any) -> None:
        self.socket.send(msgpack.packb(message))

    def receive(self, *kinds: int) -> list[Any]:
        """Receives the next message of these kinds; any except HEARTBEAT without kinds. Skips others."""
        while True:
            assert self.socket.poll(WAIT_MS), "no answer"
            message: list[Any] = msgpack.unpackb(self.socket.recv(), strict_map_key=False)
            if message[0] in kinds or (not kinds and message[0] != 99):
                return message

    def login(self, name: str, last_report: int = -1, **options: bool) -> list[Any]:
        self.send(64, 1, 1, name, "", last_report, options)
        return self.receive(96, 97)

    def close(self) -> None:
        self.context.destroy(0)

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


@dataclass
class Served:
    """A running exchange process."""

    endpoint: str
    process: "subprocess.Popen[str]"
    banner: list[str]

    @property
    def operator(self) -> str:
        """The token of the exchange's own operator credential; "" if its configuration has an operator."""
        return local_operator_token(self.endpoint)

    def kill(self) -> None:
        """Sends SIGKILL and waits for the exit."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> str:
        """Sends SIGTERM. Returns the output after the banner."""
        self.process.terminate()
        output, _ = self.process.communicate(timeout=30)
        return output


def launch(
    *options: str, endpoint: str | None = None, environment: dict[str, str] | None = None, prelude: str = ""
) -> Served:
    """Runs `serl exchange start` with extra environment variables, and returns once it is ready.

    `prelude`: Python code that runs first in the process.
    """
    endpoint = endpoint or free_endpoint()
    program = ["-c", f"{prelude}\nfrom serl.cli import main; main()"] if prelude else ["-m", "serl"]
    process = subprocess.Popen(
        [sys.executable, *program, "exchange", "start", "--endpoint", endpoint, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    assert process.stdout is not None
    banner: list[str] = []
    for line in process.stdout:
        banner.append(line.rstrip())
        if line.startswith("  journal"):
            return Served(endpoint, process, banner)
    process.stdout.close()
    process.wait(timeout=30)
    raise AssertionError(f"the exchange did not start: {banner}")


@contextmanager
def start_exchange(
    *,
    symbols: str = "AMZN,GOOG",
    clock: str = "live",
    journal: Path | None = None,
    config: dict[str, object] | None = None,
    folder: Path | None = None,
    endpoint: str | None = None,
    environment: dict[str, str] | None = None,
    prelude: str = "",
) -> Iterator[Served]:
    """A running exchange as a context manager. `config` (nested settings) is written to `folder`; pass "" for symbols or clock that it sets.
    `prelude`: as in `launch`."""
    options = [*(["--symbols", symbols] if symbols else []), *(["--clock", clock] if clock else [])]
    if journal is not None:
        options += ["--journal", str(journal)]
    if config is not None:
        assert folder is not None
        path = folder / "exchange.yaml"
        path.write_text(yaml.safe_dump(config))
        options += ["--config", str(path)]
    served = launch(*options, endpoint=endpoint, environment=environment, prelude=prelude)
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.process.terminate()
        try:
            served.process.wait(timeout=30)
        finally:
            served.process.kill()
            assert served.process.stdout is not None
            served.process.stdout.close()
