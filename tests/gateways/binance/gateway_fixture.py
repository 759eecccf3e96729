"""A real gateway process for tests, and signed requests to it."""

import base64
import hmac
import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from websockets.sync.client import ClientConnection, connect

from serl.clients.blocking import connect as connect_exchange
from tests.server_fixture import Served

PRIVATE_KEY = """-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
"""
PUBLIC_KEY = """-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
-----END PUBLIC KEY-----
"""
"""Test 1 of RFC 8032, 7.1, an Ed25519 key."""
SECRETS = {"ALICE": "alice's secret", "ANNA": PRIVATE_KEY, "BOB": "bob's secret"}
ACCOUNTS = {
    "alice": {"login": "ALICE", "secret": SECRETS["ALICE"], "balances": {"USDT": 100_000}},
    "anna": {"login": "ANNA", "public_key": PUBLIC_KEY, "balances": {"USDT": 100_000}},
    "bob": {"login": "BOB", "secret": SECRETS["BOB"], "balances": {"USDT": 100_000, "DEMO": 50}},
}
WAIT_S = 20
Parameters = dict[str, Any]


class Answer(NamedTuple):
    """An answer of REST."""

    status: int
    body: Any
    headers: dict[str, str]


def signature(payload: str, secret: str) -> str:
    """A signature with a secret, or with a private key."""
    if "PRIVATE KEY" not in secret:
        return hmac.new(secret.encode(), payload.encode(), "sha256").hexdigest()
    key = load_pem_private_key(secret.encode(), None)
    assert isinstance(key, Ed25519PrivateKey)
    return base64.b64encode(key.sign(payload.encode())).decode()


def sign(values: Parameters, secret: str) -> str:
    """The query of a signed request."""
    query = urlencode(values)
    return f"{query}&{urlencode({'signature': signature(query, secret)})}"


def now_ms() -> int:
    """A timestamp."""
    return time.time_ns() // 1_000_000


@dataclass
class Gateway:
    """A running gateway. `banner`: what it printed at its start."""

    process: "subprocess.Popen[str]"
    banner: str
    connections: list[http.client.HTTPConnection] = field(default_factory=list)

    @property
    def address(self) -> str:
        """HOST:PORT."""
        found = re.search(r"REST +http://([^/]+)/", self.banner)
        assert found is not None, self.banner
        return found.group(1)

    def ask(self, method: str, target: str, body: str | bytes = b"", headers: dict[str, str] | None = None) -> Answer:
        """Sends a request as it is."""
        if not self.connections:
            self.connections.append(http.client.HTTPConnection(self.address, timeout=WAIT_S))
        connection = self.connections[0]
        try:
            connection.request(method, target, body, headers or {})
            answer = connection.getresponse()
            data = answer.read()
        except (http.client.HTTPException, OSError):
            connection.close()
            raise
        return Answer(
            answer.status,
            json.loads(data) if data else None,
            {name.lower(): value for name, value in answer.getheaders()},
        )

    def public(self, path: str, **values: Any) -> Any:
        """A request without an account that is answered with 200."""
        answer = self.ask("GET", f"/api/v3/{path}?{urlencode(values)}")
        assert answer.status == 200, answer
        return answer.body

    def signed(self, method: str, path: str, key: str = "ALICE", secret: str | None = None, **values: Any) -> Answer:
        """A signed request."""
        query = sign({"timestamp": now_ms(), "recvWindow": 60_000, **values}, secret or SECRETS[key])
        headers = {"X-MBX-APIKEY": key, "Content-Type": "application/x-www-form-urlencoded"}
        if method == "POST":
            return self.ask(method, f"/api/v3/{path}", query, headers)
        return self.ask(method, f"/api/v3/{path}?{query}", headers=headers)

    def order(self, side: str, quantity: Any, price: Any = None, *, key: str = "ALICE", **values: Any) -> Answer:
        """A new order: LIMIT with a price, else MARKET."""
        kind = {"type": "MARKET"} if price is None else {"type": "LIMIT", "timeInForce": "GTC", "price": price}
        return self.signed(
            "POST", "order", key, **{"symbol": "DEMOUSDT", "side": side, **kind, "quantity": quantity, **values}
        )

    def placed(self, side: str, quantity: Any, price: Any = None, **values: Any) -> Any:
        """The answer to a new order that is accepted."""
        answer = self.order(side, quantity, price, **values)
        assert answer.status == 200, answer
        return answer.body

    def clear(self) -> None:
        """Cancels all orders of all accounts."""
        for key in SECRETS:
            for symbol in {order["symbol"] for order in self.signed("GET", "openOrders", key).body}:
                self.signed("DELETE", "openOrders", key, symbol=symbol)

    @contextmanager
    def socket(self, path: str) -> "Iterator[Socket]":
        """A WebSocket connection."""
        with connect(f"ws://{self.address}{path}", open_timeout=WAIT_S, compression=None) as connection:
            yield Socket(connection)

    def stop(self) -> None:
        """Ends the process."""
        for connection in self.connections:
            connection.close()
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(WAIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def kill(self) -> None:
        """Sends SIGKILL."""
        self.process.kill()
        self.stop()


class Socket:
    """A WebSocket connection whose messages are JSON."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self._number = 0

    def send(self, message: Any) -> None:
        """Sends a message."""
        self.connection.send(json.dumps(message))

    def receive(self, **wanted: Any) -> Any:
        """The next message with these values at its top or in its data; others are skipped."""
        while True:
            message = json.loads(self.connection.recv(WAIT_S))
            inner: Any = message.get("data", message.get("event", message)) if isinstance(message, dict) else {}
            if all(wanted[name] in (message.get(name), inner.get(name)) for name in wanted):
                return message

    def call(self, method: str, key: str | None = None, **values: Any) -> Any:
        """A request to the WebSocket API, signed with a key; its answer."""
        return self.receive(id=self._ask(method, key, values))

    def calls(self, key: str, *requests: tuple[str, Parameters]) -> list[Any]:
        """The answers to requests that are sent before the first of them is answered."""
        ids = [self._ask(method, key, dict(values)) for method, values in requests]
        answers: dict[int, Any] = {}
        while len(answers) < len(ids):
            message = self.receive()
            answers |= {message["id"]: message} if message.get("id") in ids else {}
        return [answers[number] for number in ids]

    def _ask(self, method: str, key: str | None, values: Parameters) -> int:
        self._number += 1
        if key is not None:
            values |= {"apiKey": key, "timestamp": now_ms(), "recvWindow": 60_000}
            payload = "&".join(f"{name}={values[name]}" for name in sorted(values))
            values["signature"] = signature(payload, SECRETS[key])
        self.send({"id": self._number, "method": method, "params": values})
        return self._number


def write_accounts(folder: Path, accounts: dict[str, Any] = ACCOUNTS) -> Path:
    """A file of accounts."""
    path = folder / "accounts.yaml"
    path.write_text(yaml.safe_dump({"accounts": accounts}))
    path.chmod(0o600)
    return path


def launch(endpoint: str, folder: Path, *options: str, listen: str = "127.0.0.1:0", prelude: str = "") -> Gateway:
    """Starts a gateway of ALICE and BOB, and returns once it serves. prelude: Python code that runs first in the process."""
    program = ["-c", f"{prelude}\nfrom serl.cli import main; main()"] if prelude else ["-m", "serl"]
    command = [sys.executable, *program, "binance", "start", "--connect", endpoint, "--listen", listen]
    command += ["--accounts", str(write_accounts(folder)), "--orders", str(folder / "orders"), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    banner = ""
    for line in process.stdout:
        banner += line
        if "account bob: API key" in line:
            return Gateway(process, banner)
    raise AssertionError(f"the gateway did not start: {banner}")


UNLIMITED = ("--weight-per-minute", "0", "--orders-per-10s", "0", "--orders-per-day", "0")


@contextmanager
def start_gateway(endpoint: str, folder: Path, *options: str, prelude: str = "") -> Iterator[Gateway]:
    """A running gateway without rate limits as a context manager. prelude: as in `launch`."""
    gateway = launch(endpoint, folder, *(options or UNLIMITED), prelude=prelude)
    try:
        yield gateway
    finally:
        gateway.stop()


def eventually(ask: Callable[[], Any], expected: Any) -> None:
    """Asks until the answer is as expected: what one session has done reaches the others a little later."""
    deadline = time.monotonic() + WAIT_S
    while (found := ask()) != expected:
        assert time.monotonic() < deadline, f"expected {expected}, got {found}"


def exchange_levels(exchange: Served, symbol: str = "DEMO") -> list[list[list[float]]]:
    """The book as the exchange itself has it: [price, quantity] of bids and asks, best first."""
    with connect_exchange(exchange.endpoint, "judge") as judge:
        sides = judge.book(symbol, 0)
    return [[[level.price_ticks / 100, float(level.qty_lots)] for level in side] for side in sides]
