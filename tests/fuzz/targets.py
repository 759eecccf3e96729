"""What is fuzzed: a function for each kind of input, and the errors that it may raise. Anything else is a finding."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgpack
import numpy as np

from serl.agents.experiments.experiment import load_experiment
from serl.agents.traders.population import load_population
from serl.clients.news_file import read_news_file
from serl.exchange import wire
from serl.exchange.config import load_config
from serl.exchange.errors import SerlError
from serl.exchange.gateway import codec
from serl.exchange.journal.news_log import read_news
from serl.exchange.records import COMMAND
from serl.exchange.wire import RequestError
from serl.gateways.binance.errors import BinanceError
from serl.history.day import read_day
from serl.history.importing import import_day
from serl.history.source import DEFAULTS, Options
from tests.fuzz import gateways, mutation

LOBSTER_NAME = "TEST_2020-01-02_34200000_57600000_message_2.csv"
Read = Callable[[bytes, Path], object]


@dataclass(frozen=True)
class Target:
    """`read` gets the input and a folder for its file. `mutate` changes an input, given a seed; without it, any bytes change."""

    read: Read
    errors: tuple[type[Exception], ...] = (SerlError,)
    mutate: Callable[[bytes, int], bytes] | None = None

    def run(self, data: bytes, folder: Path) -> bool:
        """Whether the input is accepted. Raises what is a finding."""
        try:
            return self.read(data, folder) is not False
        except self.errors:
            return False


def _written(data: bytes, folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def _message(data: bytes, folder: Path) -> None:
    """An order in compiled code; any other message as the queries and admin sockets read it."""
    row = np.zeros(1, COMMAND)
    buffer = np.frombuffer(bytearray(data + b"\0"), np.uint8)
    accepted = codec.read_order(buffer, len(data), row[0])
    message, _ = wire.split_token(wire.unpack(data))
    if accepted and any(not wire.is_int(value) for value in message):
        raise AssertionError(f"an order that is no list of integers: {message}")
    wire.read_subscription(data)
    wire.expect(message, "[kind, ...]", *[int] * (len(message) - 1))
    assert wire.unpack(msgpack.packb(message)) == message


def _imported(name: str, options: Options = DEFAULTS) -> Read:
    return lambda data, folder: import_day(_written(data, folder, name), options)


def _lobster(data: bytes, folder: Path) -> object:
    """Two files: messages and, behind a zero byte, the book."""
    messages, _, book = data.partition(b"\0")
    _written(book, folder, LOBSTER_NAME.replace("message", "orderbook"))
    return import_day(_written(messages, folder, LOBSTER_NAME))


def _news(data: bytes, folder: Path) -> object:
    """A file of `serl news send`; and as the news of a journal, which is read to its end."""
    path = _written(data, folder, "news.csv")
    read_news(path)
    return read_news_file(path)


def _policy(data: bytes, folder: Path) -> object:
    from serl.agents.learning.policy import load_policy  # PyTorch takes a while

    return load_policy(_written(data, folder, "policy.safetensors"))


TARGETS: dict[str, Target] = {
    "message": Target(_message, (RequestError,), mutation.change_values),
    "itch": Target(_imported("file.itch")),
    "dbn": Target(_imported("file.dbn")),
    "iex": Target(_imported("file.pcap", Options(symbols=("SPY",)))),
    "pitch": Target(_imported("file.pcap")),
    "pitch_text": Target(_imported("file.txt")),
    "coinapi": Target(_imported("file.csv")),
    "depth": Target(_imported("file.depth")),
    "events": Target(_imported("file.csv")),
    "lobster": Target(_lobster),
    "zip": Target(_imported("file.zip")),
    "news": Target(_news),
    "day": Target(lambda data, folder: read_day(_written(data, folder, "day.parquet"))),
    "exchange": Target(lambda data, folder: load_config(_written(data, folder, "exchange.yaml"))),
    "population": Target(lambda data, folder: load_population(_written(data, folder, "population.yaml"))),
    "experiment": Target(lambda data, folder: load_experiment(str(_written(data, folder, "experiment.yaml")))),
    "policy": Target(_policy),
    "fix": Target(gateways.fix, (), mutation.change_fields),
    "ouch": Target(gateways.ouch, ()),
    "binance": Target(gateways.binance, (BinanceError,)),
}


def corpus(name: str) -> list[Path]:
    """The inputs that are kept for a target."""
    return sorted((Path(__file__).parent / "corpus" / name).iterdir())
